"""Model cards: what a fitted classifier is, what it guarantees, and what it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from volta._version import __version__
from volta.core.errors import InputError
from volta.core.files import hash_file
from volta.data.column_encoding import TableSchema
from volta.data.feature_files import FeatureChunk, FeatureTable
from volta.data.tables import labels_like
from volta.decisions.conformal import Floats, binomial_interval, conformal_rank
from volta.decisions.policies import Policy
from volta.estimators.deciding import SET_ALPHAS, Calibration
from volta.estimators.row_classifier import FitRecord, RowClassifier
from volta.estimators.saving import registered_name
from volta.methods.saving import parameters_of
from volta.metrics.bins import N_BINS, RowStatistics
from volta.metrics.calibration import ReliabilityBins, bins_of
from volta.metrics.expected_ece import Interval, ece_interval_of, expected_ece_of
from volta.metrics.selective import aurc, risk_coverage_curve
from volta.report.formats import escaped
from volta.report.table_model import asset, template_environment

MOST_VALUES = 5

LIMITS = (
    "Every guarantee is for samples exchangeable with the calibration set. When the world, the instrument or the "
    "choice of samples changes, none of them holds. The classifier's monitor, fed with the stream, shows when that is.",
    "Guarantees hold on average over samples, not for a single sample, and not within a group that is picked later. "
    'Sets and flags within every class need conditional="class", in Python.',
    "An OOD flag says that a sample is unlike the calibration set, not why. No share of OOD samples found is "
    "guaranteed: samples that differ in ways that neither the network nor the columns show are not flagged.",
    "Probabilities are calibrated as measured here, on average; that is no guarantee, and least where samples are few.",
    "The classes are those of the training set. A sample of any other class gets one of them, unless it is flagged.",
    "Hashes tell whether files are the same; they are no signature, and nothing here says that the labels were right.",
)
"""What is not guaranteed, whatever the model."""


def percent(share: float) -> str:
    """Return a share in percent, with three figures at most.

    >>> percent(0.9), percent(0.0213), percent(1.0)
    ('90 %', '2.13 %', '100 %')
    """
    return f"{100 * share:.3g} %"


def parameter_words(value: Any) -> str:
    """Return a method's parameter in words: of a long list of numbers how many there are, and its ends.

    >>> parameter_words((1.0, 0.3, 0.1, 0.03, 0.01, 0.003)), parameter_words(10)
    ('6 values from 1 to 0.003', '10')
    """
    if isinstance(value, tuple) and len(value) > MOST_VALUES:
        return f"{len(value)} values from {value[0]:.3g} to {value[-1]:.3g}"
    return str(value)


def policy_sentence(policy: Policy) -> str:
    """Return what a policy guarantees and what it costs, with the number of rows it rests on."""
    if not policy.exists:
        return f"no row is answered: {policy.note}"
    within = f"{percent(policy.coverage_low)} to {percent(policy.coverage_high)}"
    if policy.max_error is None:
        note = f" ({policy.note})" if policy.note else ""
        about = " (cross-fitted samples: measured, not proven)" if policy.cross_fitted else ""
        return (
            f"{percent(policy.coverage)} of samples are answered on average, {within} with confidence "
            f"{percent(policy.confidence)}{about}, from {policy.n} calibration samples; no guarantee on the error{note}"
        )
    proven = " (cross-fitted samples: measured, not proven)" if policy.cross_fitted else ""
    return (
        f"with confidence {percent(policy.confidence)} at most {percent(policy.max_error)} of answered samples are "
        f"wrong{proven}; about {percent(policy.coverage)} of samples are answered ({within}), from {policy.n} "
        f"calibration samples, {policy.n_answered} of them answered, {policy.n_errors} wrong"
    )


FPRS = (0.01, 0.05, 0.1)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows that a model was judged on, each array (n,).

    ``source`` says in words which rows; ``set_sizes`` are mean sizes at ``SET_ALPHAS``, ``set_coverage`` the share of
    sets with the true class and ``flagged`` the share of rows flagged at ``FPRS``, both None for calibration rows, of
    which they are chosen to hold.
    """

    source: str
    rows: RowStatistics
    uncertainty: Floats
    set_sizes: tuple[float, ...]
    set_coverage: tuple[float, ...] | None
    flagged: tuple[float, ...] | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows.correct)


