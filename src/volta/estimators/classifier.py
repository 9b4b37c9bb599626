"""For scikit-learn users: any method as a classifier with uncertainty, abstention, sets and OOD flags."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from volta.core.checks import check_count, check_features
from volta.core.errors import InputError, warn_user
from volta.core.scaling import ScaleName, Scaler, fit_scaler
from volta.core.types import Array, FitData, Prediction, Split
from volta.decisions import ScoreJoin, TableEvidence, fit_evidence
from volta.decisions.conformal import Floats
from volta.decisions.ood_evidence import stack_evidence
from volta.estimators.deciding import (
    FEW_ROWS,
    HeldOut,
    Scored,
    evidence_scores,
    hold_out,
    predict_rows,
    settled_scores,
    without_last_bits,
)
from volta.estimators.inputs import CalibrationName, ClassWeight, averaging_one, prepare_fit_input
from volta.estimators.row_classifier import RowClassifier
from volta.networks.recipe import PROTOCOLS, Budget, TrainingLog

if TYPE_CHECKING:
    from volta.methods.base import Method, StackedPrediction
    from volta.networks.recipe import ProtocolName
    from volta.networks.training import EpochReport


EARLY_SHARE = 0.1
_LINES = 5


class ProgressLines:
    """Writes the epochs of every network that a fit trains to standard error, some five lines a network."""

    def __init__(self) -> None:
        self._n_networks = 0

    def __call__(self, report: EpochReport) -> None:
        """Take an epoch; a first epoch begins a new network."""
        self._n_networks += report.epoch == 1
        if report.epoch % max(1, report.max_epochs // _LINES) and report.epoch not in (1, report.max_epochs):
            return
        network = f"network {self._n_networks}, " if self._n_networks > 1 else ""
        loss = "" if report.val_loss is None else f", validation loss {report.val_loss:.4f}"
        print(f"{network}epoch {report.epoch} of {report.max_epochs}{loss}", file=sys.stderr, flush=True)


def warn_about(logs: Iterable[TrainingLog]) -> None:
    """Warn where a training that restores its best weights was best in its first tenth, or at its very limit.

    One without early stopping keeps its last weights by design, and neither means anything there.
    """
    for log in logs:
        if log.patience is None:
            continue
        if log.best_epoch <= EARLY_SHARE * log.max_epochs:
            warn_user(
                f"the best epoch was {log.best_epoch} of at most {log.max_epochs}: training was cut off before it had "
                "settled, and chance had much say in the weights; pass more rows, or protocol='fair'",
                ConvergenceWarning,
            )
        elif "still improving" in log.marks:
            warn_user(
                f"the validation loss was still falling at the last epoch allowed, {log.max_epochs}; "
                "raise max_epochs, or leave it None",
                ConvergenceWarning,
            )


def new_method(method: Any, encoder: str, protocol: str) -> Method:
    """Return an unfitted method by its name or as a copy of the one given; ``encoder`` and ``protocol`` are checked."""
    if encoder not in ("tabular", "vision"):
        raise InputError(f"encoder is {encoder!r}; pass tabular or vision")
    if protocol not in PROTOCOLS:
        raise InputError(f"protocol is {protocol!r}; pass one of {', '.join(PROTOCOLS)}")
    from volta.methods import Method, find_method

    if isinstance(method, Method):
        return copy.deepcopy(method)
    if not isinstance(method, str):
        raise InputError(f"method is {method!r}; pass a name or a Method, e.g. 'volta' or 'knn(k=10)'")
    return find_method(method).method


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """Return the seed: a whole number is the seed itself, so that the estimator and the benchmark train alike."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


@dataclass(frozen=True, eq=False)
class RowMember:
    """One fit on rows of features: a method, and the scaling and evidence that were learned on the same rows."""

    method: Method
    n_classes: int
    scaler: Scaler
    evidence: TableEvidence

    def predict(self, inputs: Array) -> Prediction:
        """Return what the method says of rows (n, d) in the user's units."""
        return predict_rows(self.method, self.scaler, inputs, self.n_classes)

    def evidence_of(self, inputs: Array, prediction: Prediction) -> Floats:
        """Return (n, m) OOD scores of the rows, the method's own last."""
        return evidence_scores(self.evidence, inputs, prediction)


