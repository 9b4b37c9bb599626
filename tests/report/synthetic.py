"""Run folders with made-up but plausible predictions, written as the runner writes them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.records import FINGERPRINTS, make_manifest, make_record
from volta.bench.cell_metrics import EvalSet
from volta.bench.records import Cell, CellRecord, make_cell
from volta.bench.store import RunStore
from volta.metrics import METRICS, report
from volta.networks.recipe import Budget

PAPER = (
    ("mc_dropout", "MC Dropout"),
    ("swag", "SWAG"),
    ("gmm", "GMM density"),
    ("temperature", "Temperature scaling"),
    ("energy", "Energy"),
    ("mahalanobis", "Mahalanobis"),
    ("hyperbolic", "Hyperbolic"),
    ("enn", "ENN"),
    ("taylor_sensus", "Taylor-Sensus"),
    ("conformal", "Split conformal"),
)
EXTRA = (
    ("softmax", "Softmax"),
    ("ensemble", "Deep ensemble"),
    ("max_logit", "Max logit"),
    ("relative_mahalanobis", "Relative Mahalanobis"),
    ("knn", "k nearest neighbours"),
    ("vim", "ViM"),
    ("gen", "GEN"),
    ("vector_scaling", "Vector scaling"),
    ("laplace", "Last-layer Laplace"),
    ("evidential", "Evidential"),
    ("ddu", "DDU"),
)
ABLATION = (
    ("volta-full", "Full VOLTA"),
    ("volta-full-no-adaptive-temperature", "− adaptive temperature"),
    ("volta-full-no-margin", "− margin"),
    ("volta-full-no-reconstruction", "− reconstruction"),
    ("volta-full-no-diversity", "− diversity"),
    ("volta-full-no-contrastive", "− contrastive"),
    ("volta-full-shallow", "shallow encoder"),
    ("volta-full-no-mc", "− MC inference"),
    ("volta-full-no-temperature", "− temperature scaling"),
    ("volta-full-no-posthoc", "− post-hoc only"),
    ("volta-add-margin", "VOLTA + margin"),
    ("volta-add-reconstruction", "VOLTA + reconstruction"),
    ("volta-add-diversity", "VOLTA + diversity"),
    ("volta-add-contrastive", "VOLTA + contrastive"),
)
SHIFTS = tuple(f"{name}-{severity}" for name in ("noise", "blur", "contrast") for severity in range(1, 6))


@dataclass(frozen=True)
class Plan:
    """What a made-up run holds."""

    tasks: tuple[str, ...] = ("digits",)
    protocols: tuple[str, ...] = ("fair",)
    methods: tuple[tuple[str, str, str], ...] = (
        ("volta", "VOLTA", "volta"),
        ("softmax", "Softmax", "extra"),
        ("temperature", "Temperature scaling", "paper"),
    )
    seeds: tuple[int, ...] = (42, 123, 456)
    n_rows: int = 120
    n_classes: int = 5
    ood: tuple[str, ...] = ("near_set", "noise")
    shifts: tuple[str, ...] = ("noise-1", "noise-3", "blur-1", "blur-3")
    missing: frozenset[tuple[str, int]] = frozenset()
    failed: frozenset[tuple[str, int]] = frozenset()
    budget: Budget = field(default_factory=Budget)
    notes: tuple[str, ...] = ()
    floored: dict[str, int] = field(default_factory=dict)
    backbone: str | None = None
    salt: int = 0
    variants: bool = False


FULL = Plan(
    methods=(
        ("volta", "VOLTA", "volta"),
        *((name, title, "paper") for name, title in PAPER),
        *((name, title, "extra") for name, title in EXTRA),
        *((name, title, "ablation") for name, title in ABLATION),
    ),
    n_rows=289,
    n_classes=8,
    ood=("digits_8_9", "uniform_noise", "shuffled_pixels"),
    shifts=SHIFTS,
)


def write_run(root: Path, plan: Plan) -> RunStore:
    """Write a run folder that follows the plan."""
    store = RunStore(root)
    store.create()
    cells = []
    for task in plan.tasks:
        for protocol in plan.protocols:
            for name, title, origin in plan.methods:
                for seed in plan.seeds:
                    cell = _cell(plan, task, protocol, name, seed)
                    cells.append(cell)
                    if (name, seed) in plan.failed:
                        store.write_failure(cell, "Traceback\nValueError: loss is <nan> & gone")
                    elif (name, seed) not in plan.missing:
                        arrays = make_arrays(plan, cell, _character(name))
                        store.write_cell(_record(plan, cell, title, origin, arrays), arrays)
    store.write_manifest(make_manifest(cells, plan.budget, "volta bench digits --out runs/digits"))
    return store


def make_arrays(plan: Plan, cell: Cell, character: tuple[float, float]) -> dict[str, np.ndarray]:
    """Return predictions of one cell; ``character`` is (signal, temperature)."""
    # Rows are the same for all methods and seeds of a task; only the model's errors differ.
    rows = np.random.default_rng([len(cell.task), plan.n_rows, plan.salt])
    model = np.random.default_rng([cell.seed, sum(map(ord, cell.method)), plan.salt])
    labels = rows.integers(0, plan.n_classes, plan.n_rows)
    hardness = rows.normal(size=plan.n_rows)
    signal = character[0] + 0.1 * model.normal()
    arrays: dict[str, np.ndarray] = {}
    for index, name in enumerate(("test", *(f"shift:{shift}" for shift in plan.shifts))):
        severity = 0 if name == "test" else int(name.rpartition("-")[2]) if name[-1].isdigit() else 1
        pull = np.maximum(signal - 0.45 * severity - 0.15 * index / 5, 0.2) - 0.9 * hardness
        logits = model.normal(size=(plan.n_rows, plan.n_classes))
        logits[np.arange(plan.n_rows), labels] += pull
        probs = _softmax(logits / character[1])
        arrays[f"{name}/labels"] = labels.astype(np.int32)
        arrays[f"{name}/probs"] = probs
        arrays[f"{name}/uncertainty"] = 1 - probs.max(axis=1)
        if name == "test":
            score = 1 - probs.max(axis=1)
            arrays["test/ood_score"] = np.exp(9 * score) if "mahalanobis" in cell.method else score
            if cell.method == "conformal":
                arrays["test/sets"] = probs > 0.1
    if plan.variants:
        arrays["val/probs"], arrays["val/labels"] = arrays["test/probs"][::2], arrays["test/labels"][::2]
    for index, name in enumerate(plan.ood):
        logits = model.normal(size=(plan.n_rows + 10 * index, plan.n_classes)) * (1.4 - 0.4 * index)
        score = 1 - _softmax(logits / character[1]).max(axis=1)
        arrays[f"ood:{name}/ood_score"] = np.exp(9 * score) if "mahalanobis" in cell.method else score
    return arrays


def _cell(plan: Plan, task: str, protocol: str, method: str, seed: int) -> Cell:
    return make_cell(
        task,
        protocol,
        method,
        seed,
        data_hash="d",
        parameters={},
        fingerprints=FINGERPRINTS,
        budget=plan.budget,
        threads=1,
        device="cpu",
    )


def _character(name: str) -> tuple[float, float]:
    if name == "volta":
        return 3.6, 0.75
    spread = np.random.default_rng(sum(map(ord, name)) * 7)
    return float(spread.uniform(3.0, 3.8)), float(spread.uniform(0.45, 1.1))


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _variants(
    plan: Plan, arrays: dict[str, np.ndarray], metrics: dict[str, dict[str, float]]
) -> dict[str, dict[str, float]]:
    probs, labels = arrays["test/probs"] ** 0.8, arrays["test/labels"].astype(np.int64)
    tempered = probs / probs.sum(axis=1, keepdims=True)
    by_msp = 1 - arrays["test/probs"].max(axis=1)
    found = {
        "test+T": report(tempered, labels, by_msp)["test"],
        "test+msp": report(arrays["test/probs"], labels, by_msp)["test"],
    }
    kept = {
        variant: {name: value for name, value in values.items() if variant in METRICS[name].variants}
        for variant, values in found.items()
    }
    outside = [metrics[f"ood:{name}"] for name in plan.ood]
    for kind, sets in (("near:", outside[:1]), ("far:", outside[1:])):
        if sets:
            kept[kind] = {metric: float(np.mean([values[metric] for values in sets])) for metric in sets[0]}
    return kept


def _record(plan: Plan, cell: Cell, title: str, origin: str, arrays: dict[str, np.ndarray]) -> CellRecord:
    metrics: dict[str, dict[str, float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in [key.removesuffix("/probs") for key in arrays if key.endswith("/probs") and key != "val/probs"]:
            own = {
                key.split("/")[0].removeprefix("ood:"): scores for key, scores in arrays.items() if key[:4] == "ood:"
            }
            values = report(
                arrays[f"{name}/probs"],
                arrays[f"{name}/labels"].astype(np.int64),
                arrays[f"{name}/uncertainty"],
                ood=own if name == "test" else {},
                id_ood_score=arrays.get(f"{name}/ood_score"),
                sets=arrays.get(f"{name}/sets"),
            )
            metrics[name] = values.pop("test")
            metrics |= values
    if plan.variants:
        metrics |= _variants(plan, arrays, metrics)
    cost = np.random.default_rng([sum(map(ord, cell.method)), cell.seed])
    slow = 10 if cell.method in ("mc_dropout", "swag", "ensemble") else 1
    metrics["test"] |= {
        "latency_ms": float(0.005 * slow * cost.uniform(0.8, 1.6)),
        "latency_p95_ms": float(0.01 * slow * cost.uniform(1, 2)),
        "size_mb": 0.27 * (5 if cell.method == "ensemble" else 1),
        "peak_mb": float(cost.uniform(0.1, 2)),
        "train_s": float(2 * slow * cost.uniform(0.8, 1.2)),
    }
    n_rows = {key.rpartition("/")[0]: len(value) for key, value in arrays.items()}
    return make_record(
        cell,
        metrics,
        title=title,
        origin=origin,
        budget=plan.budget,
        backbone=plan.backbone,
        rows={"train": 600, "val": 100, "cal": 100} | n_rows,
        near_ood=tuple(EvalSet(f"ood:{name}") for name in plan.ood[:1]),
        floored_rows={EvalSet(name): count for name, count in plan.floored.items()},
        notes=plan.notes,
    )
