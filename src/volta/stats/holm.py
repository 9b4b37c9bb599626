"""Holm's step-down correction for many tests."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from volta.core.errors import InputError


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return adjusted p-values that control the chance of one false finding in the family.

    With p₍₁₎ ≤ … ≤ p₍ₘ₎: p̃₍ᵢ₎ = max_{j ≤ i} min(1, (m − j + 1) p₍ⱼ₎). Tests that could not be made (None) stay None
    and do not count in m. Reference: Holm, Scandinavian Journal of Statistics 6 (1979).
    """
    made = [(index, p) for index, p in enumerate(p_values) if p is not None]
    for index, p in made:
        if not 0 <= p <= 1:
            raise InputError(f"p_values[{index}] is {p}; pass probabilities, or None for a test that was not made")
    adjusted: list[float | None] = [None] * len(p_values)
    if not made:
        return adjusted
    values = np.array([p for _, p in made])
    order = np.argsort(values, kind="stable")
    stepped = np.minimum(1.0, np.maximum.accumulate(values[order] * np.arange(len(made), 0, -1)))
    for position, value in zip(order, stepped, strict=True):
        adjusted[made[position][0]] = float(value)
    return adjusted


def holm_distinct(p_values: Sequence[float | None], keys: Sequence[Hashable]) -> list[float | None]:
    """Return Holm's adjusted p-values with tests of one key counted once: they are one test under several names."""
    first: dict[Hashable, float | None] = {}
    for key, p in zip(keys, p_values, strict=True):
        first.setdefault(key, p)
    adjusted = dict(zip(first, holm(list(first.values())), strict=True))
    return [adjusted[key] for key in keys]