class MemberStack:
    """Fits of a classifier for a few rows at once: one by one they take as many times as long as there are."""

    def __init__(self, members: Sequence[RowMember], predict: StackedPrediction) -> None:
        scalers = [member.scaler for member in members]
        self._centre, self._scale = (
            None if scalers[0].centre is None else np.stack([getattr(scaler, name) for scaler in scalers])[:, None]
            for name in ("centre", "scale")
        )
        self._limit = np.array([[[scaler.limit]] for scaler in scalers])
        self._evidence = stack_evidence([member.evidence for member in members])
        self._predict = predict

    def predict(self, rows: Array) -> Prediction:
        """Return the fits' mean for rows (n, d) in the user's units."""
        probs, uncertainty = self._predictions(rows.astype(np.float64, copy=False))
        return _mean_prediction(probs, settled_scores(uncertainty))

    def scored(self, rows: Array, join: ScoreJoin) -> Scored:
        """Return what the fits say of rows (n, d) in the user's units, as one after another they do."""
        wide = rows.astype(np.float64, copy=False)
        probs, uncertainty = self._predictions(wide)
        scores = np.concatenate([self._evidence.unchecked_scores(wide), uncertainty[:, :, None]], axis=2)
        scores = settled_scores(scores)
        ood = join.unchecked_score(scores.reshape(-1, scores.shape[2])).reshape(uncertainty.shape)
        return Scored(_mean_prediction(probs, scores[:, :, -1]), probs, ood)

    def _predictions(self, wide: Floats) -> tuple[Floats, Floats]:
        with np.errstate(over="ignore"):
            scaled = wide[None] if self._centre is None else (wide - self._centre) / self._scale
        probs, uncertainty = self._predict(np.minimum(np.maximum(scaled, -self._limit), self._limit))
        return without_last_bits(probs), uncertainty


def _mean_prediction(probs: Floats, uncertainty: Floats) -> Prediction:
    n_fits = len(probs)
    return Prediction(np.add.reduce(probs, axis=0) / n_fits, np.add.reduce(uncertainty, axis=0) / n_fits)


def stack_members(members: Sequence[RowMember]) -> MemberStack | None:
    """Return the fits as one, or None where their method predicts one by one only."""
    method = members[0].method
    if method.single_precision or len({member.scaler.kind for member in members}) > 1:
        return None
    predict = type(method).stacked([member.method for member in members])
    return None if predict is None else MemberStack(members, predict)


