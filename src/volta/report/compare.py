"""What changed between two runs, cell by cell: the tool for «did my change help»."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from volta.bench.store import RunStore
from volta.core.errors import InputError, StoreError
from volta.figures.names import metric_name, set_name
from volta.metrics import METRICS
from volta.report.run import Group, Run, budget_words, load_run
from volta.report.table_model import show_p
from volta.stats import Bootstrap, RowScores, holm, paired_bootstrap, row_scores, rows_to_csv, welch

DEFAULT_METRICS = ("accuracy", "ece", "nll", "brier", "aurc", "auroc")
N_RESAMPLES = 2000
MAX_LISTED = 10


@dataclass(frozen=True)
class ChangeRow:
    """One metric of one method in both runs; ``difference`` is B − A, ``better`` says whether that is a gain.

    ``seeds_shared`` ran in both, ``seeds_identical`` gave the same predictions to the last bit. ``p`` is Welch's over
    seeds, ``p_holm`` corrected over all rows that are not identical; ``boot_low``, ``boot_high``: the paired bootstrap
    interval over test rows.
    """

    task: str
    protocol: str
    method: str
    set: str
    metric: str
    n_a: int
    n_b: int
    mean_a: float
    mean_b: float
    difference: float
    better: bool | None
    p: float | None
    p_holm: float | None
    boot_low: float | None
    boot_high: float | None
    seeds_shared: int
    seeds_identical: int
    note: str

    @property
    def identical(self) -> bool:
        """Whether both runs hold the same predictions of the same seeds."""
        return self.n_a == self.n_b == self.seeds_identical


@dataclass(frozen=True)
class RunComparison:
    """The rows of a comparison, the cells that only one run has, and what else differs between the runs."""

    rows: tuple[ChangeRow, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def changed(self) -> tuple[ChangeRow, ...]:
        """Rows whose mean is not the same in both runs."""
        return tuple(row for row in self.rows if row.difference != 0)

    def to_csv(self) -> str:
        """Return every row as CSV."""
        return rows_to_csv(ChangeRow, self.rows)

    def to_text(self, titles: tuple[str, str] = ("A", "B")) -> str:
        """Return the comparison for a terminal: remarks, a line per changed metric, and a verdict in a sentence."""
        lines = [f"note: {remark}" for remark in self.remarks]
        for name, cells in zip(titles, (self.only_a, self.only_b), strict=True):
            lines += [f"only in {name}: {cell}" for cell in cells[:MAX_LISTED]]
            lines += [f"only in {name}: {len(cells) - MAX_LISTED} cells more"] if len(cells) > MAX_LISTED else []
        if self.changed:
            lines += ["", *_lines(self.changed, titles)]
        return "\n".join([*lines, "", self.verdict()]).strip() + "\n"

    def verdict(self) -> str:
        """Return one sentence: how many values moved, how many beyond chance, and which way."""
        if not self.rows:
            return "The runs share no task, protocol and method; there is nothing to compare."
        if not self.changed:
            return f"All {len(self.rows)} compared values are the same in both runs."
        sure = [row for row in self.changed if row.p_holm is not None and row.p_holm < 0.05]
        gains, losses = (sum(row.better is way for row in sure) for way in (True, False))
        up, down = (sum(row.better is way for row in self.changed) for way in (True, False))
        return (
            f"{len(self.changed)} of {len(self.rows)} compared values differ: {up} better, {down} worse in B; "
            f"after Holm’s correction {gains} are significantly better and {losses} significantly worse."
        )


def compare_runs(
    store_a: RunStore,
    store_b: RunStore,
    metrics: Sequence[str] = DEFAULT_METRICS,
    n_resamples: int = N_RESAMPLES,
    say: Callable[[str], object] | None = None,
) -> RunComparison:
    """Compare two run folders on every (task, protocol, method) both have; B is the changed one.

    Test metrics are taken on the test rows, OOD metrics on every OOD set that both have. The paired bootstrap needs the
    same test rows in both runs; ``n_resamples`` 0 leaves it out. ``say`` hears of metrics that were computed again.
    """
    for metric in metrics:
        if metric not in METRICS:
            raise InputError(f"there is no metric {metric!r}; the metrics are: {', '.join(METRICS)}")
    run_a, run_b = load_run(store_a, say), load_run(store_b, say)
    groups_b = {(group.task, group.protocol): group for group in run_b.groups}
    rows: list[ChangeRow] = []
    for a in run_a.groups:
        b = groups_b.get((a.task, a.protocol))
        if b is not None:
            boot = _bootstrap(run_a, a, run_b, b, n_resamples)
            rows += [row for method in a.methods if method in b.methods for row in _rows(a, b, method, metrics, boot)]
    rows = _corrected(rows)
    cells_a, cells_b = (
        {_cell_name(group, key) for group in run.groups for key in group.records} for run in (run_a, run_b)
    )
    return RunComparison(
        tuple(rows), tuple(sorted(cells_a - cells_b)), tuple(sorted(cells_b - cells_a)), tuple(_remarks(run_a, run_b))
    )


def _corrected(rows: Sequence[ChangeRow]) -> list[ChangeRow]:
    # Predictions equal to the last bit test nothing; counting them would only weaken the tests that are left.
    differing = [row for row in rows if not row.identical]
    corrected = dict(zip(map(id, differing), holm([row.p for row in differing]), strict=True))
    return [replace(row, p_holm=corrected.get(id(row), row.p)) for row in rows]


def _rows(a: Group, b: Group, method: str, metrics: Sequence[str], boot: Bootstrap | str) -> Iterable[ChangeRow]:
    shared = [key for key in a.records if key[0] == method and key in b.records]
    no_boot = boot if isinstance(boot, str) else ""
    identical = sum(a.records[key].predictions == b.records[key].predictions for key in shared)
    for metric in metrics:
        wheres = (
            [name for name in a.near_first if name in b.near_first] if METRICS[metric].family == "ood" else ["test"]
        )
        for where in wheres:
            first = a.table.sample(method, where, metric) if a.table else None
            second = b.table.sample(method, where, metric) if b.table else None
            if first is None or second is None:
                continue
            test = welch(second, first)
            interval = (
                boot.difference(metric, where, f"b:{method}", f"a:{method}") if isinstance(boot, Bootstrap) else None
            )
            up = METRICS[metric].higher_is_better
            yield ChangeRow(
                a.task, a.protocol, method, where, metric, first.n, second.n, first.mean, second.mean, test.difference,
                None if test.difference == 0 or up is None else (test.difference > 0) == up, test.p, None,
                None if interval is None else interval[0], None if interval is None else interval[1],
                len(shared), identical, "; ".join(part for part in (test.reason, no_boot) if part),
            )  # fmt: skip


def _bootstrap(run_a: Run, a: Group, run_b: Run, b: Group, n_resamples: int) -> Bootstrap | str:
    if not n_resamples:
        return "no bootstrap was asked for"
    sets = tuple(name for name in a.near_first if name in b.near_first)
    models: dict[str, list[RowScores]] = {}
    labels: list[bytes] = []
    for side, run, group in (("a", run_a, a), ("b", run_b, b)):
        for method in group.methods:
            if method in a.methods and method in b.methods:
                scores = _scores(run.store, group, method, sets, labels)
                if scores:
                    models[f"{side}:{method}"] = scores
    if len(set(labels)) > 1:
        return "no bootstrap: the runs were scored on different test rows"
    return paired_bootstrap(models, n_resamples) if models else "no bootstrap: no stored predictions"


def _scores(store: RunStore, group: Group, method: str, sets: tuple[str, ...], labels: list[bytes]) -> list[RowScores]:
    found = []
    for name, seed in group.records:
        if name != method or group.table is None:
            continue
        try:
            arrays = store.read_arrays(group.table.cells[method, seed])
        except StoreError:
            return []
        labels.append(np.asarray(arrays["test/labels"], dtype=np.int64).tobytes())
        outside = {key: arrays[f"{key}/ood_score"] for key in sets if f"{key}/ood_score" in arrays}
        found.append(row_scores(arrays["test/probs"], arrays["test/labels"], arrays.get("test/ood_score"), outside))
    return found


def _remarks(a: Run, b: Run) -> Iterable[str]:
    first, second = a.manifest, b.manifest
    pairs = (
        ("budgets differ", budget_words(first.config.budget), budget_words(second.config.budget)),
        ("devices differ", first.config.device, second.config.device),
        ("numbers of threads differ", first.config.threads, second.config.threads),
        ("instruction sets differ", first.environment.instruction_set, second.environment.instruction_set),
        ("volta differs", first.environment.volta, second.environment.volta),
        ("commit differs", first.environment.commit, second.environment.commit),
    )
    yield from (
        f"{words}: {left or 'not recorded'} in A, {right or 'not recorded'} in B"
        for words, left, right in pairs
        if left != right
    )
    data = [{(g.task, g.protocol): g.first_record.data for g in run.groups if g.first_record} for run in (a, b)]
    for key in data[0]:
        if key in data[1]:
            other = [name for name in data[0][key] if name in data[1][key] and data[0][key][name] != data[1][key][name]]
            if other:
                yield f"{key[0]}, {key[1]}: the data differ ({', '.join(other)})"


def _cell_name(group: Group, key: tuple[str, int]) -> str:
    return f"{group.task} · {group.protocol} · {key[0]} · seed {key[1]}"


def _lines(rows: Sequence[ChangeRow], titles: tuple[str, str]) -> list[str]:
    head = ("task", "protocol", "method", "metric", titles[0], titles[1], "B − A", "", "p", "Holm", "bootstrap 95 %")
    body = [
        (
            row.task,
            row.protocol,
            row.method,
            metric_name(row.metric) + ("" if row.set == "test" else f" ({set_name(row.set)})"),
            f"{row.mean_a:.4f}",
            f"{row.mean_b:.4f}",
            f"{row.difference:+.4f}",
            {True: "better", False: "worse", None: ""}[row.better]
            + (" *" if row.p_holm is not None and row.p_holm < 0.05 else ""),
            show_p(row.p),
            show_p(row.p_holm),
            "–" if row.boot_low is None or row.boot_high is None else f"[{row.boot_low:+.4f}, {row.boot_high:+.4f}]",
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in (head, *body)) for i in range(len(head))]
    return [
        "  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *body)
    ]
