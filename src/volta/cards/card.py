"""A card's content: facts, tables, figures and sentences, the same for the page and for Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volta.cards.evidence import FPRS, Evidence
from volta.cards.plots import losses_svg, reliability_svg, risk_coverage_svg
from volta.cards.words import LIMITS, loss_words, parameter_words, percent, policy_sentence
from volta.core.files import hash_file
from volta.decisions.binomial import binomial_interval
from volta.decisions.ranks import conformal_rank
from volta.estimators.calibration import SET_ALPHAS
from volta.estimators.classifier import VoltaClassifier
from volta.estimators.fit_record import FitRecord
from volta.estimators.saving import registered_name
from volta.methods.linear import Linear
from volta.methods.saving import parameters_of
from volta.metrics.binning import N_BINS
from volta.metrics.calibration import bins_of
from volta.metrics.floor import floor_of
from volta.metrics.interval import Interval, ece_interval_of
from volta.metrics.selective import aurc, risk_coverage_curve

MOST_NAMES = 40
MAX_ERRORS = (0.01, 0.02, 0.05, 0.1)
COVERAGES = (0.8, 0.9, 0.95)
PART_WORDS = {"train": "training", "val": "validation", "cal": "calibration"}


@dataclass(frozen=True)
class CardTable:
    """A table of words."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class CardFigure:
    """A figure as SVG with its caption."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A part of the card: sentences, then figures, then tables, then points."""

    title: str
    sentences: tuple[str, ...] = ()
    figures: tuple[CardFigure, ...] = ()
    tables: tuple[CardTable, ...] = ()
    points: tuple[str, ...] = ()


@dataclass(frozen=True)
class Card:
    """The whole card."""

    title: str
    lead: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]


def make_card(classifier: VoltaClassifier, path: Path, evidence: Evidence) -> Card:
    """Write the card of a fitted classifier saved at ``path``."""
    n_right = int(evidence.rows.correct.sum())
    return Card(
        title=f"Model card: {path.name}",
        lead=(
            f"{classifier.method_.title}, {len(classifier.classes_)} classes, {classifier.n_features_in_} features. "
            f"Right on {n_right} of {evidence.n_rows} rows; figures are from {evidence.source}."
        ),
        facts=_facts(classifier, path),
        sections=(
            _calibration(evidence),
            _risk(classifier, evidence),
            _policies(classifier),
            _sets(classifier, evidence),
            _ood(classifier, evidence),
            _data(classifier),
            _training(classifier),
            Section("Limits", ("What is not guaranteed:",), points=LIMITS),
        ),
    )


def _facts(classifier: VoltaClassifier, path: Path) -> tuple[tuple[str, str], ...]:
    method, record = classifier.method_, classifier.fit_record_
    parameters = ", ".join(f"{name} = {parameter_words(value)}" for name, value in parameters_of(method).items())
    names = [str(name) for name in getattr(classifier, "feature_names_in_", ())]
    rows = ", ".join(f"{record.n_rows(part)} {word}" for part, word in _part_words(record).items())
    return (
        ("method", f"{method.title} ({registered_name(method)}{': ' + parameters if parameters else ''})"),
        ("classes", _some([str(name) for name in classifier.classes_])),
        ("features", f"{classifier.n_features_in_}" + (f": {_some(names)}" if names else ", without names")),
        ("label", record.label or "not from a table"),
        ("rows", rows),
        ("encoder, protocol", f"{classifier.encoder}, {classifier.protocol}"),
        ("scaling", f"{classifier.scaler_.kind} (asked: {classifier.scale})"),
        ("seed", str(classifier.seed_)),
        ("versions", ", ".join(f"{name} {number}" for name, number in record.versions.items())),
        ("file", f"{path.name}, {path.stat().st_size:,} bytes, SHA-256 {hash_file(path)}"),
    )


def _ece_words(ece: Interval, floor: Interval) -> str:
    """Return the interval, but where the ECE may be chance alone: no bootstrap's keeps its level there."""
    if ece.estimate <= floor.high:
        return "not told from 0: within what chance alone gives"
    return f"{ece.low:.4f} to {ece.high:.4f} (bootstrap)"


