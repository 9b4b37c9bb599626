"""Names of methods with parameters: ``knn(k=10)``, ``package.module:Class(k=10)``; one text for one method.

A name is all that processes and machines pass on: each makes the method from it. Parameters that have their default are
left out and the others stand in the order of the fields, so that equal methods have equal names.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from volta.core.errors import InputError
from volta.core.suggest import unknown_name
from volta.methods.base import Method

_LONGEST = 1000
_FORM = re.compile(r"\s*([\w.:-]+)\s*(?:\((.*)\))?\s*", flags=re.DOTALL)


def split_names(text: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list; commas within parentheses and quotes belong to a name.

    >>> split_names("knn(k=10), volta(encoder='deep', margin=0.1),energy")
    ('knn(k=10)', "volta(encoder='deep', margin=0.1)", 'energy')
    """
    names, depth, quote, begun = [], 0, "", 0
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "()[]":
            depth += 1 if letter in "([" else -1
        elif letter == "," and depth == 0:
            names.append(text[begun:place])
            begun = place + 1
    return tuple(part.strip() for part in (*names, text[begun:]) if part.strip())


def parse_name(text: str) -> tuple[str, dict[str, Any]]:
    """Return what stands before the parentheses and the parameters within; a bare word is text.

    >>> parse_name("volta(encoder=deep, margin=0.1)")
    ('volta', {'encoder': 'deep', 'margin': 0.1})
    """
    # Names come out of files too; Python's parser has no limit of its own that ends in an error of one kind.
    if len(text) > _LONGEST:
        raise InputError(f"method {text[:40]!r}… has {len(text):,} letters; a name has {_LONGEST:,} at most")
    form = _FORM.fullmatch(text)
    if form is None:
        raise InputError(f"method {text!r} cannot be read; write a name, or name(parameter=value, ...)")
    base, inside = form.group(1), form.group(2)
    if not inside or not inside.strip():
        return base, {}
    try:
        call = ast.parse(f"_({inside})", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError
        if call.args or any(word.arg is None for word in call.keywords):
            raise ValueError
        return base, {str(word.arg): _value(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(
            f"method {text!r} has parameters that cannot be read; write name=value with commas between, as in knn(k=10)"
        ) from None


def make_method(kind: type[Method], parameters: Mapping[str, Any], name: str) -> Method:
    """Return ``kind`` with ``parameters``, or say which of them it does not take."""
    known = {field.name: field for field in fields(kind) if field.init}  # type: ignore[arg-type]
    checked = {}
    for key, value in parameters.items():
        if key not in known:
            raise InputError(f"{name}: {unknown_name('parameter', key, known)}")
        checked[key] = _checked(value, known[key].default, f"{name}: {key}")
    try:
        method = kind(**checked)
    except TypeError as error:
        raise InputError(f"{name} cannot be made ({error}); it takes: {', '.join(known) or 'none'}") from error
    for key in known:
        if isinstance(value := getattr(method, key), float) and not math.isfinite(value):
            raise InputError(f"{name}: {key} is {value}, which no record can hold; pass a finite number, or None")
    try:
        method.check_parameters()
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    return method


def written_parameters(method: Method) -> dict[str, Any]:
    """Return the parameters that differ from their defaults, in the order of the fields."""
    return {
        field.name: value
        for field in fields(method)  # type: ignore[arg-type]
        if field.init and ((value := getattr(method, field.name)) != field.default or field.default is MISSING)
    }


def write_name(base: str, method: Method) -> str:
    """Return the one name of a method that goes by ``base``."""
    written = written_parameters(method)
    for key, value in written.items():
        try:
            same = ast.literal_eval(repr(value)) == value
        except (ValueError, SyntaxError):
            same = False
        if not same:
            raise InputError(
                f"{base}: {key} is a {type(value).__name__}, which cannot be part of a name; a benchmark's methods "
                "have parameters that are numbers, text, None or tuples of those"
            )
    inside = ", ".join(f"{key}={value!r}" for key, value in written.items())
    return f"{base}({inside})" if inside else base


def title_of(method: Method) -> str:
    """Return a method's title for readers, with the parameters that differ from their defaults."""
    written = ", ".join(f"{key} = {value}" for key, value in written_parameters(method).items())
    return f"{method.title} ({written})" if written else method.title


def _value(node: ast.expr) -> Any:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def _checked(value: Any, default: Any, where: str) -> Any:
    """Return the value as its default's kind: a whole number for a float is one, a list for a tuple too."""
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    plain = (bool, int, float, str, tuple)
    if isinstance(default, plain) and value is not None and type(value) is not type(default):
        raise InputError(f"{where} is {value!r}; pass a {type(default).__name__}, as its default {default!r} is")
    return value
