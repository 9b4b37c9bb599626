"""Post-hoc methods on your own network's outputs, with the same calibrated decisions."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from volta.core.checks import refuse_mask, without_graph
from volta.core.errors import InputError, VoltaWarning, warn_user
from volta.core.scaling import LARGEST_INPUT
from volta.core.seeding import rng
from volta.core.splits import all_of, duplicate_groups, first_of_each
from volta.core.types import Array, Prediction
from volta.decisions import TableEvidence, fit_evidence
from volta.decisions.conformal import Floats, ScoreName
from volta.estimators.classifier import seed_of
from volta.estimators.deciding import (
    DEFAULT_COVERAGE,
    DecidingMixin,
    calibrate,
    evidence_scores,
    hold_out,
    predict_outputs,
)
from volta.estimators.inputs import check_unseen
from volta.estimators.saving import file_path, load_classifier, restore_state, save_classifier
from volta.methods import METHODS, Method, find_method
from volta.methods.base import PostHoc
from volta.methods.conformal import Aps
from volta.methods.saving import MODEL_FILE
from volta.networks.outputs import LabelledOutputs, LastLayer, Outputs


def outputs_of(
    model: nn.Module, loader: Iterable[Any], *, layer: str | None = None, verbose: bool = False
) -> LabelledOutputs | Outputs:
    """Run a network over batches and return what post-hoc methods need of it; see `PostHocClassifier`.

    The last linear layer that is called (or the one named ``layer``, as in ``model.named_modules()``) is watched: what
    goes in are the features, what comes out the logits. The network runs in evaluation mode on the device its weights
    are on, and is left as it was.
    loader: batches ``(inputs, labels)``, which give `LabelledOutputs`, or ``inputs``, which give `Outputs`; a PyTorch
    DataLoader or any other iterable. Inputs are a tensor, or a dict of tensors by argument, as Hugging Face's are,
    whose ``labels`` are taken out. ``verbose`` writes the progress to standard error.

    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> found = outputs_of(network, [(torch.zeros(5, 4), torch.tensor([0, 1, 2, 0, 1]))])
    >>> found.outputs.logits.shape, found.outputs.features.shape, found.outputs.last_layer.weight.shape
    ((5, 3), (5, 8), (3, 8))
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"model is a {type(model).__name__}; pass a torch.nn.Module")
    if isinstance(loader, Tensor | Mapping):
        raise InputError(
            f"loader is one {type(loader).__name__}; pass batches: a DataLoader, or a list of one, [batch]"
        )
    weight = next(model.parameters(), None)
    device = torch.device("cpu") if weight is None else weight.device
    logits: list[Array] = []
    features: list[Array] = []
    labels: list[Array] = []
    last: nn.Linear | None = None
    n_rows = 0
    with _watched(model, layer) as calls, evaluating(model), torch.inference_mode():
        for batch in loader:
            pair = isinstance(batch, tuple | list) and len(batch) == 2
            inputs = batch[0] if pair else batch
            named = dict(inputs) if isinstance(inputs, Mapping) else {}
            own = named.pop("labels", None)
            if not isinstance(inputs, Tensor) and not (named and all(isinstance(v, Tensor) for v in named.values())):
                raise InputError(
                    f"loader gives a {type(batch).__name__}; expected batches (inputs, labels) or inputs, a tensor "
                    "or a dict of tensors, which the model takes by name"
                )
            calls.clear()
            if named:
                model(**{name: value.to(device) for name, value in named.items()})
            else:
                model(inputs.to(device))
            if not calls:
                raise InputError("model called no linear layer; name the last one with layer=")
            last, seen, given = calls[-1]
            if seen.ndim != 2:
                raise InputError(f"the last layer's input has shape {tuple(seen.shape)}; name one that sees (n, width)")
            features.append(seen.float().cpu().numpy())
            logits.append(given.double().cpu().numpy())
            if pair or own is not None:
                labels.append(np.asarray(without_graph(batch[1] if pair else own)))
            n_rows += len(seen)
            if verbose:
                print(f"{n_rows} rows", file=sys.stderr, flush=True)
    if last is None:
        raise InputError("loader is empty; pass at least one batch")
    outputs = Outputs(np.concatenate(logits), np.concatenate(features), _last_layer(last))
    if not labels:
        return outputs
    return LabelledOutputs(outputs, _whole_numbers(np.concatenate(labels)))


