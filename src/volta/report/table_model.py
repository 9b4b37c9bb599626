"""Tables as data, the numbers in them as text, and the templates and assets that show them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING

from markupsafe import Markup

from volta._version import __version__
from volta.figures.style import PALETTE, THOUSANDTHS
from volta.metrics import METRICS

if TYPE_CHECKING:
    from jinja2 import Environment

LONG_TEXT = 40
COMPACT_COLUMNS = 8
"""A table with more columns than this shows so many at first, and the rest when a reader asks for all columns."""


@dataclass(frozen=True)
class Column:
    """A column: its name in files, its heading, its direction (↑, ↓ or empty), the families it is shown with,
    and the set it is about, where that is not the test rows.
    """

    key: str
    heading: str
    arrow: str = ""
    families: tuple[str, ...] = ()
    where: str = ""
    numeric: bool = True
    help: str = ""

    @property
    def label(self) -> str:
        """Heading, set and direction in one line of plain text."""
        where = f" ({self.where})" if self.where else ""
        return f"{self.heading}{where} {self.arrow}".strip()

    def is_shown(self, family: str) -> bool:
        """Whether the column is shown when a reader has chosen a family."""
        return not self.families or family in self.families


@dataclass(frozen=True)
class Spark:
    """A small bar below a value: where it stands in its column, from 0 (worst) to 1 (best), and its interval.

    Outliers are ``clipped``: they stand at the end of the bar, with an arrow.
    """

    at: float
    low: float
    high: float
    clipped: bool = False


@dataclass(frozen=True)
class TableCell:
    """A cell: text for people, value for sorting and files; ``best`` is bold, ``mark`` († or ‡) follows the text.

    A cell with a ``spark`` shows its spread by that and not in figures.
    """

    text: str
    value: float | str | None = None
    std: float | None = None
    std_text: str = ""
    tip: str = ""
    best: bool = False
    mark: str = ""
    paper: str = ""
    tone: str = ""
    spark: Spark | None = None

    @property
    def is_long(self) -> bool:
        """Whether the text needs several lines."""
        return len(self.text) > LONG_TEXT


@dataclass(frozen=True)
class Row:
    """A row: the name of what it is about, its cells, a word for filtering, and whether it is our own method's.

    ``method``: the method it is about, or several on a line each, where its name says more than that; ``network``: a
    letter that rows of methods on one network have in common, empty where a method has its own, and ``network_tip`` the
    methods on it; ``folded``: shown only when a reader asks for it.
    """

    name: str
    cells: Sequence[TableCell]
    kind: str = ""
    ours: bool = False
    method: str = ""
    network: str = ""
    network_tip: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Table:
    """A table with a caption, what its marks mean, and the families of columns a reader can choose between.

    ``page_legend`` follows ``legend`` on the page alone: it is about what only a page can show. ``compact``: so many
    columns are shown at first. ``is_about_methods``: a click on a method's name tells of it.
    """

    key: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    legend: str = ""
    families: Sequence[tuple[str, str]] = ()
    fold_label: str = "Not measured"
    page_legend: str = ""
    compact: int = COMPACT_COLUMNS
    is_about_methods: bool = False

    @property
    def has_networks(self) -> bool:
        """Whether some rows are of methods on one network."""
        return any(row.network for row in self.rows)

    @property
    def n_folded(self) -> int:
        """How many rows are folded at first."""
        return sum(row.folded for row in self.rows)

    def columns_at_first(self, family: str) -> frozenset[str]:
        """Return the keys of the columns that a chosen family begins with."""
        return frozenset([column.key for column in self.columns if column.is_shown(family)][: self.compact])

    @property
    def is_wide(self) -> bool:
        """Whether some choice of columns is cut at first."""
        choices = [key for key, _ in self.families] or [""]
        return any(sum(column.is_shown(key) for column in self.columns) > self.compact for key in choices)

    @property
    def has_seeds(self) -> bool:
        """Whether some cell shows the value of each seed on hover."""
        return any(cell.tip.startswith("seed ") for row in self.rows for cell in row.cells)


MISSING = TableCell("–", None, tip="no value")


def text_cell(text: str) -> TableCell:
    """Return a cell that is sorted by its text."""
    return TableCell(text, text)


def number_cell(value: float | None, form: str, tip: str = "") -> TableCell:
    """Return a cell of a number in a format, such as ``+.4f``, or of a dash."""
    return TableCell("–" if value is None else f"{value:{form}}", value, tip=tip)


def mark_best(column: Sequence[TableCell], higher_is_better: bool | None) -> list[TableCell]:
    """Return the cells of a column with the best value, as it is printed, set as best."""
    values = [cell.value for cell in column if isinstance(cell.value, float)]
    if higher_is_better is None or len(values) < 2:
        return list(column)
    best = max(values) if higher_is_better else min(values)
    text = next(cell.text for cell in column if cell.value == best)
    return [replace(cell, best=True) if cell.text == text else cell for cell in column]


def show(metric: str, value: float, decimals: int = 3) -> str:
    """Return a metric's value as printed: so many decimals for shares and errors, three digits for costs.

    >>> show("latency_ms", 0.00778), show("accuracy", 0.98765), show("aurc", 0.01234, 1)
    ('7.78 µs', '0.988', '12.3')
    """
    known = METRICS.get(metric)
    if known is not None and known.family == "efficiency":
        return show_time(value) if metric.startswith("latency") else show_number(value)
    value *= 1000 if metric in THOUSANDTHS else 1
    return f"{value:.{decimals}f}" if abs(value) < 1000 else f"{value:.4g}"


def decimals_for(metric: str, means: Sequence[float]) -> int:
    """Return how many decimals a column needs, so that its largest mean has three significant digits."""
    largest = max((abs(mean) for mean in means), default=0.0) * (1000 if metric in THOUSANDTHS else 1)
    return 3 if largest == 0 else min(6, max(1, 2 - math.floor(math.log10(largest))))


def show_time(milliseconds: float) -> str:
    """Return a time with three significant digits, in the unit that needs no zeros."""
    for unit, factor in (("ms", 1.0), ("µs", 1e3)):
        if milliseconds * factor >= 1:
            return f"{show_number(milliseconds * factor)} {unit}"
    return f"{show_number(milliseconds * 1e6)} ns"


def show_number(value: float) -> str:
    """Return a number with three significant digits and no exponent where one can be avoided."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if 1e-4 <= abs(value) < 1e6:
        return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
    return f"{value:.3g}"


def show_p(p: float | None) -> str:
    """Return a p-value: three decimals, "< 0.001", or "< 1e-16" where floating point has no smaller one to trust."""
    if p is None:
        return "–"
    return "< 1e-16" if p < 1e-16 else "< 0.001" if p < 0.001 else f"{p:.3f}"


def template_environment(package: str = "volta.report") -> Environment:
    """Return what renders the templates of a package: autoescaped, and strict about names."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["zip"] = zip
    return environment


def asset(name: str) -> str:
    """Return a file of ``report/assets`` as text."""
    return (files("volta.report") / "assets" / name).read_text(encoding="utf-8")


def render(template: str, scripts: Sequence[str], **values: object) -> str:
    """Return a page of ``report/templates`` in the report's style, with scripts of ``report/assets`` and values."""
    return (
        template_environment()
        .get_template(template)
        .render(
            version=__version__,
            palette=PALETTE,
            # Files of this package, not a user's text: they are styles and scripts and must stay as they are.
            style_sheet=Markup(asset("report.css")),
            early_script=Markup(asset("early.js")),
            scripts=Markup("\n".join(map(asset, scripts))),
            **values,
        )
    )
