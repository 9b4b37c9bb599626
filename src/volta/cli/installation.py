"""Which packages the distribution asks for, which of them are installed, and how to get the others."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

DISTRIBUTION = "volta-uq"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[^\]]*\])?\s*(>=\s*(?P<least>[\d.]+))?[^;]*(;(?P<condition>.*))?")
_EXTRA = re.compile(r"extra == ['\"](\w+)")
_PYTHON = re.compile(r"python_version (<|>=) ['\"]([\d.]+)")
_FOR_DEVELOPERS = ("dev", "docs")


@dataclass(frozen=True)
class Need:
    """A package that the distribution, or its ``extra``, needs in version ``least`` or newer."""

    name: str
    extra: str | None
    least: str | None
    installed: str | None

    @property
    def state(self) -> str:
        """``ok``, ``missing``, or ``older than`` what is needed."""
        if self.installed is None:
            return "missing"
        if self.least is not None and _numbers(self.installed) < _numbers(self.least):
            return f"older than {self.least}"
        return "ok"

    @property
    def remedy(self) -> str:
        """The command that brings the package."""
        return f"pip install --upgrade '{DISTRIBUTION}{f'[{self.extra}]' if self.extra else ''}'"


def needs() -> list[Need]:
    """Return what the installed distribution asks for, the core first, development aside; nothing if not installed."""
    try:
        asked = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return []
    return [need for need in map(_need, asked) if need is not None and need.extra not in _FOR_DEVELOPERS]


def _need(requirement: str) -> Need | None:
    """Return what a requirement asks for; None where it is about another Python."""
    found = _REQUIREMENT.match(requirement)
    if found is None:
        raise ValueError(f"{DISTRIBUTION} asks for {requirement!r}, which is not understood")
    condition = found["condition"] or ""
    for relation, bound in _PYTHON.findall(condition):
        if (sys.version_info[:2] < _numbers(bound)) != (relation == "<"):
            return None
    extra = _EXTRA.search(condition)
    name = found["name"]
    try:
        installed: str | None = version(name)
    except PackageNotFoundError:
        installed = None
    return Need(name, extra[1] if extra else None, found["least"], installed)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])
