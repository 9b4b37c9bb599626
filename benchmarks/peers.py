"""Fit and score every method that a peer library has beside that peer: same stored features, same threads, one run.

    VOLTA_DATA=DIR python benchmarks/peers.py [--repeats N] [--threads N] [--rows N] [--only PEER,...] [--metrics]

Rows are DIR/features/cifar10.npz (40,000 to train, 5,000 validation, 5,000 calibration, 10,000 test rows of 512) with
a linear discriminant as the network; without that file simulated ones of the same shape. A call is fit and score
together. Neighbour searches score 2,000 rows, Laplace 500. Calls take turns, ``--repeats`` times after a first one that
is not counted, ten times as often below half a second, and where a call takes more than 4 s once, the first one counted
too. A ratio is the peer's best over ours, above 1 meaning that ours is faster, in processor time, which other work on
the machine disturbs less than the clock; a spread is a side's slowest over its fastest. «agrees» is the rank
correlation of the two scores, where both give one score a row. Ours works in float64 and gives probabilities beside the
score; the peers work in float32 unless they are NumPy's. ``--metrics`` adds the metrics beside scikit-learn's and
torchmetrics'.

Peers are not part of the tests and come on their own, without the torch they would pull:

    pip install --no-deps pytorch-ood faiss-cpu netcal mapie torchcp laplace-torch skorch
    pip install --no-deps torchvision==0.28.0      # the one that belongs to your torch, here 2.13
    pip install --no-deps tqdm tabulate tensorboard absl-py gpytorch      # what these import
    pip install --no-deps opt_einsum curvlinops-for-pytorch einops einconv unfoldNd backpack-for-pytorch asdfghjkl
    pip install --no-deps pyro-ppl pyro-api linear_operator jaxtyping wadler_lindig
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from threadpoolctl import threadpool_limits

from peer_contests import N_CLASSES, PEERS, Case, Contest, stand_in_parts
from volta import metrics
from volta.core.types import Prediction
from volta.networks.outputs import LabelledOutputs, LastLayer, Outputs

SHORT_SECONDS, SHORT_ROUNDS = 0.5, 10
LONG_SECONDS = 4.0


def main() -> None:
    options = _parse()
    stand_in_parts()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    asked = options.only.split(",") if options.only else list(PEERS)
    ratios: list[float] = []
    with threadpool_limits(options.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case, source = _case(Path(os.environ.get("VOLTA_DATA", ".")) / "features" / "cifar10.npz", options.rows)
        print(
            f"{source}; torch {torch.__version__}, {options.threads} threads, best of n, "
            f"{platform.machine()}, load {os.getloadavg()[0]:.1f}"
        )
        print(f"{'what':22}{'peer':16}{'ours ms':>10}{'peer ms':>10}{'ratio':>9}{'n':>5}{'spreads':>14}{'agrees':>9}")
        for name in asked:
            try:
                contests = list(PEERS[name](case))
            except ImportError as error:
                print(f"{name}: not measured, {error}; see the top of this file for how to install it")
                continue
            ratios += [_timed(contest, options.repeats) for contest in contests]
        if options.metrics:
            ratios += _metrics(options.repeats)
    if not ratios:
        raise SystemExit("none of the peers asked for is installed")
    below = sum(ratio < 1.0 for ratio in ratios)
    print(f"{len(ratios)} contests: median ratio {statistics.median(ratios):.1f}×, {below} below 1")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, default=40_000, help="training rows")
    parser.add_argument("--only", default="", help=f"some of {', '.join(PEERS)}")
    parser.add_argument("--metrics", action="store_true", help="the metrics too, at 1,000,000 × 10 and 50,000 × 1000")
    return parser.parse_args()


def _case(path: Path, n_train: int) -> tuple[Case, str]:
    """Return the splits with logits of a linear discriminant, and where the rows come from."""
    if path.is_file():
        with np.load(path) as stored:
            order = np.random.default_rng(0).permutation(len(stored["train_y"]))
            train, labels = stored["train_x"][order].astype(np.float32), stored["train_y"][order]
            test, test_labels = stored["test_x"].astype(np.float32), stored["test_y"]
        source = f"{path.name}, {len(train) + len(test):,} × {train.shape[1]}"
    else:
        random = np.random.default_rng(0)
        labels, test_labels = random.integers(N_CLASSES, size=50_000), random.integers(N_CLASSES, size=10_000)
        centres = random.normal(size=(N_CLASSES, 512))
        train, test = (
            np.maximum(centres[part] + 2.0 * random.normal(size=(len(part), 512)), 0.0).astype(np.float32)
            for part in (labels, test_labels)
        )
        source = f"simulated rows ({path} is not there), 60,000 × 512"
    probe = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01).fit(train[:n_train], labels[:n_train])
    layer = LastLayer(probe.coef_.astype(np.float32), probe.intercept_.astype(np.float32))

    def split(rows: np.ndarray, known: np.ndarray) -> LabelledOutputs:
        return LabelledOutputs(Outputs(rows @ layer.weight.T + layer.bias, rows, layer), known)

    parts = [split(train[rows], labels[rows]) for rows in (slice(n_train), slice(40_000, 45_000), slice(45_000, None))]
    return Case(*parts, split(test, test_labels)), source


def _timed(contest: Contest, repeats: int) -> float:
    """Run both sides in turn, print a line, return the peer's best time over ours."""
    first, mine = _clocked(contest.ours)
    second, others = _clocked(contest.theirs)
    longest = max(first, second)
    n_rounds = SHORT_ROUNDS * repeats if longest < SHORT_SECONDS else repeats if longest < LONG_SECONDS else 1
    own: list[float] = []
    peer: list[float] = []
    for _ in range(n_rounds):
        own.append(_clocked(contest.ours)[0])
        peer.append(_clocked(contest.theirs)[0])
    if n_rounds == 1:
        own.append(first)
        peer.append(second)
    ratio = min(peer) / min(own)
    spreads = f"{max(own) / min(own):.2f}, {max(peer) / min(peer):.2f}"
    print(
        f"{contest.what:22}{contest.peer:16}{min(own) * 1e3:10.1f}{min(peer) * 1e3:10.1f}{ratio:8.2f}×{len(own):5}"
        f"{spreads:>14}{_agreement(mine, others):>9}",
        flush=True,
    )
    return ratio


