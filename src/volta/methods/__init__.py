"""One file per method, one table."""

from __future__ import annotations

from volta.core.errors import InputError
from volta.methods.base import Method
from volta.methods.softmax import Softmax
from volta.methods.temperature import Temperature
from volta.methods.volta import Volta

__all__ = ["METHODS", "Method", "make_method"]

METHODS: dict[str, type[Method]] = {
    "volta": Volta,
    "softmax": Softmax,
    "temperature": Temperature,
}


def make_method(name: str) -> Method:
    """Return a new, unfitted method by name, or say which names there are."""
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}; the methods are: {', '.join(METHODS)} (see: volta methods)")
    return METHODS[name]()
