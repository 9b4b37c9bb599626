"""What is said of a name that is not there: the nearest names that are, and all of them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from volta.core.errors import InputError


def unknown_name(kind: str, name: str, known: Iterable[str], see: str = "") -> InputError:
    """Return the error for a ``kind`` of thing with no such name, with the near misses among ``known``.

    >>> print(unknown_name("method", "temprature", ["volta", "temperature"]))
    there is no method 'temprature'; did you mean temperature? The methods are: volta, temperature
    """
    names = list(known)
    near = get_close_matches(name.lower(), names, n=3)
    listed = f"the {kind}s are: {', '.join(names)}" + (f" ({see})" if see else "")
    if near:
        return InputError(f"there is no {kind} {name!r}; did you mean {' or '.join(near)}? T{listed[1:]}")
    return InputError(f"there is no {kind} {name!r}; {listed}")
