"""The two interfaces for arrays, metrics and classifier, given what they were not made for."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.harness import Category
from volta import VoltaClassifier, metrics
from volta.core.errors import InputError

_N = 12
_SOUND = b"sound"
_NAMES = sorted(name for name, metric in metrics.METRICS.items() if metric.function is not None)


def _value(rng: random.Random, need: str = "") -> Any:
    """Return an argument: what is needed, or something wrong in shape, type, range or kind."""
    random_state = np.random.default_rng(rng.randrange(1 << 30))
    probs = random_state.dirichlet(np.ones(3), _N)
    labels = random_state.integers(0, 3, _N)
    sound = (probs, labels, probs.max(axis=1), labels == 0, probs > 0.3, random_state.normal(size=(_N, 4)))
    if need in (names := ("probs", "labels", "uncertainty", "correct", "sets", "X")) and rng.random() < 0.6:
        return sound[names.index(need)]
    value: Any = rng.choice(sound)
    return rng.choice(
        (
            *(value, value, value, value, value.tolist(), value[:5], value[:0], value[None], value.astype(object)),
            *(
                value.astype(str),
                value.astype(complex),
                value * np.nan,
                value * 1e30,
                value * 1e308,
                value.astype(np.float16),
            ),
            *(np.ma.masked_array(value, mask=True), None, "text", 3, [], [[1, 2], [3]], {}, {1: 2}, b"x", object()),
            *(value.astype("M8[s]") if value.dtype.kind == "i" else value.T, value[..., ::-1], np.array(1.0)),
        )
    )


def _seeds() -> list[bytes]:
    return [_SOUND]


def _case(data: bytes, rng: random.Random) -> bytes:
    return str(rng.randrange(1 << 62)).encode()


def _finite(found: Any) -> str:
    values = np.asarray(found, dtype=np.float64)
    if not np.isfinite(values).all():
        raise RuntimeError("a value is not finite")
    return repr(values)


def _metrics(path: Path) -> str:
    if path.read_bytes() == _SOUND:
        return _finite(metrics.report([[0.9, 0.1], [0.4, 0.6]], [0, 0], [0.1, 0.4])["test"]["accuracy"])
    rng = random.Random(path.read_bytes())
    if rng.random() < 0.4:
        keywords = {"id_ood_score": _value(rng)} if rng.random() < 0.3 else {}
        found = metrics.report(*(_value(rng, need) for need in ("probs", "labels", "uncertainty")), **keywords)
        return _finite([value for values in found.values() for value in values.values()])
    metric = metrics.METRICS[rng.choice(_NAMES)]
    return _finite(metric.function(*(_value(rng, need) for need in metric.needs)))  # type: ignore[misc]


@cache
def _classifier() -> VoltaClassifier:
    random_state = np.random.default_rng(0)
    labels = np.arange(90) % 3
    return VoltaClassifier(max_epochs=1).fit(random_state.normal(size=(90, 4)) + 3 * np.eye(4)[labels], labels)


def _predict(path: Path) -> str:
    if path.read_bytes() == _SOUND:
        return _finite(_classifier().predict_proba(np.zeros((1, 4))))
    rng = random.Random(path.read_bytes())
    call: Callable[[Any], Any] = rng.choice(
        (_classifier().predict_proba, _classifier().predict, _classifier().is_ood, _classifier().uncertainty)
    )
    try:
        return _finite(call(_value(rng, "X")))
    except (ValueError, TypeError) as error:
        # scikit-learn's own checks answer wrong shapes and types with these two, by its rules for estimators.
        raise InputError(str(error)) from error


INTERFACES: dict[str, Category] = {
    "metrics-api": Category("x", _seeds, _metrics, mutate=_case),
    "classifier-api": Category("x", _seeds, _predict, mutate=_case),
}
"""Calls instead of files: the file's bytes are the seed of the arguments."""
