"""The mean of one method's metric with its standard error over new seeds and new test rows."""

from __future__ import annotations

from volta.bench.records import OWN
from volta.stats.bootstrap import Bootstrap
from volta.stats.estimate import Estimate
from volta.stats.intervals import shared_row_variance
from volta.stats.paired import fixed_models_estimate, paired_estimate
from volta.stats.results import Results


def mean_estimate(
    table: Results, method: str, metric: str, eval_set: str, source: Bootstrap | str = ""
) -> Estimate | None:
    """Return the mean over seeds with se² = s²/n + row variance, as tests of differences have it.

    Own predictions of a single seed are models as they are, so that se² is the row variance alone. None where there is
    no value, or one seed of a method that was trained, or where it is not known what new test rows would do.
    ``source``: the bootstrap of the table, why there is none, or empty where rows are not in question.
    """
    sample = table.sample(method, eval_set, metric)
    if sample is None:
        return None
    seeds = sorted(table.of(method, eval_set, metric))
    draws = source.row_draws(metric, eval_set, method, seeds) if isinstance(source, Bootstrap) else None
    if draws is None and source:
        return None
    row_variance = 0.0 if draws is None else shared_row_variance(draws)
    if sample.n > 1:
        return paired_estimate(sample, row_variance)
    return fixed_models_estimate(sample, row_variance) if table.origins[method] == OWN and draws is not None else None
