"""Paired bootstrap over test rows: every method and every seed is scored on the same resampled rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from volta.core.errors import InputError
from volta.core.seeding import rng
from volta.metrics.binning import N_BINS
from volta.stats.pairs import PairCounter, Scratch
from volta.stats.rowscores import RowScores

N_RESAMPLES = 10_000
LEVEL = 0.95
ROW_METRICS = ("accuracy", "ece", "brier", "nll")
_COLUMNS = 64
_BOOTSTRAP_SEED = 42

Floats = NDArray[np.float64]
Key = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Metrics of every method on the rows as they are and on every resample, averaged over the method's seeds.

    Keys are (metric, set): ("ece", "test"), ("auroc", "ood:svhn"). ``observed``: key → method → value;
    ``resampled``: key → method → (n_resamples,).
    """

    observed: Mapping[Key, Mapping[str, float]]
    resampled: Mapping[Key, Mapping[str, Floats]]

    def difference(self, metric: str, eval_set: str, first: str, second: str, level: float = LEVEL) -> tuple[float, float] | None:
        """Return the basic bootstrap interval of (first − second), or None where one of them has no such metric.

        [2d − q_hi, 2d − q_lo], with d the observed difference and q the (1 ∓ level)/2 quantiles of the resampled ones.
        ECE is biased upwards and a resample adds the bias once more; the basic interval takes it back, the percentile
        interval would not. Reference: Davison & Hinkley, Bootstrap Methods and their Application (1997), §5.2.
        """
        if not 0 < level < 1:
            raise InputError(f"level is {level}; pass a level between 0 and 1, for example 0.95")
        observed = self.observed.get((metric, eval_set), {})
        if first not in observed or second not in observed:
            return None
        draws = self.resampled[metric, eval_set]
        tail = (1 - level) / 2
        low, high = np.quantile(draws[first] - draws[second], [tail, 1 - tail])
        d = observed[first] - observed[second]
        return float(2 * d - high), float(2 * d - low)


def paired_bootstrap(
    models: Mapping[str, Sequence[RowScores]],
    n_resamples: int = N_RESAMPLES,
    seed: int = _BOOTSTRAP_SEED,
    n_threads: int = 2,
) -> Bootstrap:
    """Resample the test rows, and each OOD set's rows, with replacement, the same rows for all methods and seeds.

    A resample is a vector of counts w over rows. Accuracy, Brier and NLL are Σ w_i x_i / n and ECE is
    Σ_b |Σ_{i in b} w_i (conf_i − correct_i)| / n, so all of them are one matrix product; AUROC is an exact weighted pair
    count. Memory: 64 resamples at a time, O(64 (n + m)). The answer depends on ``seed`` and the data alone.

    models: method → its models, one a seed, all scored on the same test rows. An interval made from it covers the
    choice of test rows for these trained models; how training varies is the seeds' matter.
    """
    if n_resamples < 1:
        raise InputError(f"n_resamples is {n_resamples}; pass at least 1")
    flat = [(name, model) for name, runs in models.items() for model in runs]
    if not flat:
        raise InputError("models is empty; pass at least one method with one model")
    n_rows = _common_rows(flat)
    ood_sizes = _common_ood_sizes(flat)
    columns = _design(flat)
    counters = {
        eval_set: [(name, PairCounter(_id_score(model), model.ood_scores[eval_set])) for name, model in flat if eval_set in model.ood_scores]
        for eval_set in ood_sizes
    }  # fmt: skip
    observed, resampled = _empty(flat, ood_sizes, n_resamples)
    _score(np.ones((n_rows, 1), np.float32), {name: np.ones((size, 1), np.float32) for name, size in ood_sizes.items()},
           flat, columns, counters, slice(0, 1), observed)  # fmt: skip

    def score_chunk(start: int) -> None:
        width = min(_COLUMNS, n_resamples - start)
        weights = _counts(n_rows, width, rng(seed, "bootstrap", "test", start))
        outside = {name: _counts(size, width, rng(seed, "bootstrap", name, start)) for name, size in ood_sizes.items()}
        _score(weights, outside, flat, columns, counters, slice(start, start + width), resampled)

    # Chunks write to slices of their own and draw from generators of their own, so threads change the time alone.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(score_chunk, range(0, n_resamples, _COLUMNS)):
            pass
    return Bootstrap({key: {name: float(value[0]) for name, value in by.items()} for key, by in observed.items()}, resampled)


