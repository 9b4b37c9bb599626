"""``--reference``: refused before anything is computed where it is none."""

from __future__ import annotations

from collections.abc import Iterable

from volta.core.errors import InputError


def check_reference(reference: str | None, methods: Iterable[str]) -> None:
    """Refuse what is neither best, nor all, nor one of the methods."""
    if reference is None:
        return
    known = dict.fromkeys(methods)
    if reference not in ("best", "all", *known):
        raise InputError(f"--reference is {reference!r}; pass best, all, or a method of this run: {', '.join(known)}")
