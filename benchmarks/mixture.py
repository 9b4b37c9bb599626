"""The GMM density's fit beside scikit-learn's, from the same kind of start: time and the density reached.

Run with: python benchmarks/mixture.py [--rows N] [--width N] [--components N] [--passes N] [--repeats N]
Rows are ten stretched clouds, as penultimate vectors are. One thread; both make every pass asked for. The ratio
is of the fastest repeats, with each side's slowest over its fastest as spread.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from volta.methods.gmm import fit_mixture, spread_points


def clouds(n_rows: int, width: int) -> np.ndarray:
    """Return rows of ten Gaussians with means and covariances of their own, squashed: not quite Gaussian."""
    random = np.random.default_rng(0)
    group = random.integers(10, size=n_rows)
    stretch = random.normal(size=(10, width, width)) / np.sqrt(width)
    rows = random.normal(size=(n_rows, width))
    for index in range(10):
        rows[group == index] = rows[group == index] @ stretch[index]
    return np.tanh(rows + 0.5 * random.normal(size=(10, width))[group]).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows = clouds(options.rows, options.width)
    ridge = 1e-6 * float(rows.var(axis=0).mean())
    own, peer = [], []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(options.repeats):
            started = time.perf_counter()
            start = spread_points(rows, options.components, np.random.default_rng(0))
            ours, _ = fit_mixture(rows, start, max_iter=options.passes, tol=0.0, ridge=ridge)
            own.append(time.perf_counter() - started)
            started = time.perf_counter()
            theirs = GaussianMixture(
                options.components,
                max_iter=options.passes,
                tol=0.0,
                reg_covar=ridge,
                init_params="k-means++",
                random_state=0,
            ).fit(rows.astype(np.float64))
            peer.append(time.perf_counter() - started)
    print(
        f"{options.rows:,} × {options.width}, {options.components} components, {options.passes} passes, "
        f"n = {options.repeats}: ours {min(own):.1f} s (mean log density {ours.log_density(rows).mean():.2f}), "
        f"scikit-learn {min(peer):.1f} s ({theirs.score(rows):.2f}), {min(peer) / min(own):.1f}× faster "
        f"(spread {max(own) / min(own):.2f}, {max(peer) / min(peer):.2f})"
    )


if __name__ == "__main__":
    main()