def calibration_evidence(classifier: RowClassifier) -> Evidence:
    """Return what the model keeps of its calibration rows, which it was neither trained nor tempered on."""
    kept = classifier.calibration_
    rows = RowStatistics(kept.confidence, kept.predicted == kept.labels, kept.true_probs)
    seen = "which were not used to train the model" if kept.n_folds == 1 else "each by the fit that did not see it"
    source = f"the {len(kept.labels)} calibration samples, {seen}"
    return Evidence(source, rows, kept.uncertainty, kept.set_sizes[classifier.set_score_], None, None)


def row_evidence(classifier: RowClassifier, table: FeatureTable, advance: Callable[[int, float], None]) -> Evidence:
    """Judge the rows of a labelled table, chunk by chunk."""
    pieces: list[tuple[NDArray[Any], ...]] = []
    sizes, hits = np.zeros(len(SET_ALPHAS)), np.zeros(len(SET_ALPHAS))
    kept = classifier.calibration_
    for part in table.chunks():
        labels = _numbers(classifier, table, part)
        scored = classifier._scored(part.rows)
        probs, predicted, each = scored.prediction.probs, scored.prediction.labels, np.arange(len(labels))
        statistics = probs[each, predicted], predicted == labels, probs[each, labels]
        pvalues = kept.ood_test().unchecked_pvalues(scored.ood)
        pieces.append((*statistics, scored.prediction.uncertainty, pvalues))
        for place, alpha in enumerate(SET_ALPHAS):
            sets = kept.sets(scored.probs, alpha, classifier.set_score_)
            sizes[place] += sets.sum()
            hits[place] += sets[each, labels].sum()
        advance(len(labels), part.chunk.done)
    *whole, uncertainty, pvalues = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    rows, n_rows = RowStatistics(*whole), len(pvalues)
    return Evidence(
        source=f"the {n_rows} labelled samples of {table.table.path.name}",
        rows=rows,
        uncertainty=uncertainty,
        set_sizes=tuple((sizes / n_rows).tolist()),
        set_coverage=tuple((hits / n_rows).tolist()),
        flagged=tuple(float(np.mean(pvalues <= fpr)) for fpr in FPRS),
    )


def _numbers(classifier: RowClassifier, table: FeatureTable, part: FeatureChunk) -> NDArray[np.int64]:
    name = table.label or ""
    given = labels_like(np.asarray(part.labels), classifier.classes_, f"{table.table.path} column {name!r}")
    unknown = ~np.isin(given, classifier.classes_)
    if unknown.any():
        row = int(np.argmax(unknown))
        raise InputError(f"{part.chunk.where(row, name)} is {str(given[row])!r}, a class that the model does not know")
    return np.searchsorted(classifier.classes_, given).astype(np.int64)


WIDTH, HEIGHT = 420, 320
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 44
MOST_POINTS = 400


@dataclass(frozen=True)
class Axes:
    """Where data lies in the picture: x and y limits, and the words next to the axes."""

    x: tuple[float, float]
    y: tuple[float, float]
    x_words: str
    y_words: str

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return a point's position in the picture."""
        across = LEFT + (x - self.x[0]) / (self.x[1] - self.x[0]) * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - (y - self.y[0]) / (self.y[1] - self.y[0]) * (HEIGHT - TOP - BOTTOM)
        return round(across, 1), round(down, 1)