def _counts(n: int, width: int, generator: np.random.Generator) -> NDArray[np.float32]:
    """Draw how often each of n rows occurs in each of ``width`` resamples of size n: (n, width)."""
    drawn = generator.integers(0, n, size=(n, width))
    drawn *= width
    drawn += np.arange(width)
    return np.bincount(drawn.ravel(), minlength=n * width).reshape(n, width).astype(np.float32)


def _design(flat: list[tuple[str, RowScores]]) -> Floats:
    """Stack what is summed over rows: correct, Brier, NLL, then the gap in each ECE bin: (models × 18, n)."""
    rows = []
    for _, model in flat:
        gaps = np.zeros((N_BINS, len(model)))
        gaps[model.bin, np.arange(len(model))] = model.gap
        rows.append(np.vstack([model.correct, model.brier, model.nll, gaps]))
    return np.vstack(rows)


def _score(
    weights: NDArray[np.float32],
    ood_weights: Mapping[str, NDArray[np.float32]],
    flat: list[tuple[str, RowScores]],
    design: Floats,
    counters: Mapping[str, list[tuple[str, PairCounter]]],
    place: slice,
    into: dict[Key, dict[str, Floats]],
) -> None:
    n_rows, width = weights.shape
    sums = (design @ weights.astype(np.float64)).reshape(len(flat), 3 + N_BINS, width) / n_rows
    runs: dict[str, int] = {}
    for name, _ in flat:
        runs[name] = runs.get(name, 0) + 1
    for (name, _), part in zip(flat, sums, strict=True):
        values = {"accuracy": part[0], "brier": part[1], "nll": part[2], "ece": np.abs(part[3:]).sum(axis=0)}
        for metric, value in values.items():
            into[metric, "test"][name][place] += value / runs[name]
    for eval_set, pairs in counters.items():
        outside = ood_weights[eval_set]
        scratch = Scratch(n_rows, len(outside), width)
        scored = [name for name, _ in pairs]
        for name, counter in pairs:
            auroc = counter.count(weights, outside, scratch) / (n_rows * len(outside))
            into["auroc", eval_set][name][place] += auroc / scored.count(name)


def _empty(
    flat: list[tuple[str, RowScores]], ood_sizes: Mapping[str, int], n_resamples: int
) -> tuple[dict[Key, dict[str, Floats]], dict[Key, dict[str, Floats]]]:
    keys: dict[Key, list[str]] = {(metric, "test"): [name for name, _ in flat] for metric in ROW_METRICS}
    keys |= {("auroc", name): [method for method, model in flat if name in model.ood_scores] for name in ood_sizes}
    return (
        {key: {name: np.zeros(1) for name in names} for key, names in keys.items()},
        {key: {name: np.zeros(n_resamples) for name in names} for key, names in keys.items()},
    )


def _common_rows(flat: list[tuple[str, RowScores]]) -> int:
    n_rows = len(flat[0][1])
    for name, model in flat:
        if len(model) != n_rows:
            raise InputError(f"models[{name!r}] has {len(model)} rows but {flat[0][0]!r} has {n_rows}; score the same rows")
    return n_rows


def _common_ood_sizes(flat: list[tuple[str, RowScores]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, model in flat:
        for eval_set, scores in model.ood_scores.items():
            if sizes.setdefault(eval_set, len(scores)) != len(scores):
                raise InputError(
                    f"models[{name!r}] has {len(scores)} rows in {eval_set!r} but others have {sizes[eval_set]}; score the same rows"
                )
    return sizes


def _id_score(model: RowScores) -> Floats:
    if model.id_score is None:
        raise InputError("id_score is missing but ood_scores is given; pass the scores of the test rows too")
    return model.id_score
