"""Where shifted test sets come from, as the command line says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from volta.core.errors import InputError

if TYPE_CHECKING:
    from volta.data.options import ShiftOrigin


def shift_origin(shifts: str, corruptions: bool) -> ShiftOrigin:
    """Return ``--shifts``, or ``generated`` where ``--corruptions`` asks for it."""
    if corruptions and shifts not in ("auto", "generated"):
        raise InputError(f"--corruptions generates shifts but --shifts is {shifts!r}; pass one of the two")
    return "generated" if corruptions else cast("ShiftOrigin", shifts)