def reliability_svg(bins: ReliabilityBins) -> str:
    """Draw accuracy against mean confidence, a bar a bin, and the diagonal on which a calibrated model lies."""
    axes = Axes((0.0, 1.0), (0.0, 1.0), "confidence", "accuracy")
    bars = []
    for low, high, accuracy, count in zip(bins.lower, bins.upper, bins.accuracy, bins.count, strict=True):
        (x0, y0), (x1, y1) = axes.place(low, accuracy), axes.place(high, 0.0)
        title = f"confidence {low:.2f} to {high:.2f}: accuracy {accuracy:.3f}, {count} samples"
        bars.append(
            f'<rect class="bar" x="{x0 + 1:.1f}" y="{y0}" width="{x1 - x0 - 2:.1f}" height="{y1 - y0:.1f}">'
            f"<title>{title}</title></rect>"
        )
    points = [axes.place(x, y) for x, y in zip(bins.confidence, bins.accuracy, strict=True)]
    dots = [f'<circle class="dot" cx="{x}" cy="{y}" r="3"/>' for x, y in points]
    return _picture(axes, "Reliability diagram", [*bars, _line(axes, (0.0, 1.0), (0.0, 1.0), "ideal"), *dots])


def risk_coverage_svg(coverage: Floats, risk: Floats, answered: float | None) -> str:
    """Draw the error among answered rows against the share answered; a rule marks the model's policy."""
    top = max(0.01, float(risk.max()) * 1.05)
    axes = Axes((0.0, 1.0), (0.0, top), "share of samples answered", "error among them")
    picked = np.unique(np.linspace(0, len(coverage) - 1, MOST_POINTS).astype(int))
    marks = [_line(axes, coverage[picked], risk[picked], "curve")]
    if answered is not None:
        marks.insert(0, _line(axes, (answered, answered), (0.0, top), "ideal"))
    return _picture(axes, "Error against coverage", marks)


def losses_svg(losses: Sequence[Sequence[float]], words: str) -> str:
    """Draw the loss of each network against the epoch; ``words`` say which loss."""
    values = [value for one in losses for value in one]
    top = max(values) * 1.05 or 1.0
    axes = Axes((1.0, max(2.0, float(max(map(len, losses))))), (0.0, top), "epoch", words)
    marks = [_line(axes, np.arange(1.0, len(one) + 1), np.asarray(one), "curve") for one in losses]
    return _picture(axes, "Training", marks)


def _line(axes: Axes, x: Sequence[float] | Floats, y: Sequence[float] | Floats, kind: str) -> str:
    points = " ".join(f"{across},{down}" for across, down in (axes.place(*point) for point in zip(x, y, strict=True)))
    return f'<polyline class="{kind}" points="{points}"/>'


def _picture(axes: Axes, title: str, marks: list[str]) -> str:
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">', *_grid(axes), *marks]
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="words" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{axes.x_words}</text>')
    half = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text class="words" transform="translate(13 {half}) rotate(-90)" text-anchor="middle">{axes.y_words}</text>'
    )
    return "".join([*parts, "</svg>"])


def _grid(axes: Axes) -> list[str]:
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x_value = axes.x[0] + share * (axes.x[1] - axes.x[0])
        y_value = axes.y[0] + share * (axes.y[1] - axes.y[0])
        across, bottom = axes.place(x_value, axes.y[0])
        left, down = axes.place(axes.x[0], y_value)
        parts.append(f'<line class="grid" x1="{left}" x2="{WIDTH - RIGHT}" y1="{down}" y2="{down}"/>')
        parts.append(f'<text class="tick" x="{across}" y="{bottom + 16}" text-anchor="middle">{x_value:.3g}</text>')
        parts.append(f'<text class="tick" x="{left - 6}" y="{down + 4}" text-anchor="end">{y_value:.2g}</text>')
    return parts


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


def make_card(classifier: RowClassifier, path: Path | None, evidence: Evidence) -> Card:
    """Write the card of a fitted classifier saved at ``path``, None where it is not saved."""
    n_right = int(evidence.rows.correct.sum())
    return Card(
        title=f"Model card: {type(classifier).__name__ if path is None else path.name}",
        lead=(
            f"{classifier.method_.title}, {len(classifier.classes_)} classes, {classifier.n_features_in_} features. "
            f"Right on {n_right} of {evidence.n_rows} samples; figures are from {evidence.source}."
        ),
        facts=_facts(classifier, path),
        sections=(
            _calibration(evidence),
            _risk(classifier, evidence),
            _policies(classifier),
            _card_sets(classifier, evidence),
            _ood(classifier, evidence),
            _data(classifier),
            _training(classifier),
            Section("Limits", ("What is not guaranteed:",), points=LIMITS),
        ),
    )


