"""``--reference``: refused before anything is computed where it is none."""

from __future__ import annotations

from collections.abc import Iterable

from volta.core.errors import InputError


def check_reference(reference: str | None, methods: Iterable[str]) -> None:
    """Refuse what is neither best, nor all, nor one of the methods."""
    known = dict.fromkeys(methods)
    if reference is not None and reference not in ("best", "all", *known):
        raise InputError(f"--reference is {reference!r}; pass best, all, or a method of this run: {', '.join(known)}")
