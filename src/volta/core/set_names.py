"""What tasks and their sets may be called: names that are file names everywhere and stay apart in a cell's name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from volta.core.errors import InputError

Source = TypeVar("Source")

_TASK_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_.]|-(?!-)){0,62}")
_LONGEST = 200
_OOD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*")
_SHIFT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*-\d+")


def check_task_name(name: str) -> None:
    """Refuse a task name that is no plain file name."""
    if not _TASK_NAME.fullmatch(name) or name.endswith((".", "-")):
        raise InputError(
            f"name is {name!r}; pass up to 63 lower-case letters and digits, with single - _ . between them"
        )


def check_plain_name(name: str, what: str) -> None:
    """Refuse a name that cannot be part of a file's name: a task's or protocol's in a run, from a user or from a file.

    Runs of own predictions have names of letters of any script; a name never leads out of a folder.
    """
    if not 0 < len(name) <= _LONGEST or name.strip(".") == "" or any(not _is_plain(letter) for letter in name):
        shown = name if len(name) <= _LONGEST else f"{name[:20]}…"
        raise InputError(f"{what} is {shown!r}; use up to {_LONGEST} letters, digits and - _ .")


def _is_plain(letter: str) -> bool:
    return letter.isalnum() or letter in "-_."


def plain_name(name: str) -> str:
    """Return ``name`` with _ in place of every letter that a plain name cannot have."""
    return "".join(letter if _is_plain(letter) else "_" for letter in name)[:_LONGEST]


def check_ood_names(names: Iterable[str], near: Collection[str]) -> None:
    """Refuse OOD sets with a name that is none, and near ones that are not among them."""
    names = list(names)
    for name in names:
        if not _OOD_NAME.fullmatch(name):
            raise InputError(f"ood names a set {name!r}; use letters, digits, _ and .")
    check_near(names, near)


def check_near(names: Iterable[str], near: Collection[str]) -> None:
    """Refuse near OOD sets that are not among the OOD sets."""
    names = list(names)
    if isinstance(near, str):
        raise InputError(f"near is the text {near!r}; pass a list of names, as in [{near!r}]")
    if unknown := sorted(set(near) - set(names)):
        raise InputError(f"near names {unknown[0]!r}, which is not among the ood sets: {', '.join(names) or 'none'}")


def with_severities(shifts: Mapping[str, Source]) -> dict[str, Source]:
    """Return shifted sets under NAME-SEVERITY; a name without a severity has 1."""
    severe = {name if re.search(r"-\d+$", name) else f"{name}-1": source for name, source in shifts.items()}
    for name in severe:
        if not _SHIFT_NAME.fullmatch(name):
            raise InputError(
                f"shifts names a set {name!r}; use NAME-SEVERITY, such as fog-3, of letters, digits, _ and ."
            )
    return severe