def _clocked(call: Callable[[], object]) -> tuple[float, object]:
    started = time.process_time()
    result = call()
    return time.process_time() - started, result


def _agreement(mine: object, others: object) -> str:
    """Return the rank correlation of two scores a row; nothing where one side gives something else."""
    own = mine.uncertainty if isinstance(mine, Prediction) else mine
    peer = others.numpy() if isinstance(others, torch.Tensor) else others
    if not isinstance(own, np.ndarray) or not isinstance(peer, np.ndarray) or own.shape != peer.shape:
        return "-"
    return f"{spearmanr(own, peer).statistic:.4f}"


def _metrics(repeats: int) -> list[float]:
    # torchmetrics imports torchvision where it is there, so not before ``stand_in_parts``.
    import metrics as metric_benchmark

    ratios = []
    for n_rows, n_classes in metric_benchmark.FULL:
        case = metric_benchmark.make_case(n_rows, n_classes)
        for name, peers in metric_benchmark.peer_calls(case).items():
            metric = metrics.METRICS[name]
            arguments = [case[need] for need in metric.needs]
            for peer, theirs in peers.items():
                contest = Contest(
                    f"{name} {n_rows // 1000}k×{n_classes}",
                    peer,
                    lambda metric=metric, arguments=arguments: metric.function(*arguments),
                    theirs,
                )
                ratios.append(_timed(contest, repeats))
    return ratios


if __name__ == "__main__":
    main()