def _columns_words(schema: TableSchema) -> str:
    """Return the columns of a table with what each holds."""
    words = []
    for column in schema.columns:
        kind = f"{len(column.levels)} categories" if column.kind == "category" else column.kind
        words.append(f"{column.name} ({kind}{', some missing' if column.missing else ''})")
    return _some(words)


def _facts(classifier: RowClassifier, path: Path | None) -> tuple[tuple[str, str], ...]:
    method, record = classifier.method_, classifier.fit_record_
    parameters = ", ".join(f"{name} = {parameter_words(value)}" for name, value in parameters_of(method).items())
    names = [str(name) for name in getattr(classifier, "feature_names_in_", ())]
    rows = ", ".join(f"{record.n_rows(part)} {word}" for part, word in _part_words(record).items())
    schema, said = classifier.schema_, f": {_some(names)}" if names else ", without names"
    file = "not saved"
    if path is not None:
        file = f"{path.name}, {path.stat().st_size:,} bytes, SHA-256 {hash_file(path)}"
    return (
        ("method", f"{method.title} ({registered_name(method)}{': ' + parameters if parameters else ''})"),
        ("classes", _some([str(name) for name in classifier.classes_])),
        ("features", f"{classifier.n_features_in_}{said if schema is None else f': {_columns_words(schema)}'}"),
        ("label", record.label or "not from a table"),
        ("samples", rows),
        *classifier.describe(),
        ("seed", str(classifier.seed_)),
        ("versions", ", ".join(f"{name} {number}" for name, number in record.versions.items())),
        ("file", file),
    )


def _ece_words(ece: Interval, expected: Interval) -> str:
    """Return the interval, or that the ECE is within its expected range, where no bootstrap interval is valid."""
    if ece.estimate <= expected.high:
        return "within the range expected under perfect calibration"
    return f"{ece.low:.4f} to {ece.high:.4f} (bootstrap)"


def _calibration(evidence: Evidence) -> Section:
    rows, n = evidence.rows, evidence.n_rows
    ece, expected = ece_interval_of(rows), expected_ece_of(rows.confidence)
    bins = bins_of(rows, N_BINS)
    n_right = int(rows.correct.sum())
    low, high = binomial_interval(n_right, n)
    nll = float(-np.log(np.maximum(rows.true_prob, np.finfo(np.float64).tiny)).mean())
    measured = CardTable(
        ("measure", "value", "95 % interval"),
        (
            ("accuracy", f"{n_right / n:.4f}", f"{low:.4f} to {high:.4f} (exact binomial)"),
            ("ECE, 15 bins", f"{ece.estimate:.4f}", _ece_words(ece, expected)),
            ("expected ECE", f"{expected.estimate:.4f}", f"{expected.low:.4f} to {expected.high:.4f} (its range)"),
            ("NLL", f"{nll:.4f}", ""),
            ("mean confidence", f"{float(rows.confidence.mean()):.4f}", ""),
        ),
    )
    binned = CardTable(
        ("confidence", "samples", "mean confidence", "accuracy"),
        tuple(
            (f"{low:.3f} to {high:.3f}", str(count), f"{confidence:.3f}", f"{accuracy:.3f}")
            for low, high, count, confidence, accuracy in zip(
                bins.lower, bins.upper, bins.count.tolist(), bins.confidence, bins.accuracy, strict=True
            )
        ),
    )
    figure = CardFigure(
        reliability_svg(bins),
        f"Accuracy of samples with similar confidence, n = {n}. A calibrated model lies on the line; "
        "ECE is the mean gap.",
    )
    return Section("Calibration", (f"Measured on {evidence.source}.",), (figure,), (measured, binned))


