"""For scikit-learn users: any method as a classifier with uncertainty, abstention, sets and OOD flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from volta.core.checks import check_features, check_fraction
from volta.core.errors import InputError, NotFittedError
from volta.core.files import canonical_json
from volta.core.quantile import conformal_quantile
from volta.core.seeding import SPLIT_SEED, rng
from volta.core.types import Array, FitData, Prediction, Split
from volta.data.splits import split_fit_rows
from volta.methods import METHODS, find_method
from volta.methods.exporting import export_onnx
from volta.methods.saving import load_method, save_method
from volta.networks.protocols import ProtocolName
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer, pick_device

HELD_OUT = 0.2


class VoltaClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A method on your own features: probabilities, uncertainty, abstention, prediction sets, OOD flags.

    A fifth of the rows given to ``fit`` is held out, stratified: half steers training and temperatures, half calibrates
    thresholds and prediction sets, so those keep their guarantees.

    Parameters
    ----------
    method
        A name of ``volta.methods.METHODS``; see ``volta methods``.
    encoder
        ``tabular`` or ``vision`` (features of a vision backbone): which encoder and recipe are used.
    protocol
        ``fair`` or ``paper``; see the documentation of the benchmark.
    random_state
        Decides initial weights, batches and sampling; the split of rows does not depend on it.
    max_epochs
        Train at most this long.
    device
        ``auto``, ``cpu``, ``cuda`` or ``mps``.

    Attributes
    ----------
    classes_
        (K,) the labels, sorted; column k of the probabilities belongs to ``classes_[k]``.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> names = np.array(["cat", "dog"])[np.arange(200) % 2]
    >>> rows = random.normal(size=(200, 2)) + 2.0 * (names == "dog")[:, None]
    >>> classifier = VoltaClassifier(random_state=1).fit(rows, names)
    >>> classifier.predict([[-1.0, -1.0], [3.0, 3.0]]).tolist()
    ['cat', 'dog']
    >>> classifier.predict_set([[0.0, 0.0]], alpha=0.1).shape
    (1, 2)
    """

    def __init__(
        self,
        method: str = "volta",
        *,
        encoder: str = "tabular",
        protocol: ProtocolName = "fair",
        random_state: int = 42,
        max_epochs: int | None = None,
        device: str = "auto",
    ) -> None:
        self.method = method
        self.encoder = encoder
        self.protocol = protocol
        self.random_state = random_state
        self.max_epochs = max_epochs
        self.device = device

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803
        """Fit on (n, d) features and (n,) labels of any kind that can be sorted."""
        features = check_features(X, "X")
        if self.encoder not in ("tabular", "vision"):
            raise InputError(f"encoder is {self.encoder!r}; pass tabular or vision")
        targets = np.asarray(y)
        if targets.shape != (len(features),):
            raise InputError(f"y has shape {targets.shape}; pass one label for each of the {len(features)} rows of X")
        classes, labels = np.unique(targets, return_inverse=True)
        if (rarest := int(np.bincount(labels).min())) < 2:
            raise InputError(f"y has a class with {rarest} row; fit needs 2 of each, to train on and to hold out")
        if len(classes) < 2:
            raise InputError(f"y holds one class only ({classes[0]!r}); a classifier needs at least two")
        data = _split(features, labels.astype(np.int64), len(classes), self.encoder)
        trainer = Trainer(
            seed=self.random_state,
            protocol=self.protocol,
            budget=Budget(max_epochs=self.max_epochs),
            device=pick_device(self.device),
        )
        method = find_method(self.method).method.fit(data, trainer)
        calibration = method.predict(data.cal.inputs)
        self.classes_ = classes
        self.n_features_in_ = features.shape[1]
        self.method_ = method
        self.true_scores_ = 1.0 - calibration.probs[np.arange(len(data.cal)), data.cal.labels]
        self.uncertainties_ = np.sort(calibration.uncertainty)
        self.ood_scores_ = np.sort(calibration.ood_score)
        return self

    def predict_full(self, X: ArrayLike) -> Prediction:  # noqa: N803
        """Return probabilities, uncertainty, OOD score and sets in one pass."""
        prediction: Prediction = self.method_.predict(check_features(X, "X"))
        return prediction

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Return (n, K) class probabilities."""
        return self.predict_full(X).probs

    def predict(self, X: ArrayLike) -> Array:  # noqa: N803
        """Return the most probable label of each row."""
        return np.asarray(self.classes_[self.predict_full(X).labels])

    def uncertainty(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """Return the method's uncertainty, higher where less certain."""
        return self.predict_full(X).uncertainty

    def predict_or_abstain(self, X: ArrayLike, coverage: float = 0.9, abstain: Any = None) -> Array:  # noqa: N803
        """Return labels, with ``abstain`` where a row is less certain than the given share of calibration rows."""
        threshold = np.quantile(self.uncertainties_, check_fraction(coverage, "coverage"))
        prediction = self.predict_full(X)
        labels = self.classes_[prediction.labels].astype(object)
        labels[prediction.uncertainty > threshold] = abstain
        return np.asarray(labels)

    def predict_set(self, X: ArrayLike, alpha: float = 0.1) -> NDArray[np.bool_]:  # noqa: N803
        """Return (n, K) sets that hold the true class with probability at least 1 − alpha for exchangeable rows."""
        quantile = conformal_quantile(self.true_scores_, alpha)
        return np.asarray(1.0 - self.predict_full(X).probs <= quantile)

    def is_ood(self, X: ArrayLike, fpr: float = 0.05) -> NDArray[np.bool_]:  # noqa: N803
        """Flag rows whose OOD score is beyond what the given share of calibration rows reaches."""
        threshold = np.quantile(self.ood_scores_, 1.0 - check_fraction(fpr, "fpr"))
        return np.asarray(self.predict_full(X).ood_score > threshold)

    def save(self, path: Path | str) -> None:
        """Write the fitted classifier to one safetensors file; nothing is pickled."""
        extra = {name: getattr(self, name) for name in _LEARNED}
        if extra["classes_"].dtype.kind not in "iufb":
            extra["classes_"] = self._plain_classes()
        registered = self.method if self.method in METHODS else "volta"
        save_method(self.method_, registered, Path(path), {"parameters": self.get_params(), "learned": extra})

    def to_onnx(self, path: Path | str) -> None:
        """Write an ONNX graph from float32 ``inputs`` (n, d) to ``probs`` (n, K) and ``uncertainty`` (n,).

        For methods that are one pass of one network: volta, softmax, temperature, energy and linear. The model's
        metadata holds ``classes``, the labels in the order of the columns, and ``abstain_above``, the uncertainty that
        nine tenths of the calibration rows stay below, both as JSON.
        """
        notes = {
            "classes": canonical_json(list(self._plain_classes())),
            "abstain_above": canonical_json(float(np.quantile(self.uncertainties_, 0.9))),
        }
        export_onnx(self.method_, Path(path), notes)

    def _plain_classes(self) -> list[Any]:
        """Return the labels as plain numbers or strings, or say that they are neither."""
        if self.classes_.dtype.kind in "iufb":
            return list(self.classes_.tolist())
        if not all(isinstance(label, str) for label in self.classes_):
            raise InputError("labels are neither all numbers nor all strings; make them so before fit to save them")
        return [str(label) for label in self.classes_]

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Return the classifier that :meth:`save` wrote."""
        method, extra = load_method(Path(path), METHODS)
        if "parameters" not in extra:
            raise InputError(f"{path} holds a bare method, not a classifier; load it with volta.methods.saving")
        classifier = cls(**extra["parameters"])
        classifier.method_ = method
        for name, value in extra["learned"].items():
            setattr(classifier, name, value)
        classifier.classes_ = np.asarray(classifier.classes_)
        return classifier

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):
            raise NotFittedError("VoltaClassifier is not fitted; call fit before using it")
        raise AttributeError(f"'VoltaClassifier' object has no attribute {name!r}")


_LEARNED = ("classes_", "n_features_in_", "true_scores_", "uncertainties_", "ood_scores_")


def _split(features: Array, labels: NDArray[np.int64], n_classes: int, encoder: Any) -> FitData:
    n_held_out = max(2, round(HELD_OUT * len(labels)))
    if len(labels) < 10:
        raise InputError(f"X has {len(labels)} rows; fit needs at least 10 to hold some out")
    random = rng(SPLIT_SEED, "estimator", "splits")
    rows = split_fit_rows(labels, n_held_out // 2, n_held_out - n_held_out // 2, random)
    whole = Split(features, labels)
    train, val, cal = (whole.take(part) for part in rows)
    return FitData(train, val, cal, n_classes=n_classes, encoder=encoder)
