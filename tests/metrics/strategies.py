"""Small random predictions with many ties, exact zeros and ones, and missing classes."""

import numpy as np
from hypothesis import strategies as st

MAX_ROWS = 24


@st.composite
def predictions(draw, max_rows=MAX_ROWS):
    """Draw (probs, labels): weights 0 … 4 normalised, so that rows repeat and p = 0, 1, 1/3, 1/5 occur."""
    n_samples = draw(st.integers(1, max_rows))
    n_classes = draw(st.integers(1, 4))
    weight = st.integers(0, 4)
    row = st.lists(weight, min_size=n_classes, max_size=n_classes).filter(any)
    counts = np.array(draw(st.lists(row, min_size=n_samples, max_size=n_samples)), dtype=float)
    labels = draw(st.lists(st.integers(0, n_classes - 1), min_size=n_samples, max_size=n_samples))
    return counts / counts.sum(axis=1, keepdims=True), np.array(labels)


def scores(max_size=MAX_ROWS):
    """Draw scores, tied often and infinite sometimes."""
    value = st.one_of(
        st.integers(-3, 3).map(float),
        st.floats(-1e6, 1e6, allow_subnormal=False),
        st.sampled_from([float("inf"), float("-inf")]),
    )
    return st.lists(value, min_size=1, max_size=max_size).map(np.array)


@st.composite
def selections(draw, max_rows=MAX_ROWS):
    """Draw (uncertainty, correct)."""
    uncertainty = draw(scores(max_rows))
    correct = draw(st.lists(st.booleans(), min_size=len(uncertainty), max_size=len(uncertainty)))
    return uncertainty, np.array(correct)
