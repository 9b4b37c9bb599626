"""What the report says of each method: its formula, its reference, and how to use it, from the methods' docstrings.

The sources are parsed and not imported: a report needs no torch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from inspect import cleandoc

USE = """from volta import VoltaClassifier
model = VoltaClassifier(method="{name}").fit(X_train, y_train)
probs = model.predict_proba(X_test)
flags = model.is_ood(X_test)
decisions = model.decide(X_test)"""


@cache
def method_notes() -> Mapping[str, Mapping[str, str]]:
    """Return title → ``formula``, ``reference`` and ``code`` of every method of the package.

    >>> method_notes()["Energy"]["formula"]
    'p = softmax(l); u = −log Σ_k exp(l_k), higher where more OOD.'
    """
    found = {}
    for source in sorted(files("volta.methods").iterdir(), key=lambda file: file.name):
        if not source.name.endswith(".py"):
            continue
        for node in ast.parse(source.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and (title := _title(node)):
                about, _, reference = cleandoc(ast.get_docstring(node) or "").partition("Reference")
                name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.name).lower()
                found[title] = {
                    "formula": about.strip(),
                    "reference": reference.removeprefix("s").removeprefix(":").strip(),
                    "code": USE.format(name=name),
                }
    return found


def _title(node: ast.ClassDef) -> str:
    """Return the value of the class's ``title``; empty where it has none."""
    for line in node.body:
        if isinstance(line, ast.Assign) and [ast.unparse(target) for target in line.targets] == ["title"]:
            return str(ast.literal_eval(line.value))
    return ""