def _risk(classifier: RowClassifier, evidence: Evidence) -> Section:
    curve = risk_coverage_curve(evidence.uncertainty, evidence.rows.correct)
    policy = classifier.policy_
    share = float(np.mean(policy.answers(evidence.uncertainty)))
    at = [
        (coverage, float(curve.risk[max(0, round(coverage * evidence.n_rows) - 1)])) for coverage in (0.5, *COVERAGES)
    ]
    figure = CardFigure(
        risk_coverage_svg(curve.coverage, curve.risk, share),
        f"Error among the samples that the model is most certain of, n = {evidence.n_rows}; the rule is the policy, "
        f"{percent(share)} of these samples.",
    )
    table = CardTable(
        ("samples answered", "error among them"),
        (*((percent(coverage), percent(risk)) for coverage, risk in at), ("100 %", percent(float(curve.risk[-1])))),
    )
    area = aurc(evidence.uncertainty, evidence.rows.correct)
    return Section("Risk and coverage", (f"AURC {area:.4f}, from {evidence.source}.",), (figure,), (table,))


def _policies(classifier: RowClassifier) -> Section:
    kept = classifier.calibration_
    bounded = [kept.policy(max_error, None, 0.95) for max_error in MAX_ERRORS]
    plain = [kept.policy(None, coverage, 0.95) for coverage in COVERAGES]
    table = CardTable(
        ("asked", "guarantee"),
        (
            *((f"max_error {error:g}", policy_sentence(one)) for error, one in zip(MAX_ERRORS, bounded, strict=True)),
            *((f"coverage {share:g}", policy_sentence(one)) for share, one in zip(COVERAGES, plain, strict=True)),
        ),
    )
    return Section(
        "Policies",
        (
            f"The model's policy: {policy_sentence(classifier.policy_)}.",
            f"Others that its {len(kept.labels)} calibration samples allow:",
        ),
        tables=(table,),
    )


def _card_sets(classifier: RowClassifier, evidence: Evidence) -> Section:
    kept, score = classifier.calibration_, classifier.set_score_
    test, rows = kept.set_test(score), []
    for place, alpha in enumerate(SET_ALPHAS):
        row: tuple[str, ...] = (f"{alpha:g}", percent(1 - alpha), percent(1 - float(test.bound(alpha)[0])))
        row += (_range_words(len(kept.labels), alpha) if kept.n_folds == 1 else "not known",)
        row += (f"{evidence.set_sizes[place]:.3f}",)
        rows.append(row if evidence.set_coverage is None else (*row, percent(evidence.set_coverage[place])))
    head = ("alpha", "coverage asked", "coverage proven", "given this calibration set, 95 %", "mean size")
    table = CardTable(head if evidence.set_coverage is None else (*head, "coverage measured"), tuple(rows))
    return Section(
        "Prediction sets",
        (
            f"Score {score}, {len(kept.labels)} calibration samples, {_calibration_words(kept)}. A set holds the true "
            "class with at least the probability proven, over calibration sets and new samples together. Sizes are "
            f"from {evidence.source}.",
        ),
        tables=(table,),
    )


def _range_words(n_calibration: int, alpha: float) -> str:
    low, high = conformal_rank(n_calibration, alpha).interval()
    return f"{percent(low)} to {percent(high)}"


def _calibration_words(kept: Calibration) -> str:
    """Return how the calibration rows were held out, and the theorem that the guarantee rests on."""
    if kept.n_folds == 1:
        return "held out of one fit (split conformal prediction, exact: Vovk et al. 2005)"
    return (
        f"each held out of one of {kept.n_folds} fits (cross-conformal prediction: near what is asked; proven by Vovk "
        "and Wang 2020, Barber et al. 2021)"
    )


def _ood(classifier: RowClassifier, evidence: Evidence) -> Section:
    kept = classifier.calibration_
    test = kept.ood_test()
    # Joined scores rank rows among those of all folds, which the theorem on folds does not allow.
    proven = kept.n_folds == 1
    rows: list[tuple[str, ...]] = [
        (
            percent(fpr),
            percent(float(test.bound(fpr)[0])) if proven else "not proven",
            test.note(fpr) or "enough calibration samples",
        )
        for fpr in FPRS
    ]
    head: tuple[str, ...] = ("fpr asked", "false-positive rate proven, at most", "samples")
    if evidence.flagged is not None:
        rows = [(*row, percent(share)) for row, share in zip(rows, evidence.flagged, strict=True)]
        head = (*head, "flagged of the labelled samples")
    return Section(
        "OOD flags",
        (
            "A sample is flagged where its conformal p-value is at most fpr. Of samples exchangeable with the "
            f"calibration set {'at most' if proven else 'about'} this share is flagged, on average over calibration "
            f"draws; n = {len(kept.labels)}, {_calibration_words(kept) if proven else f'{kept.n_folds} folds'}.",
        ),
        tables=(CardTable(head, tuple(rows)),),
    )


