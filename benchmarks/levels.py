"""How often a test of seeds and rows together finds a difference that is not there, at every mixture of the two errors.

Run with: python benchmarks/levels.py [--draws N]
A difference is the mean over seeds of normal draws plus a normal error of the rows, whose size is known; the true
difference is 0. ``rows / seeds`` is the rows' standard error in parts of the seeds'. «ours» rejects where the
difference is beyond `volta.stats.Estimate.half_width`; «Satterthwaite» is Student's t with his degrees of freedom, and
«seeds' degrees» with n − 1 of them. The levels are that of one test, of the first look of four, and of the smallest of
ten p-values after Holm's correction.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import special

from volta.stats.sequential import alpha_at
from volta.stats.tests import Estimate

SEEDS = (2, 3, 5, 10)
RATIOS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
LEVELS = (0.05, alpha_at(5), 0.005)


def rates(n: int, ratio: float, n_draws: int) -> dict[str, list[float]]:
    """Return rule → the share of draws in which it finds a difference, at each level."""
    random = np.random.default_rng(n)
    seeds = random.normal(size=(n_draws, n))
    row_error = ratio / np.sqrt(n)
    found = np.abs(seeds.mean(axis=1) + row_error * random.normal(size=n_draws))
    seed_error = seeds.std(axis=1, ddof=1) / np.sqrt(n)
    error = np.hypot(seed_error, row_error)
    degrees = (n - 1) * (error / seed_error) ** 4
    rules: dict[str, list[float]] = {"ours": [], "Satterthwaite": [], "seeds' degrees": []}
    for level in LEVELS:
        # The half-width is linear in both errors squared, so two estimates give it for all draws.
        by_seeds, by_rows = (Estimate(0.0, n, one, n - 1, 1.0 - one).half_width(level / 2) for one in (1.0, 0.0))
        limits = {
            "ours": np.hypot(by_seeds * seed_error, by_rows * row_error),
            "Satterthwaite": special.stdtrit(degrees, 1 - level / 2) * error,
            "seeds' degrees": special.stdtrit(n - 1, 1 - level / 2) * error,
        }
        for rule, limit in limits.items():
            rules[rule].append(float(np.mean(found > limit)))
    return rules


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200_000)
    options = parser.parse_args()
    print(f"share of {options.draws:,} draws in which a difference is found, at levels", *(f"{x:.4f}" for x in LEVELS))
    for n in SEEDS:
        for ratio in RATIOS:
            found = rates(n, ratio, options.draws)
            words = "   ".join(f"{rule} {' '.join(f'{x:.4f}' for x in shares)}" for rule, shares in found.items())
            print(f"{n:>2} seeds, rows / seeds {ratio:<4g}   {words}", flush=True)


if __name__ == "__main__":
    main()
