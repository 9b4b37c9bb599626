"""What the charts of a group are drawn from: its values, its curves, its ablation tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volta.figures import Difference, GroupNumbers, MethodValues, PairDifference, TrainingCurve
from volta.figures.names import metric_key
from volta.report.curves import Curves
from volta.report.run import Group
from volta.stats import AblationRow, TestRow


def group_numbers(
    group: Group, curves: Curves, ablation: Sequence[AblationRow], pairs: Sequence[TestRow] = ()
) -> GroupNumbers:
    """Return everything the charts of a group may need."""
    return GroupNumbers(
        context=group.context,
        methods=tuple(method_values(group, name) for name in group.methods),
        compared=group.compared,
        headline=group.headline,
        ood_sets=group.near_first,
        near_sets=group.near_sets,
        shift_sets=group.sets("shift"),
        bins=curves.reliability,
        curves=curves.risk_coverage,
        histograms=curves.histograms,
        roc=curves.roc,
        precision_recall=curves.precision_recall,
        differences=tuple(
            Difference(
                row.row,
                row.reference,
                metric_key(row.metric, row.set),
                row.difference,
                row.std or 0.0,
                row.p,
                bool(row.significant),
            )
            for row in ablation
            if row.difference is not None
        ),
        excess=curves.excess_risk,
        trainings=tuple(_trainings(group)),
        pairs=tuple(
            PairDifference(
                row.reference, row.method, metric_key(row.metric, row.set), row.difference, row.verdict, row.p_holm
            )
            for row in pairs
            if row.difference is not None and row.set
        ),
        networks=group.networks,
    )


def _trainings(group: Group) -> Iterator[TrainingCurve]:
    for (method, seed), record in group.records.items():
        for log in record.trainings:
            yield TrainingCurve(method, seed, log.val_losses, log.best_epoch, log.kept_epoch)


def method_values(group: Group, method: str) -> MethodValues:
    """Return a method's per-seed values on every set, as the figures take them."""
    found = {
        metric_key(metric, name): by_seed
        for name, metrics in (group.table.values[method] if group.table else {}).items()
        for metric, by_seed in metrics.items()
    }
    return MethodValues(
        method,
        group.title(method),
        {key: list(by_seed.values()) for key, by_seed in found.items()},
        group.is_ours(method),
        {key: list(by_seed) for key, by_seed in found.items()},
    )
