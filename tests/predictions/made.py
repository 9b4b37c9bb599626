"""Predictions made up for tests: models of a given skill on the same rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def labels_of(n: int = 60, n_classes: int = 3) -> np.ndarray:
    return np.random.default_rng(7).integers(0, n_classes, n)


def probs_of(labels: np.ndarray, skill: float, seed: int = 0, n_classes: int = 3) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(size=(len(labels), n_classes)) + skill * np.eye(n_classes)[labels]
    powers = np.exp(logits)
    return powers / powers.sum(axis=1, keepdims=True)


def write_csv(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def cells(values: np.ndarray) -> str:
    return ",".join(repr(float(value)) for value in values)
