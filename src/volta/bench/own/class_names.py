"""Labels that are the names of classes, as ``volta predict`` writes them, numbered in the order of the columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from volta.core.types import Array

NO_LABEL = -1
"""Stands for the label of a row that has none, as OOD rows do; an empty cell of a CSV reads the same."""

UNKNOWN = -2
_NUMERAL = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
_NONE = ("", "nan", str(NO_LABEL))


def numbered(labels: Array, names: Sequence[str]) -> NDArray[np.int64]:
    """Return each label's place among ``names``, ``NO_LABEL`` where it is none, ``UNKNOWN`` where it is another.

    Numbers are compared as numbers: a class 1 may be written 1.0.

    >>> numbered(np.array(["oak", "ash", "", "elm"]), ["ash", "oak"]).tolist()
    [1, 0, -1, -2]
    >>> numbered(np.array([4.0, 1.0]), ["1", "4"]).tolist()
    [1, 0]
    """
    places = {plain_class(name): place for place, name in enumerate(names)}
    distinct, inverse = np.unique(labels.astype(np.str_), return_inverse=True)
    plain = [plain_class(text) for text in distinct.tolist()]
    codes = [places.get(text, NO_LABEL if text in _NONE else UNKNOWN) for text in plain]
    return np.array(codes, dtype=np.int64)[inverse]


def plain_class(text: str) -> str:
    """Return the one way in which a class is written: 01, 1 and 1.0 are the same number, 1_0 and 1e3 are none.

    >>> plain_class("01"), plain_class("1.50"), plain_class("1_0"), plain_class(" oak ")
    ('1', '1.5', '1_0', 'oak')
    """
    text = text.strip()
    if not is_numeral(text):
        return text
    number = Decimal(text)
    return str(int(number)) if number == int(number) else str(number.normalize())


def is_numeral(text: str) -> bool:
    """Whether a class's name is a plain decimal number."""
    return _NUMERAL.fullmatch(text.strip()) is not None
