"""Post-hoc methods on your own network's outputs, with the same calibrated decisions as the classifier."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from volta.core.checks import refuse_mask
from volta.core.copies import all_of, copy_groups, first_of_each
from volta.core.errors import InputError, VoltaWarning
from volta.core.scaling import LARGEST_INPUT
from volta.core.seeding import rng
from volta.core.types import Prediction
from volta.core.user_warning import warn_user
from volta.decisions import fit_combination, fit_guard
from volta.decisions.set_scores import ScoreName
from volta.estimators.calibration import FeatureOodScore, calibrate, output_scores
from volta.estimators.deciding import DEFAULT_COVERAGE, DecidingMixin, Judged
from volta.estimators.inputs import UnfittedClassifierError
from volta.estimators.prediction import predict_outputs
from volta.estimators.rows import check_unseen
from volta.estimators.saving import file_path, load_classifier, restore_state, save_classifier
from volta.estimators.training import seed_of
from volta.methods import METHODS, Method, find_method
from volta.methods.aps import Aps
from volta.methods.post_hoc import PostHoc
from volta.methods.saving import MODEL_FILE
from volta.networks.outputs import LabelledOutputs, Outputs

PROBABILITY_TOLERANCE = 1e-3
"""How far from 1 a row of logits may sum and still be taken for probabilities."""


class ProbabilitiesAsLogitsWarning(VoltaWarning):
    """What was passed as logits looks like probabilities."""


class EqualScoresWarning(VoltaWarning):
    """A method gives all rows the same score, so that nothing can be decided by it."""


class PostHocClassifier(DecidingMixin, BaseEstimator):  # type: ignore[misc]
    """A post-hoc method on any network's outputs: arrays from PyTorch, JAX or a file of logits.

    What :class:`VoltaClassifier` offers for features (sets, policies, OOD flags, decisions, a monitor) is here offered
    for outputs: X is an `Outputs`, a `LabelledOutputs`, whose labels are left alone, or an array of logits for methods
    that need no more.

    Parameters
    ----------
    method
        A name of a post-hoc method (``temperature``, ``energy``, ``mahalanobis``, ``vim``, ``knn``, ...), or one with
        its parameters: ``METHODS["knn"](k=10)``.
    random_state
        Decides what the method draws and how ``cal`` is halved.

    Attributes
    ----------
    classes_
        (K,) the class numbers 0 … K − 1.
    method_, policy_
        The fitted method, and which rows are answered; see ``fit_policy``.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> labels = random.integers(3, size=600)
    >>> logits = random.normal(size=(600, 3)) + 3.0 * np.eye(3)[labels]
    >>> from volta import LabelledOutputs, Outputs
    >>> classifier = PostHocClassifier("temperature").fit(cal=LabelledOutputs(Outputs(logits), labels))
    >>> classifier.decide(logits[:2]).to_array().dtype.names[:2]
    ('action', 'label')
    """

    def __init__(
        self, method: str | PostHoc = "temperature", *, random_state: int | np.random.RandomState | None = 42
    ) -> None:
        self.method = method
        self.random_state = random_state

    def fit(
        self,
        train: LabelledOutputs | None = None,
        *,
        val: LabelledOutputs | None = None,
        cal: LabelledOutputs | None = None,
    ) -> Self:
        """Fit from outputs on the rows the network trained on and on rows it did not.

        ``train``: for methods that learn from training rows (mahalanobis, knn, vim, gmm, ...); ``cal``: rows that
        neither trained nor tuned the network, drawn as new rows will be; ``val``: further such rows, for temperatures
        and for joining scores. Without ``val`` a random half of ``cal`` takes its place.
        """
        method = self._new_method()
        if cal is None:
            raise InputError("cal is missing; pass cal=LabelledOutputs(...) of rows the network did not train on")
        for name, rows in (("train", train), ("val", val), ("cal", cal)):
            if not isinstance(rows, LabelledOutputs | None):
                raise InputError(f"{name} is {type(rows).__name__}; pass LabelledOutputs(Outputs(logits), labels)")
            if rows is not None:
                _check_size(rows.outputs, name)
                _check_scale(rows.outputs, name)
        for learned in (train, val):
            if learned is not None:
                check_unseen(cal.outputs.logits, learned.outputs.logits, "cal")
        self.seed_ = seed_of(self.random_state)
        if val is None:
            val, cal = _halves(cal, self.seed_)
        # A method with a threshold of its own finds it on validation rows: calibration rows are for nothing else.
        self.method_ = method.fit_from_outputs(train=train, val=val, cal=val, random_state=self.seed_)
        self.classes_: NDArray[Any] = np.arange(cal.outputs.n_classes)
        self.set_score_: ScoreName = "aps" if isinstance(self.method_, Aps) else "lac"
        features = None if train is None else train.outputs.features
        guard = None if features is None or val.outputs.features is None else fit_guard(features)
        judged_val = self._predict(val.outputs)
        _check_scores(self.method_, judged_val)
        self.ood_score_ = FeatureOodScore(guard, fit_combination(*output_scores(guard, val.outputs, judged_val)))
        judged_cal = self._predict(cal.outputs)
        ood = self.ood_score_.of(cal.outputs, judged_cal).scores
        self.calibration_ = calibrate(judged_cal, cal.labels, ood, judged_val.uncertainty)
        self._set_policy(coverage=DEFAULT_COVERAGE)
        return self

    def save(self, path: Path | str) -> None:
        """Write the fitted classifier, without the network, to one sealed safetensors file."""
        self._fitted()
        state = {name: getattr(self, name) for name in _STATE}
        parameters = self.get_params(deep=False)
        if not isinstance(self.random_state, int | np.integer | None):
            parameters["random_state"] = self.seed_
        save_classifier(file_path(path), self.method_, parameters, state, self.classes_)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Return the classifier that :meth:`save` wrote; a file that was altered or cut off is refused."""
        method, parameters, state, classes = load_classifier(Path(path), "PostHocClassifier")
        with MODEL_FILE.making(path):
            classifier = cls(**parameters)
            classifier.method_ = cast(PostHoc, method)
            classifier.classes_ = classes
            restore_state(classifier, state, _STATE)
            classifier.policy_ = classifier.calibration_.policy(**state["policy_settings_"])
        return classifier

    def to_onnx(self, path: Path | str, *, alpha: float = 0.1, fpr: float = 0.05) -> None:
        """Write an ONNX graph from the network's outputs to what :meth:`decide` says of them.

        Its inputs are ``logits`` (n, K) float32 and, where ``fit`` had training features, ``features`` (n, w) float32;
        put it behind the graph of the network itself. Outputs and metadata are those of
        :meth:`VoltaClassifier.to_onnx`.
        """
        from volta.estimators.exporting import export_post_hoc, fix_rules

        self._fitted()
        export_post_hoc(self, self.method_, self.ood_score_, fix_rules(self, alpha, fpr), file_path(path))

    def _new_method(self) -> PostHoc:
        method: Method = (
            copy.deepcopy(self.method) if isinstance(self.method, Method) else find_method(self.method).method
        )
        if not isinstance(method, PostHoc):
            possible = ", ".join(name for name, kind in METHODS.items() if issubclass(kind, PostHoc))
            raise InputError(f"method is {self.method!r}, which trains a network of its own; pass one of {possible}")
        return method

    def _judge(self, X: Outputs | LabelledOutputs | ArrayLike) -> Judged:  # noqa: N803
        self._fitted()
        refuse_mask(X, "X")
        given = X.outputs if isinstance(X, LabelledOutputs) else X
        outputs = given if isinstance(given, Outputs) else Outputs(cast(Any, given))
        if outputs.n_classes != len(self.classes_):
            raise InputError(f"X has {outputs.n_classes} logits a row but the fit had {len(self.classes_)}; pass those")
        guard = self.ood_score_.guard
        if guard is not None and outputs.features is not None and outputs.features.shape[1] != len(guard.low):
            raise InputError(
                f"X has features of {outputs.features.shape[1]} columns but the fit's had {len(guard.low)}; pass those"
            )
        _check_size(outputs, "X")
        prediction = self._predict(outputs)
        return Judged(prediction, lambda: self.ood_score_.of(outputs, prediction))

    def _predict(self, outputs: Outputs) -> Prediction:
        return predict_outputs(self.method_, outputs, len(self.classes_))

    def _fitted(self) -> None:
        if not hasattr(self, "calibration_"):
            raise UnfittedClassifierError(f"{type(self).__name__} is not fitted; call fit before using it")