def _calibration(evidence: Evidence) -> Section:
    rows, n = evidence.rows, evidence.n_rows
    ece, floor = ece_interval_of(rows), floor_of(rows.confidence)
    bins = bins_of(rows, N_BINS)
    n_right = int(rows.correct.sum())
    low, high = binomial_interval(n_right, n)
    nll = float(-np.log(np.maximum(rows.true_prob, np.finfo(np.float64).tiny)).mean())
    measured = CardTable(
        ("measure", "value", "95 % interval"),
        (
            ("accuracy", f"{n_right / n:.4f}", f"{low:.4f} to {high:.4f} (exact binomial)"),
            ("ECE, 15 bins", f"{ece.estimate:.4f}", _ece_words(ece, floor)),
            ("ECE by chance alone", f"{floor.estimate:.4f}", f"{floor.low:.4f} to {floor.high:.4f} (its range)"),
            ("NLL", f"{nll:.4f}", ""),
            ("mean confidence", f"{float(rows.confidence.mean()):.4f}", ""),
        ),
    )
    binned = CardTable(
        ("confidence", "rows", "mean confidence", "accuracy"),
        tuple(
            (f"{low:.3f} to {high:.3f}", str(count), f"{confidence:.3f}", f"{accuracy:.3f}")
            for low, high, count, confidence, accuracy in zip(
                bins.lower, bins.upper, bins.count.tolist(), bins.confidence, bins.accuracy, strict=True
            )
        ),
    )
    figure = CardFigure(
        reliability_svg(bins),
        f"Accuracy of rows with alike confidence, n = {n}. A calibrated model lies on the line; ECE is the mean gap.",
    )
    return Section("Calibration", (f"Measured on {evidence.source}.",), (figure,), (measured, binned))


def _risk(classifier: VoltaClassifier, evidence: Evidence) -> Section:
    curve = risk_coverage_curve(evidence.uncertainty, evidence.rows.correct)
    policy = classifier.policy_
    share = float(np.mean(policy.answers(evidence.uncertainty)))
    at = [
        (coverage, float(curve.risk[max(0, round(coverage * evidence.n_rows) - 1)])) for coverage in (0.5, *COVERAGES)
    ]
    figure = CardFigure(
        risk_coverage_svg(curve.coverage, curve.risk, share),
        f"Error among the rows that the model is most certain of, n = {evidence.n_rows}; the rule is the policy, "
        f"{percent(share)} of these rows.",
    )
    table = CardTable(
        ("rows answered", "error among them"),
        (*((percent(coverage), percent(risk)) for coverage, risk in at), ("100 %", percent(float(curve.risk[-1])))),
    )
    area = aurc(evidence.uncertainty, evidence.rows.correct)
    return Section("Risk and coverage", (f"AURC {area:.4f}, from {evidence.source}.",), (figure,), (table,))


def _policies(classifier: VoltaClassifier) -> Section:
    kept = classifier.calibration_
    bounded = [kept.policy(max_error, None, 0.95) for max_error in MAX_ERRORS]
    plain = [kept.policy(None, coverage, 0.95) for coverage in COVERAGES]
    table = CardTable(
        ("asked", "what is promised"),
        (
            *((f"max_error {error:g}", policy_sentence(one)) for error, one in zip(MAX_ERRORS, bounded, strict=True)),
            *((f"coverage {share:g}", policy_sentence(one)) for share, one in zip(COVERAGES, plain, strict=True)),
        ),
    )
    return Section(
        "Policies",
        (
            f"The model's policy: {policy_sentence(classifier.policy_)}.",
            f"Others that could be asked of its {len(kept.labels)} calibration rows:",
        ),
        tables=(table,),
    )