def _whole_numbers(labels: Array) -> NDArray[np.int64]:
    if labels.ndim != 1 or not np.array_equal(labels, labels.astype(np.int64)):
        raise InputError(
            f"loader gives labels of shape {labels.shape} and {labels.dtype}; expected (n,) whole numbers, the class "
            "of each row: take the argmax of one-hot or mixed labels"
        )
    return labels.astype(np.int64)


@contextmanager
def _watched(model: nn.Module, layer: str | None) -> Iterator[list[tuple[nn.Linear, Tensor, Tensor]]]:
    """Give a list to which every watched layer adds itself, its input and its output when it is called."""
    calls: list[tuple[nn.Linear, Tensor, Tensor]] = []
    modules = dict(model.named_modules())
    if layer is not None and not isinstance(modules.get(layer), nn.Linear):
        linear = [name for name, module in modules.items() if isinstance(module, nn.Linear)]
        raise InputError(f"layer is {layer!r}, which is no linear layer of the model; pass one of {', '.join(linear)}")
    watched = modules.values() if layer is None else [modules[layer]]

    def keep(module: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        calls.append((module, inputs[0], output))

    handles = [module.register_forward_hook(keep) for module in watched if isinstance(module, nn.Linear)]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a network into evaluation mode, and back after."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _last_layer(layer: nn.Linear) -> LastLayer:
    weight = layer.weight.detach().float().cpu().numpy()
    # A layer built without a bias has None there, whatever its annotation says.
    bias: Any = layer.bias
    return LastLayer(weight, np.zeros(len(weight), np.float32) if bias is None else bias.detach().float().cpu().numpy())


PROBABILITY_TOLERANCE = 1e-3
"""How far from 1 a row of logits may sum and still be taken for probabilities."""


class ProbabilitiesAsLogitsWarning(VoltaWarning):
    """What was passed as logits looks like probabilities."""


class EqualScoresWarning(VoltaWarning):
    """A method gives all rows the same score, so that nothing can be decided by it."""


@dataclass(frozen=True, eq=False)
class OutputsMember:
    """The fit on a network's outputs; ``evidence`` is of its penultimate vectors, where training rows have them."""

    method: PostHoc
    n_classes: int
    evidence: TableEvidence | None

    def predict(self, inputs: Outputs) -> Prediction:
        """Return what the method says of the outputs."""
        return predict_outputs(self.method, inputs, self.n_classes)

    def evidence_of(self, inputs: Outputs, prediction: Prediction) -> Floats:
        """Return (n, m) OOD scores of the outputs, the method's own last."""
        rows = inputs.logits if self.evidence is None else inputs.need_features()
        return evidence_scores(self.evidence, rows, prediction)


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

    members_: list[OutputsMember]

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
        and for start points of policies. Without ``val`` a random half of ``cal`` takes its place.
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
            # Never by logits alone: those of trees tie.
            if learned is not None and learned.outputs.features is not None and cal.outputs.features is not None:
                check_unseen(_columns(cal.outputs), _columns(learned.outputs), "cal")
        self.seed_ = seed_of(self.random_state)
        if val is None:
            val, cal = _halves(cal, self.seed_)
        # A method with a threshold of its own finds it on validation rows: calibration samples are for nothing else.
        self.method_ = method.fit_from_outputs(train=train, val=val, cal=val, random_state=self.seed_)
        self.classes_: NDArray[Any] = np.arange(cal.outputs.n_classes)
        self.set_score_: ScoreName = "aps" if isinstance(self.method_, Aps) else "lac"
        features = None if train is None else train.outputs.features
        evidence = None if train is None or features is None else fit_evidence(features, train.labels)
        self.members_ = [OutputsMember(self.method_, len(self.classes_), evidence)]
        _check_scores(self.method_, self.members_[0].predict(val.outputs))
        self.calibration_ = calibrate([hold_out(self.members_[0], cal.outputs, cal.labels, val.outputs)])
        self._set_policy(coverage=DEFAULT_COVERAGE)
        return self

    def save(self, path: Path | str) -> None:
        """Write the fitted classifier, without the network, to one safetensors file with a checksum."""
        self._fitted()
        state = {name: getattr(self, name) for name in _STATE} | {"evidence": self.members_[0].evidence}
        save_classifier(self, path, [self.method_], state)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Return the classifier that :meth:`save` wrote; a file that was altered or cut off raises."""
        methods, parameters, state, classes = load_classifier(Path(path), "PostHocClassifier")
        with MODEL_FILE.parsing(path):
            classifier = cls(**parameters)
            classifier.method_ = cast(PostHoc, methods[0])
            classifier.members_ = [OutputsMember(classifier.method_, len(classes), state.pop("evidence"))]
            restore_state(classifier, classes, state, _STATE)
        return classifier

    def to_onnx(self, path: Path | str, *, alpha: float = 0.1, fpr: float = 0.05) -> None:
        """Write an ONNX graph from the network's outputs to what :meth:`decide` says of them.

        Its inputs are ``logits`` (n, K) float32 and, where ``fit`` had training features, ``features`` (n, w) float32;
        put it behind the graph of the network itself. Outputs and metadata are those of
        :meth:`VoltaClassifier.to_onnx`.
        """
        from volta.estimators.onnx import export_post_hoc, fix_rules

        self._fitted()
        export_post_hoc(self, self.members_[0], fix_rules(self, alpha, fpr), file_path(path))

    def _new_method(self) -> PostHoc:
        method: Method = (
            copy.deepcopy(self.method) if isinstance(self.method, Method) else find_method(self.method).method
        )
        if not isinstance(method, PostHoc):
            possible = ", ".join(name for name, kind in METHODS.items() if issubclass(kind, PostHoc))
            raise InputError(f"method is {self.method!r}, which trains a network of its own; pass one of {possible}")
        return method

    def _inputs(self, X: Outputs | LabelledOutputs | ArrayLike) -> Outputs:  # noqa: N803
        """Return X as outputs that fit the ones of ``fit``."""
        self._fitted()
        refuse_mask(X, "X")
        given = X.outputs if isinstance(X, LabelledOutputs) else X
        outputs = given if isinstance(given, Outputs) else Outputs(cast(Any, given))
        if outputs.n_classes != len(self.classes_):
            raise InputError(f"X has {outputs.n_classes} logits a row but the fit had {len(self.classes_)}; pass those")
        evidence = self.members_[0].evidence
        if evidence is not None and outputs.need_features().shape[1] != len(evidence.high):
            raise InputError(
                f"X has features of {outputs.need_features().shape[1]} columns but the fit's had {len(evidence.high)}; "
                "pass those"
            )
        _check_size(outputs, "X")
        return outputs


def _columns(outputs: Outputs) -> Array:
    return np.hstack([outputs.need_features(), outputs.logits])


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


def _check_scores(method: PostHoc, predicted: Prediction) -> None:
    """Say so where a method cannot tell rows apart, as energies of log-probabilities cannot: all are 0."""
    if len(predicted) > 1 and np.ptp(predicted.uncertainty) == 0:
        warn_user(
            f"{method.title} gives all {len(predicted)} validation rows the same uncertainty; pass logits as the "
            "network gives them, not logarithms of probabilities, or take another method (softmax)",
            EqualScoresWarning,
        )


def _halves(rows: LabelledOutputs, seed: int) -> tuple[LabelledOutputs, LabelledOutputs]:
    """Return rows to fit on and rows to calibrate with; duplicates stay together and calibrate once.

    Duplicates are found by features: logits of many rows are equal where a network is certain, and those of trees tie.
    """
    if len(rows.labels) < 2:
        raise InputError("cal has 1 row; pass at least 2, or val=LabelledOutputs(...) too")
    features = rows.outputs.features
    duplicates = None if features is None else duplicate_groups(features, rows.labels)
    n_rows = len(rows.labels) if duplicates is None else int(duplicates.max()) + 1
    order = rng(seed, "post_hoc", "halves").permutation(n_rows)
    fitted, held_out = np.split(order, [n_rows // 2])
    if duplicates is not None:
        fitted, held_out = all_of(duplicates, fitted), first_of_each(duplicates)[held_out]
    return _take(rows, np.sort(fitted)), _take(replace(rows, weights=None), np.sort(held_out))


def _take(rows: LabelledOutputs, index: NDArray[np.int64]) -> LabelledOutputs:
    found = rows.outputs
    features = None if found.features is None else found.features[index]
    weights = None if rows.weights is None else rows.weights[index]
    return LabelledOutputs(Outputs(found.logits[index], features, found.last_layer), rows.labels[index], weights)


_STATE = ("calibration_", "set_score_", "seed_", "policy_settings_")