def _data(classifier: RowClassifier) -> Section:
    record = classifier.fit_record_
    files = CardTable(("file", "SHA-256"), tuple(record.files.items()))
    parts = CardTable(
        ("part", "samples", "SHA-256 of features and classes"),
        tuple((word, str(record.n_rows(part)), record.data_hash[part]) for part, word in _part_words(record).items()),
    )
    tables = (parts, _class_counts(classifier, record))
    cross = (
        f"Cross-fitted: each of {record.n_folds} fits leaves out a fold of the samples, which calibrate it, and keeps "
        "a tenth of all samples for temperatures.",
    )
    sentences = ("What the model was fitted on.", *(cross if record.n_folds > 1 else ()))
    return Section("Data", sentences, tables=(files, *tables) if record.files else tables)


def _class_counts(classifier: RowClassifier, record: FitRecord) -> CardTable:
    counts = [record.class_counts[part] for part in _part_words(record)]
    rows = [(str(name), *(str(part[k]) for part in counts)) for k, name in enumerate(classifier.classes_)]
    if len(rows) > MOST_NAMES:
        rows = [*rows[:MOST_NAMES], (f"and {len(rows) - MOST_NAMES} more", *("" for _ in counts))]
    return CardTable(("class", *(f"{word} samples" for word in _part_words(record).values())), tuple(rows))


def _part_words(record: FitRecord) -> dict[str, str]:
    """Return what each part of the rows is called."""
    return {part: word for part, word in PART_WORDS.items() if part in record.class_counts}


def _training(classifier: RowClassifier) -> Section:
    logs = [log for log in classifier.history_ if log.epochs]
    if not logs:
        return Section("Training", ("No network was trained epoch by epoch.",))
    rows = tuple(
        (*map(str, (place, log.epochs, log.max_epochs, log.kept_epoch)), f"{log.val_loss:.4f}", f"{log.seconds:.1f}")
        for place, log in enumerate(logs, start=1)
    )
    head = ("network", "epochs", "at most", "weights of epoch", "validation loss", "seconds")
    figure = CardFigure(
        losses_svg([log.val_losses for log in logs], "validation loss"),
        "Cross-entropy after each epoch, before any temperature.",
    )
    return Section("Training", ("Losses are those of the validation set.",), (figure,), (CardTable(head, rows),))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def card_html(card: Card) -> str:
    """Return the page: light and dark, its style and figures inside."""
    environment = template_environment("volta.estimators")
    # Files of this package and figures made of numbers alone; text of the user's is escaped by the template.
    environment.filters["svg"] = Markup
    return environment.get_template("card.html").render(
        card=card, version=__version__, style_sheet=Markup(asset("report.css")), early_script=Markup(asset("early.js"))
    )


def card_markdown(card: Card) -> str:
    """Return the card without its figures; what they show stands in the tables."""
    parts = [f"# {escaped(card.title)}", escaped(card.lead)]
    parts.append("\n".join(f"- **{escaped(name)}**: {escaped(value)}" for name, value in card.facts))
    for section in card.sections:
        parts.append(f"## {escaped(section.title)}")
        parts += [escaped(sentence) for sentence in section.sentences]
        parts += [_table(table) for table in section.tables]
        if section.points:
            parts.append("\n".join(f"- {escaped(point)}" for point in section.points))
    return "\n\n".join([*parts, f"Made by volta {__version__} from the model's file."]) + "\n"


def _table(table: CardTable) -> str:
    lines = [table.head, ("---",) * len(table.head), *table.rows]
    body = [[cell if cell == "---" else escaped(cell) for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in body)
