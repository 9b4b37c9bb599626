"""Which code decided a result: a hash over a source file and every module of the package that it uses.

Modules are found by reading the imports, also those inside functions, so that no list has to be kept by hand. A name
imported from a package is followed to the module that defines it, and a package's ``__init__`` counts only where it
defines the name itself: using one method does not mean using all that its package re-exports. Imports under ``if
TYPE_CHECKING`` run nothing and do not count. Every byte of a source counts, its comments too.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from volta.core.errors import InputError
from volta.core.files import hash_file, hash_text

PACKAGE = Path(__file__).resolve().parents[1]
_INIT = "__init__.py"


def fingerprint(roots: Iterable[Path]) -> str:
    """Return a hash over ``roots`` and all modules they use; worked out once a process.

    Modules of volta are followed and, for a file that lies in another package, modules of that package; for a file
    that lies in none, the modules beside it.
    """
    return _fingerprint(tuple(sorted(set(roots))))


def file_of(thing: type[Any] | Callable[..., Any]) -> Path:
    """Return the source file that a class or function is defined in."""
    try:
        return Path(inspect.getfile(thing)).resolve()
    except (TypeError, OSError) as error:
        raise InputError(
            f"{thing.__qualname__} is not defined in a file, so what it does cannot be part of a result's key; "
            "move it to a .py file and import it"
        ) from error


@cache
def _fingerprint(roots: tuple[Path, ...]) -> str:
    return hash_text("\n".join(f"{_label(path)} {hash_file(path)}" for path in sorted(used_files(roots), key=_label)))


def used_files(roots: Iterable[Path]) -> set[Path]:
    """Return ``roots`` and the files of all modules they use, directly or through others."""
    found: set[Path] = set()
    waiting = list(roots)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _used_by(path)
    return found


def _label(path: Path) -> str:
    """Return a file's place within its package: the same wherever the package is installed."""
    if path.is_relative_to(PACKAGE):
        return path.relative_to(PACKAGE).as_posix()
    package = _top_package(path)
    return path.name if package is None else path.relative_to(package.parent).as_posix()


@cache
def _used_by(path: Path) -> frozenset[Path]:
    used: set[Path] = set()
    for node in _imports(_parsed(path)):
        if isinstance(node, ast.Import):
            found = (_absolute(alias.name, path) for alias in node.names)
            used |= {module for module in found if module is not None}
        elif (module := _imported_from(node, path)) is not None:
            for alias in node.names:
                used |= _definition(module, alias.name)
    return frozenset(used)


def _definition(module: Path, name: str) -> set[Path]:
    """Return the files in which a name that is imported from ``module`` is defined."""
    if module.name != _INIT:
        return {module}
    for node in _re_exports(_parsed(module)):
        source = _imported_from(node, module)
        for alias in node.names:
            # A package that imports from itself names a module of its own, which is found below.
            if source not in (None, module) and name == (alias.asname or alias.name):
                return _definition(source, alias.name)
    submodule = _member(module.parent, name)
    return {module} if submodule is None or name in _defined(module) else {submodule}


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), str(path))


def _imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Walk the imports below a node that can run: those that only type checkers see are left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and _is_type_checking(child.test):
            yield from _imports(ast.Module(child.orelse, []))
        else:
            yield from _imports(child)


def _re_exports(node: ast.AST) -> Iterator[ast.ImportFrom]:
    """Walk the imports by which a package passes names on: at its top level, for type checkers where it loads late."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            yield child
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _re_exports(child)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"


def _defined(module: Path) -> set[str]:
    """Return the names that a module gives a value itself, at its top level."""
    names: set[str] = set()
    for node in _parsed(module).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def _imported_from(node: ast.ImportFrom, path: Path) -> Path | None:
    """Return the file of the module that a ``from`` import names, if it is one to follow."""
    if node.level == 0:
        return _absolute(node.module or "", path)
    folder = path.parents[node.level - 1]
    return _inside(folder, (node.module or "").split(".")) if node.module else _existing(folder / _INIT)


def _absolute(name: str, path: Path) -> Path | None:
    top, *rest = name.split(".")
    for package in (PACKAGE, _top_package(path)):
        if package is not None and package.name == top:
            return _inside(package, rest) if rest else _existing(package / _INIT)
    if _top_package(path) is None and not path.is_relative_to(PACKAGE):
        return _inside(path.parent, [top, *rest])
    return None


def _top_package(path: Path) -> Path | None:
    folders = [folder for folder in path.parents if (folder / _INIT).is_file()]
    return folders[-1] if folders and folders[0] == path.parent else None


def _inside(folder: Path, names: list[str]) -> Path | None:
    return _member(folder.joinpath(*names[:-1]), names[-1])


def _member(folder: Path, name: str) -> Path | None:
    return _existing(folder / f"{name}.py") or _existing(folder / name / _INIT)


def _existing(path: Path) -> Path | None:
    return path if path.is_file() else None
