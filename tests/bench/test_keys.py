"""The three fingerprints follow the code that decides weights, predictions and metrics, and no other.

Each edit is one reading of all code that five methods use, half a second; it is the only proof that a key covers it.
"""

from __future__ import annotations

import ast
import functools
import shutil
from pathlib import Path

import numpy as np
import pytest

import volta
from volta.bench.records import fingerprints_of
from volta.core import fingerprints
from volta.core.types import FitData, Split
from volta.methods import METHODS
from volta.networks.trainer import Trainer

NAMES = ("energy", "knn", "conformal", "volta", "volta_plus")
METHOD = {*NAMES}
CACHES = ("hash_definitions", "_entry", "_code", "_names", "_statements", "_lookup", "_top_package")


class NetworkKeys:
    """A network store that notes the key it is asked for."""

    def claim(self, key, device):
        self.key = key
        raise LookupError


def network_key():
    rows = Split(np.zeros((4, 2), dtype=np.float32), np.zeros(4, dtype=np.int64))
    store = NetworkKeys()
    with pytest.raises(LookupError):
        Trainer(seed=0, store=store).network(FitData(rows, rows, rows, n_classes=1))
    return store.key


class Copy:
    """A copy of the package that can be edited, and the keys that its code would have."""

    def __init__(self, root):
        self.root = root
        self.original = self.keys()

    def keys(self):
        for name in CACHES:
            getattr(fingerprints, name).cache_clear()
        found = {name: fingerprints_of(METHODS[name]()) for name in NAMES}
        energy = found["energy"]
        keys = {"training": energy.training, "scoring": energy.scoring, "network": network_key()}
        return keys | {name: one.method for name, one in found.items()}

    def changed(self, texts):
        """Return which keys change while files have other texts; None removes a file."""
        before = {
            name: (self.root / name).read_text("utf-8") if (self.root / name).exists() else None for name in texts
        }
        self.write(texts)
        try:
            after = self.keys()
        finally:
            self.write(before)
        return {name for name in after if after[name] != self.original[name]}

    def write(self, texts):
        for name, text in texts.items():
            (self.root / name).unlink(missing_ok=True)
            if text is not None:
                (self.root / name).write_text(text, encoding="utf-8")

    def with_statement(self, module, name):
        """Return a module's text with a statement more in the definition ``name``."""
        text = (self.root / module).read_text(encoding="utf-8")
        (found,) = (node for node in ast.parse(text).body if getattr(node, "name", None) == name)
        first = found.body[0]
        lines = text.splitlines(keepends=True)
        lines.insert(first.end_lineno, " " * first.col_offset + "edited = True\n")
        return "".join(lines)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    root = tmp_path_factory.mktemp("source") / "volta"
    shutil.copytree(Path(volta.__file__).parent, root, ignore=shutil.ignore_patterns("__pycache__"))
    parse = functools.cache(lambda text: ast.parse(text).body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprints, "PACKAGE", root)
        patch.setattr(fingerprints, "_parsed", lambda path: parse(path.read_bytes()))
        yield Copy(root)
    for name in CACHES:
        getattr(fingerprints, name).cache_clear()


def test_the_copy_has_the_keys_of_the_package(copy):
    installed = Path(volta.__file__).resolve().parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprints, "PACKAGE", installed)
        assert copy.keys() == copy.original


@pytest.mark.parametrize(
    ("edit", "keys"),
    {
        "networks/training.py:make_optimiser": {"training", "network"} | METHOD,
        "networks/modules.py:Cnn": {"training"} | METHOD,
        "networks/modules.py:Wide": {"volta_plus"},
        "methods/scores.py:softmax_and_energy": {"energy"},
        "methods/temperature.py:fit_temperature": {"volta", "volta_plus", "scoring"},
        "metrics/calibration.py:ece": {"scoring"},
        "bench/cell.py:predict_sets": METHOD,
    }.items(),
)
def test_an_edit_changes_the_keys_of_what_uses_it(copy, edit, keys):
    module, _, name = edit.partition(":")
    assert copy.changed({module: copy.with_statement(module, name)}) == keys


def test_code_that_decides_no_result_changes_no_key(copy):
    """Temporary files, stores, costs, tables of methods, commands, reports; how the keys themselves are found."""
    edits = (
        "core/files.py:temp_folder",
        "core/fingerprints.py:fingerprint",
        "bench/store.py:RunStore",
        "bench/cell.py:measure_efficiency",
        "methods/registry.py:find_method",
        "methods/saving.py:save_methods",
        "networks/spec.py:spec_from_json",
        "cli/bench.py:bench",
        "report/build.py:build_report",
    )
    texts = {}
    for edit in edits:
        module, _, name = edit.partition(":")
        texts[module] = copy.with_statement(module, name)
    assert copy.changed(texts) == set()


def test_comments_docstrings_and_layout_change_no_key(copy):
    """Every file that decides a result is printed anew from its syntax tree, with other docstrings."""
    roots = [fingerprints.definition_of(METHODS[name]) for name in NAMES]
    files = {definition.path for definition in fingerprints.used_definitions(roots)}
    texts = {}
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
                node.body[0] = ast.Expr(ast.Constant("In short."))
        texts[str(path.relative_to(copy.root))] = f"# Printed.\n{ast.unparse(ast.fix_missing_locations(tree))}\n"
    assert len(texts) > 20
    assert copy.changed(texts) == set()


def test_another_module_changes_no_key(copy):
    """A formula moves to a module of its own; a module gets another name."""
    module, name = "methods/scores.py", "softmax_and_energy"
    text = (copy.root / module).read_text(encoding="utf-8")
    tree = ast.parse(text)
    (moved,) = (node for node in tree.body if getattr(node, "name", None) == name)
    formula = ast.get_source_segment(text, moved)
    imports = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    helpers = sorted(fingerprints._statements(copy.root / module).keys() - {name})
    imports.append(f"from volta.methods.scores import {', '.join(helpers)}")
    texts = {
        module: text.replace(formula, "from volta.methods.moved import softmax_and_energy"),
        "methods/moved.py": "\n".join([*imports, formula]),
    }
    assert copy.changed(texts) == set()
    renamed = {"methods/scores.py": None, "methods/formulas.py": text}
    for path in copy.root.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if "volta.methods.scores" in source:
            renamed[str(path.relative_to(copy.root))] = source.replace("volta.methods.scores", "volta.methods.formulas")
    assert len(renamed) > 10
    assert copy.changed(renamed) == set()
