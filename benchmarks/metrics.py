"""Time every metric and the full report beside scikit-learn and torchmetrics, in one run on one machine.

    python benchmarks/metrics.py [--quick] [--repeats N]

A time is the best of the repeats, peers and VOLTA taking turns; a ratio is fastest peer / VOLTA, more than 1
meaning that VOLTA is faster; the spread is VOLTA's slowest repeat over its fastest. Memory is the peak that NumPy
allocates (tracemalloc), as a multiple of the size of `probs`. VOLTA checks that every row is a probability
vector; the peers' accuracy does not.
"""

import argparse
import platform
import time
import tracemalloc
import warnings
from collections.abc import Callable

import numpy as np
import sklearn
import sklearn.metrics as sk
import torch
import torchmetrics
import torchmetrics.functional.classification as tm

from volta import metrics

FULL = ((1_000_000, 10), (50_000, 1000))
QUICK = ((100_000, 10), (5_000, 1000))
Call = Callable[[], object]


def make_case(n_samples: int, n_classes: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((n_samples, n_classes), dtype=np.float32)
    labels = np.where(rng.random(n_samples) < 0.8, logits.argmax(axis=1), rng.integers(0, n_classes, n_samples))
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    uncertainty = 1 - logits.max(axis=1).astype(np.float64)
    return {
        "probs": logits,
        "labels": labels,
        "uncertainty": uncertainty,
        "correct": logits.argmax(axis=1) == labels,
        "id_scores": uncertainty,
        "ood_scores": rng.beta(2, 2, n_samples),
        "sets": logits > 0.1,
    }


def peer_calls(case: dict[str, np.ndarray]) -> dict[str, dict[str, Call]]:
    """For each metric that a peer defines, the calls that compute it from the same arrays."""
    probs, labels = case["probs"], case["labels"]
    n_classes = probs.shape[1]
    classes = np.arange(n_classes)
    scores = np.concatenate([case["id_scores"], case["ood_scores"]])
    is_ood = np.repeat([0, 1], [len(case["id_scores"]), len(case["ood_scores"])])
    t_probs, t_labels = torch.from_numpy(probs), torch.from_numpy(labels)
    t_scores, t_is_ood = torch.from_numpy(scores), torch.from_numpy(is_ood)

    def sk_fpr95() -> float:
        fpr, tpr, _ = sk.roc_curve(is_ood, scores, drop_intermediate=False)
        return float(fpr[np.searchsorted(tpr, 0.95)])

    def sk_fpr95_id() -> float:
        fpr, tpr, _ = sk.roc_curve(1 - is_ood, -scores, drop_intermediate=False)
        return float(fpr[np.searchsorted(tpr, 0.95)])

    def tm_calibration(norm: str) -> Call:
        return lambda: tm.multiclass_calibration_error(t_probs, t_labels, n_classes, n_bins=15, norm=norm)

    return {
        "accuracy": {
            "sklearn": lambda: sk.accuracy_score(labels, probs.argmax(axis=1)),
            "torchmetrics": lambda: tm.multiclass_accuracy(t_probs, t_labels, n_classes, average="micro"),
        },
        "nll": {"sklearn": lambda: sk.log_loss(labels, probs, labels=classes)},
        "brier": {
            "sklearn": lambda: sk.brier_score_loss(labels, probs, labels=classes, scale_by_half=False),
        },
        "ece": {"torchmetrics": tm_calibration("l1")},
        "mce": {"torchmetrics": tm_calibration("max")},
        "auroc": {
            "sklearn": lambda: sk.roc_auc_score(is_ood, scores),
            "torchmetrics": lambda: tm.binary_auroc(t_scores, t_is_ood),
        },
        "aupr_out": {
            "sklearn": lambda: sk.average_precision_score(is_ood, scores),
            "torchmetrics": lambda: tm.binary_average_precision(t_scores, t_is_ood),
        },
        "aupr_in": {
            "sklearn": lambda: sk.average_precision_score(1 - is_ood, -scores),
            "torchmetrics": lambda: tm.binary_average_precision(1 - t_scores, 1 - t_is_ood),
        },
        "fpr95": {"sklearn": sk_fpr95},
        "fpr95_id": {"sklearn": sk_fpr95_id},
    }


def best_times(calls: dict[str, Call], repeats: int) -> tuple[dict[str, float], float]:
    """Return the best time of each call, and the spread of VOLTA's."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: min(spent) for name, spent in times.items()}, max(times["volta"]) / min(times["volta"])


def peak_bytes(call: Call) -> int:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def print_row(name: str, times: dict[str, float], spread: float, extra: float) -> None:
    peers = {peer: seconds for peer, seconds in times.items() if peer != "volta"}
    cells = [f"{peers[peer] * 1e3:11.1f}" if peer in peers else f"{'-':>11}" for peer in ("sklearn", "torchmetrics")]
    ratio = f"{min(peers.values()) / times['volta']:7.1f}x" if peers else f"{'-':>8}"
    shown = f"{name:20}{times['volta'] * 1e3:10.1f}{cells[0]}{cells[1]:>14}{ratio:>10}{spread:10.2f}{extra:10.2f}x"
    print(shown, flush=True)


def run_size(n_samples: int, n_classes: int, repeats: int) -> None:
    case = make_case(n_samples, n_classes)
    size = case["probs"].nbytes
    peers = peer_calls(case)
    print(f"\n{n_samples:,} x {n_classes} float32 ({size / 1e6:.0f} MB), {n_samples:,} OOD rows")
    print(f"{'ms':20}{'volta':>10}{'sklearn':>11}{'torchmetrics':>14}{'fastest':>10}{'spread':>10}{'memory':>11}")
    fastest_sum = 0.0
    computed = {name: metric for name, metric in metrics.METRICS.items() if metric.function is not None}
    for name, metric in computed.items():
        arguments = [case[need] for need in metric.needs]

        def call(function: Callable[..., float] = metric.function, arguments: list[np.ndarray] = arguments) -> float:
            return function(*arguments)

        times, spread = best_times({"volta": call, **peers.get(name, {})}, repeats)
        fastest_sum += min((seconds for peer, seconds in times.items() if peer != "volta"), default=0.0)
        print_row(name, times, spread, peak_bytes(call) / size)

    def full_report() -> object:
        return metrics.report(
            case["probs"], case["labels"], case["uncertainty"], {"ood": case["ood_scores"]}, sets=case["sets"]
        )

    times, spread = best_times({"volta": full_report}, repeats)
    seconds = times["volta"]
    print_row("report", times, spread, peak_bytes(full_report) / size)
    print(
        f"report: {seconds * 1e3:.0f} ms for {len(computed)} metrics; the fastest peer for each "
        f"of the {len(peers)} that have one: {fastest_sum * 1e3:.0f} ms; ratio {fastest_sum / seconds:.1f}x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, scikit-learn {sklearn.__version__}, "
        f"torchmetrics {torchmetrics.__version__}, torch {torch.__version__} on "
        f"{torch.get_num_threads()} threads, {platform.machine()}; best of {options.repeats}"
    )
    with warnings.catch_warnings():
        # scikit-learn warns that float32 rows do not sum to 1 in its own tolerance.
        warnings.simplefilter("ignore", UserWarning)
        for n_samples, n_classes in QUICK if options.quick else FULL:
            run_size(n_samples, n_classes, options.repeats)


if __name__ == "__main__":
    main()