def _check_size(outputs: Outputs, name: str) -> None:
    """Refuse logits so large that they say nothing: softmax would make them a certain answer."""
    large = np.abs(outputs.logits) > LARGEST_INPUT
    if large.any():
        row = int(np.argmax(large.any(axis=1)))
        value = outputs.logits[row][large[row]][0]
        raise InputError(
            f"{name} row {row} has the logit {value:g}, beyond {LARGEST_INPUT:g}; check what the network saw"
        )


def _check_scale(outputs: Outputs, name: str) -> None:
    """Say so where logits look like probabilities: each row's softmax would be nearly uniform."""
    logits = outputs.logits
    if len(logits) > 1 and logits.min() >= 0 and np.abs(logits.sum(axis=1) - 1).max() < PROBABILITY_TOLERANCE:
        warn_user(
            f"{name} holds logits that are non-negative and sum to 1 in every row, as probabilities do; "
            "pass Outputs(np.log(probs)) if they are",
            ProbabilitiesAsLogitsWarning,
        )


def _check_scores(method: PostHoc, judged: Prediction) -> None:
    """Say so where a method cannot tell rows apart, as energies of log-probabilities cannot: all are 0."""
    if len(judged) > 1 and np.ptp(judged.uncertainty) == 0:
        warn_user(
            f"{method.title} gives all {len(judged)} validation rows the same uncertainty; pass logits as the network "
            "gives them, not logarithms of probabilities, or take another method (softmax)",
            EqualScoresWarning,
        )


def _halves(rows: LabelledOutputs, seed: int) -> tuple[LabelledOutputs, LabelledOutputs]:
    """Return rows to fit on and rows to calibrate with; copies of one row stay together and calibrate once.

    Copies are told by features: logits of many rows are alike where a network is sure.
    """
    if len(rows.labels) < 2:
        raise InputError("cal has 1 row; pass at least 2, or val=LabelledOutputs(...) too")
    features = rows.outputs.features
    copies = None if features is None else copy_groups(features, rows.labels)
    n_rows = len(rows.labels) if copies is None else int(copies.max()) + 1
    order = rng(seed, "post_hoc", "halves").permutation(n_rows)
    fitted, held_out = np.split(order, [n_rows // 2])
    if copies is not None:
        fitted, held_out = all_of(copies, fitted), first_of_each(copies)[held_out]
    return _take(rows, np.sort(fitted)), _take(replace(rows, weights=None), np.sort(held_out))


def _take(rows: LabelledOutputs, index: NDArray[np.int64]) -> LabelledOutputs:
    found = rows.outputs
    features = None if found.features is None else found.features[index]
    weights = None if rows.weights is None else rows.weights[index]
    return LabelledOutputs(Outputs(found.logits[index], features, found.last_layer), rows.labels[index], weights)


_STATE = ("calibration_", "ood_score_", "set_score_", "seed_", "policy_settings_")