def _sets(classifier: VoltaClassifier, evidence: Evidence) -> Section:
    kept, score = classifier.calibration_, classifier.set_score_
    rows = []
    for place, alpha in enumerate(SET_ALPHAS):
        rank = conformal_rank(len(kept.labels), alpha)
        low, high = rank.interval()
        threshold = f"{np.sort(kept.true_scores[score])[rank.rank - 1]:.4g}" if rank.enough else "infinite: every class"
        row: tuple[str, ...] = (f"{alpha:g}", threshold, percent(1 - alpha), f"{percent(low)} to {percent(high)}")
        row += (f"{evidence.set_sizes[place]:.3f}",)
        rows.append(row if evidence.set_coverage is None else (*row, percent(evidence.set_coverage[place])))
    head = ("alpha", "threshold", "coverage promised", "given these rows, 95 %", "mean size")
    table = CardTable(head if evidence.set_coverage is None else (*head, "coverage measured"), tuple(rows))
    return Section(
        "Prediction sets",
        (
            f"Score {score}, {len(kept.labels)} calibration rows. A set holds the true class with at least the "
            f"probability promised, over calibration and new rows together. Sizes are from {evidence.source}.",
        ),
        tables=(table,),
    )


def _ood(classifier: VoltaClassifier, evidence: Evidence) -> Section:
    test = classifier.calibration_.ood_test()
    rows: list[tuple[str, ...]] = [
        (percent(fpr), percent(float(test.false_alarm_rate(fpr)[0])), test.note(fpr) or "enough calibration rows")
        for fpr in FPRS
    ]
    head: tuple[str, ...] = ("fpr asked", "false alarms promised, at most", "rows")
    if evidence.flagged is not None:
        rows = [(*row, percent(share)) for row, share in zip(rows, evidence.flagged, strict=True)]
        head = (*head, "flagged of the rows given")
    return Section(
        "OOD flags",
        (
            "A row is flagged where its conformal p-value is at most fpr. Of rows that come as the calibration rows "
            f"did at most this share is flagged, on average over calibration draws; n = {len(test.scores[0])}. "
            "A row far beyond all that training and validation rows held is flagged whatever fpr is.",
        ),
        tables=(CardTable(head, tuple(rows)),),
    )


def _data(classifier: VoltaClassifier) -> Section:
    record = classifier.fit_record_
    files = CardTable(("file", "SHA-256"), tuple(record.files.items()))
    parts = CardTable(
        ("part", "rows", "SHA-256 of features and classes"),
        tuple((word, str(record.n_rows(part)), record.data_hash[part]) for part, word in _part_words(record).items()),
    )
    tables = (parts, _class_counts(classifier, record))
    few = (
        f"Rows are few, so that all but the calibration rows trained and, in {record.n_folds} folds, steered; the "
        "validation rows among them were left out of one more fit, to join OOD scores.",
    )
    sentences = ("What the model was fitted on.", *(few if record.n_folds else ()))
    return Section("Data", sentences, tables=(files, *tables) if record.files else tables)


def _class_counts(classifier: VoltaClassifier, record: FitRecord) -> CardTable:
    counts = [record.class_counts[part] for part in PART_WORDS]
    rows = [(str(name), *(str(part[k]) for part in counts)) for k, name in enumerate(classifier.classes_)]
    if len(rows) > MOST_NAMES:
        rows = [*rows[:MOST_NAMES], (f"and {len(rows) - MOST_NAMES} more", *("" for _ in counts))]
    return CardTable(("class", *(f"{word} rows" for word in _part_words(record).values())), tuple(rows))


def _part_words(record: FitRecord) -> dict[str, str]:
    """Return what each part of the rows is called, where validation rows trained too."""
    return PART_WORDS | {"val": "of them validation"} if record.n_folds else PART_WORDS


def _training(classifier: VoltaClassifier) -> Section:
    logs = [log for log in classifier.history_ if log.epochs]
    if not logs:
        return Section("Training", ("No network was trained epoch by epoch.",))
    rows = tuple(
        (
            str(place),
            str(log.epochs),
            str(log.max_epochs),
            str(log.kept_epoch),
            f"{log.val_loss:.4f}",
            f"{log.seconds:.1f}",
        )
        for place, log in enumerate(logs, start=1)
    )
    loss, meaning = loss_words(classifier.fit_record_.n_folds, isinstance(classifier.method_, Linear))
    head = ("network", "epochs", "at most", "weights of epoch", loss, "seconds")
    figure = CardFigure(
        losses_svg([log.val_losses for log in logs], loss),
        "Cross-entropy after each epoch, before any temperature.",
    )
    return Section("Training", (f"Losses are {meaning}.",), (figure,), (CardTable(head, rows),))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