class VoltaClassifier(RowClassifier):
    """A method on your own features: probabilities, uncertainty, abstention, prediction sets, OOD flags.

    Features are scaled inside the model. Up to 3,000 samples are cross-fitted: five fits, each without a fifth of the
    samples, which calibrates it; their predictions are averaged, and a new sample is compared with every sample by the
    fit that did not see that one. Of more samples 10 % (a plain random draw) are the calibration set of one fit. Each
    fit keeps 10 % of all samples (stratified) as its validation set, for early stopping and temperatures. Guarantees
    hold for new samples that are exchangeable with those given to ``fit``.

    Parameters
    ----------
    method
        A name of ``volta.METHODS`` (see ``volta methods``), with parameters or without (``"knn(k=10)"``), or a method.
    encoder
        ``tabular`` or ``vision`` (features of a vision backbone): which encoder and recipe are used.
    protocol
        ``fair`` or ``paper``; see the documentation of the benchmark.
    scale
        ``standard``: mean 0 and standard deviation 1 on training rows; ``none``; ``auto``: ``standard`` for the tabular
        encoder, and for features of a vision backbone only where their columns differ in scale.
    class_weight
        How much each class counts in training: None, all alike; ``balanced``: n / (K · its rows); or a dict of labels
        and weights, where a class that is not named has 1. Calibration rows are never weighted.
    calibration
        ``cross``: five fits, every row calibrates; guarantees are near what is asked; those of sets are proven at
        about twice the error rate. ``split``: one fit and a tenth of the rows, guarantees exact. ``auto``: ``cross``
        for at most 3,000 rows without ``cal_set``, else ``split``.
    n_jobs
        How many fits run at a time, in processes of their own; None: one.
    random_state
        Decides initial weights, batches and sampling; the split of rows does not depend on it.
    max_epochs
        Train at most this long.
    keep_rows
        Keep the training rows, so that ``explain`` can show the most similar ones; they are saved with the model.
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
    members_
        The fits: one with split calibration, five with cross-fitting. A member's ``method`` sees scaled rows.
    method_
        The method of the first fit.
    policy_
        Which rows are answered; see ``fit_policy``.
    fit_record_
        The training, validation and calibration samples: how many of each class, their hashes, and the number of folds.
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
        class_weight: ClassWeight = None,
        calibration: CalibrationName = "auto",
        n_jobs: int | None = None,
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
        self.class_weight = class_weight
        self.calibration = calibration
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.max_epochs = max_epochs
        self.keep_rows = keep_rows
        self.verbose = verbose
        self.device = device

    def fit(
        self,
        X: ArrayLike,  # noqa: N803
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        eval_set: tuple[ArrayLike, ArrayLike] | None = None,
        cal_set: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Self:
        """Fit on (n, d) features and (n,) labels of any kind that can be sorted.

        ``eval_set=(X, y)`` is the validation set and ``cal_set=(X, y)`` the calibration set; what is not passed is held
        out from X. Overlap of ``cal_set`` with training or validation samples warns at 2 % and raises at 50 %; one of
        ``eval_set`` with X, part of which then calibrates, warns.
        ``sample_weight`` (n,): a row of weight 0 does not count, whole numbers count rows (3: as if the row came three
        times), other weights scale a row's losses.
        The order of rows does not matter to the fit; an ``OrderWarning`` says where rows change along it.
        """
        method = new_method(self.method, self.encoder, self.protocol)
        given = prepare_fit_input(
            self,
            X,
            y,
            calibration=self.calibration,
            sample_weight=sample_weight,
            class_weight=self.class_weight,
            eval_set=eval_set,
            cal_set=cal_set,
        )
        self.classes_ = given.classes
        self.seed_ = seed_of(self.random_state)
        parts = [given.parts(draw) for draw in given.draws]
        fits = Parallel(self.n_jobs)(
            delayed(self._fit_member)(copy.deepcopy(method), *each, few=len(parts) > 1) for each in parts
        )
        self.history_ = tuple(log for _, logs, _ in fits for log in logs)
        warn_about(self.history_)
        learned = [(member, held_out) for member, _, held_out in fits]
        self._learn(given, parts, learned)
        return self

    def describe(self) -> list[tuple[str, str]]:
        """Return what made the fit, in words, for the model card."""
        return [
            ("encoder, protocol", f"{self.encoder}, {self.protocol}"),
            ("scaling", f"{self.scaler_.kind} (asked: {self.scale})"),
        ]

    members_: list[RowMember]
    _stacked: tuple[list[RowMember], MemberStack | None] | None = None

    def __getstate__(self) -> Any:
        """Leave out of copies and pickles what is made again when it is asked for."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_stacked"}

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Return the classifier that :meth:`save` wrote; a file that was altered or cut off raises."""
        from volta.estimators.saving import load_classifier
        from volta.methods.saving import MODEL_FILE

        methods, parameters, state, classes = load_classifier(Path(path), "VoltaClassifier")
        with MODEL_FILE.parsing(path):
            return cls(**parameters)._restore(methods, classes, state)

    def _remake(self, methods: list[Method], classes: NDArray[Any], state: dict[str, Any]) -> list[RowMember]:
        members = state.pop("members")
        return [RowMember(method, len(classes), **learned) for method, learned in zip(methods, members, strict=True)]

    def to_onnx(self, path: Path | str, *, alpha: float = 0.1, fpr: float = 0.05) -> None:
        """Write an ONNX graph that scales, predicts and decides as :meth:`decide` does; only ONNX Runtime runs it.

        Its input is ``inputs``, (n, d) float64 rows in the units that ``fit`` saw, one or more of them. Its outputs are
        ``probs`` (n, K); ``label`` (n,) the likeliest class's number; ``uncertainty`` (n,); ``ood_score`` (n,),
        the method's and the evidence's joined (the fits' mean), and its conformal p-value ``ood_pvalue`` (n,); ``set``
        (n, K), the prediction set at ``alpha``; and ``decision`` (n,): 0 answer, 1 abstain by ``policy_``, 2 OOD at
        ``fpr``. The model's metadata holds, as JSON, ``classes`` in the order of the columns, ``volta_version``,
        ``method``, ``decisions``, ``feature_names`` and the thresholds.

        For methods that are deterministic at test time and give their formula for it; others are refused by name.
        """
        from volta.estimators.onnx import export_classifier, fix_rules
        from volta.estimators.saving import file_path

        self._fitted()
        export_classifier(self, fix_rules(self, alpha, fpr), file_path(path))

    def _fit_member(
        self, method: Method, train: Split, val: Split, cal: Split, *, few: bool
    ) -> tuple[RowMember, tuple[TrainingLog, ...], HeldOut]:
        """Return one fit, how its networks were trained, and what it says of the rows that calibrate it."""
        from volta.methods.temperature import CalibrationWarning
        from volta.networks.trainer import Trainer, pick_device
        from volta.networks.training import one_thread_for

        n_classes = len(self.classes_)
        scaler = fit_scaler(train.inputs, self.scale, self.encoder)  # type: ignore[arg-type]
        if scaler.kind == "none":
            check_features(train.inputs, "X")
        scaled = Split(scaler.apply(train.inputs), train.labels, averaging_one(train.weights))
        scaled_val = Split(scaler.apply(val.inputs), val.labels, averaging_one(val.weights))
        # A method with a threshold of its own finds it on validation rows: calibration samples are for nothing else.
        data = FitData(scaled, scaled_val, scaled_val, n_classes=n_classes, encoder=self.encoder)  # type: ignore[arg-type]
        max_epochs = None if self.max_epochs is None else check_count(self.max_epochs, "max_epochs")
        trainer = Trainer(
            seed=self.seed_,
            protocol=self.protocol,
            budget=Budget(max_epochs=max_epochs),
            device=pick_device(self.device),
            on_epoch=ProgressLines() if self.verbose else None,
        )
        with one_thread_for(scaled.inputs.size), warnings.catch_warnings():
            if few:
                # A tenth of few rows may all be right, and leave the temperature as it was learned: no reason to worry.
                warnings.simplefilter("ignore", CalibrationWarning)
            fitted = method.fit(data, trainer)
        spreads = None if self.schema_ is None else self.schema_.spreads
        member = RowMember(fitted, n_classes, scaler, fit_evidence(train.inputs, train.labels, spreads=spreads))
        held_out = hold_out(member, cal.inputs, cal.labels, val.inputs)
        return member, tuple(trainer.trainings.values()), held_out

    def _predict(self, inputs: Any) -> Prediction:
        if len(inputs) > FEW_ROWS or (stack := self._stack) is None:
            return super()._predict(inputs)
        return stack.predict(inputs)

    def _score(self, inputs: Any) -> Scored:
        if len(inputs) > FEW_ROWS or (stack := self._stack) is None:
            return super()._score(inputs)
        return stack.scored(inputs, self.calibration_.join)

    @property
    def _stack(self) -> MemberStack | None:
        """All fits for a few rows at once, made when first asked for, or None where the method has no such form."""
        if self._stacked is None or self._stacked[0] is not self.members_:
            self._stacked = self.members_, stack_members(self.members_)
        return self._stacked[1]
