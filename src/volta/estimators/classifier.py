"""For scikit-learn users: any method as a classifier with uncertainty, abstention, sets, OOD flags and explanations."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from volta.core.checks import check_count, check_features
from volta.core.errors import InputError
from volta.core.files import canonical_json
from volta.core.types import Array, FitData, Split
from volta.decisions.set_scores import ScoreName
from volta.estimators.calibration import calibrate, fit_ood_score
from volta.estimators.deciding import DEFAULT_COVERAGE, DecidingMixin, Judged
from volta.estimators.explanation import Explanation, explain_rows, fit_reference
from volta.estimators.history import ProgressLines, warn_about
from volta.estimators.inputs import UnfittedClassifierError, check_rows, check_targets, encode
from volta.estimators.prediction import predict_rows
from volta.estimators.rows import split_rows
from volta.estimators.saving import load_classifier, plain_classes, save_classifier
from volta.estimators.scaling import ScaleName, fit_scaler
from volta.methods import Method, find_method
from volta.methods.aps import Aps
from volta.methods.exporting import InputScale, export_onnx
from volta.networks.protocols import PROTOCOLS, ProtocolName
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer, pick_device


class VoltaClassifier(DecidingMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A method on your own features: probabilities, uncertainty, abstention, prediction sets, OOD flags.

    Features are scaled inside the model. Of the rows given to ``fit`` a tenth, drawn with the classes' shares, steers
    training and temperatures, and a tenth, a plain random draw that is used for nothing else, calibrates sets, policies
    and OOD flags, so that their guarantees hold for new rows that come as the rows given did.

    Parameters
    ----------
    method
        A name of ``volta.METHODS`` (see ``volta methods``), or a method with its parameters: ``Knn(k=10)``.
    encoder
        ``tabular`` or ``vision`` (features of a vision backbone): which encoder and recipe are used.
    protocol
        ``fair`` or ``paper``; see the documentation of the benchmark.
    scale
        ``standard``: mean 0 and standard deviation 1 on training rows; ``none``; ``auto``: ``standard`` for the tabular
        encoder, and for features of a vision backbone only where their columns differ in scale.
    random_state
        Decides initial weights, batches and sampling; the split of rows does not depend on it.
    max_epochs
        Train at most this long.
    keep_rows
        Keep the training rows, so that ``explain`` can show the most alike ones; they are saved with the model.
    verbose
        Write the training's progress to standard error.
    device
        ``auto``, ``cpu``, ``cuda`` or ``mps``.

    Attributes
    ----------
    classes_
        (K,) the labels, sorted; column k of the probabilities belongs to ``classes_[k]``.
    n_features_in_, feature_names_in_
        Number of columns, and their names where X had any; later calls must have the same.
    method_
        The fitted method; it sees scaled rows.
    policy_
        Which rows are answered; see ``fit_policy``.
    history_
        How each network was trained: ``val_losses``, ``best_epoch``, ``epochs``, ``max_epochs``, ``seconds``.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> names = np.array(["cat", "dog"])[np.arange(400) % 2]
    >>> rows = random.normal(size=(400, 2)) + 2.0 * (names == "dog")[:, None]
    >>> classifier = VoltaClassifier(random_state=1).fit(rows, names)
    >>> classifier.predict([[-1.0, -1.0], [3.0, 3.0]]).tolist()
    ['cat', 'dog']
    >>> classifier.predict_set([[0.0, 0.0]], alpha=0.1).shape
    (1, 2)
    >>> decisions = classifier.decide([[-1.0, -1.0], [90.0, -90.0]])
    >>> decisions[0].action, decisions[1].action
    ('answer', 'ood')
    """

    def __init__(
        self,
        method: str | Method = "volta",
        *,
        encoder: str = "tabular",
        protocol: ProtocolName = "fair",
        scale: ScaleName = "auto",
        random_state: int | np.random.RandomState | None = 42,
        max_epochs: int | None = None,
        keep_rows: bool = False,
        verbose: bool = False,
        device: str = "auto",
    ) -> None:
        self.method = method
        self.encoder = encoder
        self.protocol = protocol
        self.scale = scale
        self.random_state = random_state
        self.max_epochs = max_epochs
        self.keep_rows = keep_rows
        self.verbose = verbose
        self.device = device

    def fit(
        self,
        X: ArrayLike,  # noqa: N803
        y: ArrayLike,
        *,
        eval_set: tuple[ArrayLike, ArrayLike] | None = None,
        cal_set: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Self:
        """Fit on (n, d) features and (n,) labels of any kind that can be sorted.

        ``eval_set=(X, y)`` are rows of your own to steer training and temperatures, ``cal_set=(X, y)`` rows of your own
        to calibrate on; what is not passed is held out from X.
        """
        method = self._new_method()
        rows = check_rows(self, X, reset=True)
        targets = check_targets(self, y, len(rows))
        self.classes_, numbers = np.unique(targets, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y holds one class only ({self.classes_[0]!r}); a classifier needs at least two")
        labels = numbers.astype(np.int64)
        parts = split_rows(labels, hold_val=eval_set is None, hold_cal=cal_set is None)
        whole = Split(rows, labels)
        train = whole.take(parts.train)
        val = whole.take(parts.val) if eval_set is None else self._own_rows(eval_set, "eval_set")
        cal = whole.take(parts.cal) if cal_set is None else self._own_rows(cal_set, "cal_set")

        self.scaler_ = fit_scaler(train.inputs, self.scale, self.encoder)  # type: ignore[arg-type]
        if self.scaler_.kind == "none":
            check_features(train.inputs, "X")
        scaled = {
            name: Split(self.scaler_.apply(part.inputs), part.labels)
            for name, part in (("train", train), ("val", val), ("cal", cal))
        }
        data = FitData(**scaled, n_classes=len(self.classes_), encoder=self.encoder)  # type: ignore[arg-type]
        self._train(method, data)
        self._calibrate(data.train.inputs, val, cal)
        kept = (parts.train, train.inputs) if self.keep_rows else None
        self.reference_ = fit_reference(self.method_, data.train.inputs, train.labels, data.n_classes, kept)
        return self

    def explain(self, X: ArrayLike, *, most: int = 3) -> list[Explanation]:  # noqa: N803
        """Return for each row the nearest classes, columns out of range, and with ``keep_rows`` alike training rows.

        At most ``most`` of each. ``print`` shows an explanation in words.
        """
        rows = self._rows(X)
        names = getattr(self, "feature_names_in_", None)
        return explain_rows(
            rows,
            method=self.method_,
            scaler=self.scaler_,
            guard=self.ood_score_.guard,
            reference=self.reference_,
            prediction=predict_rows(self.method_, self.scaler_, rows),
            classes=self.classes_,
            names=None if names is None else [str(name) for name in names],
            most=check_count(most, "most"),
        )

    def save(self, path: Path | str) -> None:
        """Write the fitted classifier to one sealed safetensors file; nothing is pickled."""
        self._fitted()
        state = {name: getattr(self, name) for name in _STATE}
        if hasattr(self, "feature_names_in_"):
            state["feature_names_in_"] = [str(name) for name in self.feature_names_in_]
        parameters = self.get_params(deep=False)
        if not isinstance(self.random_state, int | np.integer | None):
            parameters["random_state"] = self.seed_
        save_classifier(Path(path), self.method_, parameters, state, self.classes_)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Return the classifier that :meth:`save` wrote; a file that was altered or cut off is refused."""
        method, parameters, state, classes = load_classifier(Path(path))
        classifier = cls(**parameters)
        classifier.method_ = method
        classifier.classes_ = classes
        for name, value in state.items():
            setattr(classifier, name, value)
        if "feature_names_in_" in state:
            classifier.feature_names_in_ = np.array(state["feature_names_in_"], dtype=object)
        classifier.policy_ = classifier.calibration_.policy(**state["policy_settings_"])
        return classifier

    def to_onnx(self, path: Path | str) -> None:
        """Write an ONNX graph from float32 ``inputs`` (n, d) to ``probs`` (n, K) and ``uncertainty`` (n,).

        Scaling is part of the graph. For methods that are one pass of one network: volta, softmax, temperature, energy
        and linear. The model's metadata holds ``classes``, the labels in the order of the columns, and
        ``abstain_above``, the uncertainty above which ``policy_`` abstains (null: never), both as JSON.
        """
        self._fitted()
        threshold = self.policy_.threshold if self.policy_.exists else -1.0
        notes = {
            "classes": canonical_json(plain_classes(self.classes_)),
            "abstain_above": canonical_json(threshold if np.isfinite(threshold) else None),
        }
        scale = InputScale(self.scaler_.centre, self.scaler_.scale, self.scaler_.limit)
        export_onnx(self.method_, Path(path), notes, scale)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibration_")

    def _new_method(self) -> Method:
        if self.encoder not in ("tabular", "vision"):
            raise InputError(f"encoder is {self.encoder!r}; pass tabular or vision")
        if self.protocol not in PROTOCOLS:
            raise InputError(f"protocol is {self.protocol!r}; pass one of {', '.join(PROTOCOLS)}")
        if isinstance(self.method, Method):
            return copy.deepcopy(self.method)
        if not isinstance(self.method, str):
            raise InputError(f"method is {self.method!r}; pass a name or a Method, e.g. 'volta' or Knn(k=10)")
        return find_method(self.method).method

    def _train(self, method: Method, data: FitData) -> None:
        state = self.random_state
        # A whole number is the seed itself, so that the estimator and the benchmark train alike.
        drawn = not isinstance(state, int | np.integer)
        self.seed_ = int(check_random_state(state).randint(2**31 - 1)) if drawn else int(state)  # type: ignore[arg-type]
        trainer = Trainer(
            seed=self.seed_,
            protocol=self.protocol,
            budget=Budget(max_epochs=self.max_epochs),
            device=pick_device(self.device),
            on_epoch=ProgressLines() if self.verbose else None,
        )
        self.method_ = method.fit(data, trainer)
        self.history_ = tuple(trainer.trainings.values())
        warn_about(self.history_)

    def _calibrate(self, scaled_train: Array, val: Split, cal: Split) -> None:
        judged_val = predict_rows(self.method_, self.scaler_, val.inputs)
        self.ood_score_ = fit_ood_score(self.scaler_, scaled_train, val.inputs, judged_val)
        judged_cal = predict_rows(self.method_, self.scaler_, cal.inputs)
        ood = self.ood_score_.of(cal.inputs, judged_cal)
        self.set_score_: ScoreName = "aps" if isinstance(self.method_, Aps) else "lac"
        self.calibration_ = calibrate(judged_cal, cal.labels, ood, judged_val.uncertainty)
        self.fit_policy(coverage=DEFAULT_COVERAGE)

    def _own_rows(self, given: tuple[ArrayLike, ArrayLike], name: str) -> Split:
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise InputError(f"{name} is {type(given).__name__}; pass a pair (X, y)")
        rows = check_rows(self, given[0], name=f"{name}[0]")
        targets = check_targets(self, given[1], len(rows), f"{name}[1]")
        return Split(rows, encode(targets, self.classes_, f"{name}[1]"))

    def _rows(self, X: Any) -> Array:  # noqa: N803
        self._fitted()
        return check_rows(self, X)

    def _judge(self, X: Any) -> Judged:  # noqa: N803
        rows = self._rows(X)
        prediction = predict_rows(self.method_, self.scaler_, rows)
        return Judged(prediction, self.ood_score_.of(rows, prediction))

    def _fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise UnfittedClassifierError(f"{type(self).__name__} is not fitted; call fit before using it")


_STATE = (
    "n_features_in_",
    "scaler_",
    "calibration_",
    "ood_score_",
    "reference_",
    "history_",
    "set_score_",
    "seed_",
    "policy_settings_",
)
