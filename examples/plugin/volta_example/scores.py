"""The gap between the two most probable classes."""

from __future__ import annotations

import numpy as np


def top_two_gap(probs: np.ndarray) -> np.ndarray:
    """Return p₁ − p₂ of each row, the largest and the second largest probability."""
    top = np.sort(probs, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]
