"""Which code decides a result: a hash over the definitions that a function or class uses.

A definition is a function, a class or a constant at the top of a module; a class counts whole. From each definition,
every name that it uses is followed to the definition that the name stands for: through imports, also those inside
functions, through names that an ``__init__`` passes on, and through attributes of modules (``graphs.entropy``). Code of
volta is followed and, for a file in another package, code of that package; for a file in none, the modules next to it.
All other names are external: their full names count, the code behind them does not.

Comments, docstrings, layout, import statements and the module that a definition is in do not count. Annotations of
arguments, results and variables do not either, but the classes that they name are followed: through them a function
reaches the methods of an object that it did not make. Fields of a class keep their annotations.

A statement at the top of a module that binds no name, such as ``TABLE["name"] = function``, counts with the names that
it mentions, or with all where it mentions none. What is found by text at run time, as by ``import_module("...")``, is
not followed, nor is this module: it decides keys, not values.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from volta.core.errors import InputError
from volta.core.files import hash_text

PACKAGE = Path(__file__).resolve().parents[1]
_INIT = "__init__.py"
_THIS = Path(__file__).parts[-3:]


class Definition(NamedTuple):
    """A function, class or constant at the top of the module in the file ``path``."""

    path: Path
    name: str


class _Module(NamedTuple):
    """A module that a name stands for."""

    path: Path


class _Import(NamedTuple):
    """``from module import name``, with ``level`` leading dots; ``name`` is empty for ``import module``."""

    module: str
    name: str = ""
    level: int = 0


_Target: TypeAlias = Definition | _Module | str
"""What a name stands for; text is the full name of something external."""
_Bindings: TypeAlias = dict[str, list[_Import | None]]
"""The names that statements bind: by which imports, None where otherwise."""


class _Code(NamedTuple):
    """A definition in normal form, the definitions it uses by their names in it, the classes its annotations name."""

    text: str
    uses: dict[str, Definition]
    annotated: set[Definition]


def fingerprint(things: Iterable[type[Any] | Callable[..., Any]]) -> str:
    """Return a hash over functions and classes, and over all definitions that they use."""
    return hash_definitions(frozenset(map(definition_of, things)))


def definition_of(thing: type[Any] | Callable[..., Any]) -> Definition:
    """Return where a function or class is defined; what is defined inside a definition counts as that one."""
    title = getattr(thing, "__qualname__", repr(thing))
    module, name = thing.__module__, title.partition(".")[0]
    if module.partition(".")[0] == PACKAGE.name:
        path = _inside(PACKAGE.parent, module.split("."))
    else:
        file = getattr(sys.modules.get(module), "__file__", None)
        path = None if file is None else Path(file).resolve()
    if path is None or path.suffix != ".py" or not path.is_file() or name not in _statements(path):
        raise InputError(
            f"{title} is not defined in a file, so what it does cannot be part of a result's key; "
            "move it to the top of a .py file and import it"
        )
    return Definition(path, name)


def used_definitions(roots: Iterable[Definition]) -> set[Definition]:
    """Return ``roots`` and all definitions that they use, directly or through others."""
    reached: set[Definition] = set()
    waiting = list(roots)
    while waiting:
        definition = waiting.pop()
        if definition not in reached:
            reached.add(definition)
            waiting += [*_code(definition).uses.values(), *_code(definition).annotated]
    return reached


@cache
def hash_definitions(roots: frozenset[Definition]) -> str:
    """Return the hash over ``roots`` and all definitions that they use."""
    return hash_text("\n".join(sorted({_entry(definition) for definition in used_definitions(roots)})))


@cache
def _entry(definition: Definition) -> str:
    """Return a hash of a definition and of those that its names stand for: two of one name are told apart."""
    text, uses, _ = _code(definition)
    return hash_text("\n".join([text, *(f"{name} {hash_text(_code(uses[name]).text)}" for name in sorted(uses))]))


@cache
def _code(definition: Definition) -> _Code:
    writer = _Writer(definition.path)
    texts = [writer.text(statement) for statement in _statements(definition.path)[definition.name]]
    return _Code("\n".join([definition.name, *texts]), writer.uses, writer.annotated)


@cache
def _parsed(path: Path) -> list[ast.stmt]:
    return ast.parse(path.read_bytes(), str(path)).body


@cache
def _names(path: Path) -> _Bindings:
    """Return the names at the top of a module."""
    return _bound(_parsed(path))


@cache
def _statements(path: Path) -> dict[str, list[ast.stmt]]:
    """Return the statements that decide each name of a module, other than imports."""
    found: dict[str, list[ast.stmt]] = {name: [] for name, ways in _names(path).items() if None in ways}
    for statement in _parsed(path):
        bound = _bound([statement])
        names = {name for name, ways in bound.items() if None in ways}
        if not bound and not _is_idle(statement):
            names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} & found.keys() or set(found)
        for name in names:
            found[name].append(statement)
    return found


def _is_idle(node: ast.AST) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _is_class(definition: Definition) -> bool:
    return any(isinstance(one, ast.ClassDef) for one in _statements(definition.path)[definition.name])


def _bound(nodes: Iterable[ast.AST]) -> _Bindings:
    """Return the names that statements bind in the scope they stand in."""
    bound: _Bindings = {}
    outer: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Import(aliases):
                for alias in aliases:
                    module = alias.name if alias.asname else alias.name.partition(".")[0]
                    bound.setdefault(alias.asname or module, []).append(_Import(module))
            case ast.ImportFrom(module, aliases, level):
                for alias in aliases:
                    bound.setdefault(alias.asname or alias.name, []).append(_Import(module or "", alias.name, level))
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                bound.setdefault(name, []).append(None)
            case ast.Lambda():
                pass
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                waiting += [one.target for one in ast.walk(node) if isinstance(one, ast.NamedExpr)]
            case ast.Global(names) | ast.Nonlocal(names):
                outer |= set(names)
            case ast.Name(name, ast.Store() | ast.Del()) | ast.arg(name):
                bound.setdefault(name, []).append(None)
            case _:
                matched = getattr(node, "name", None) or getattr(node, "rest", None)
                if isinstance(matched, str):  # an exception, or what a pattern matches
                    bound.setdefault(matched, []).append(None)
                waiting += ast.iter_child_nodes(node)
    return {name: ways for name, ways in bound.items() if name not in outer}


@cache
def _lookup(path: Path, name: str) -> frozenset[_Target]:
    """Return what a name of a module stands for; nothing where it is a builtin or not there."""
    found: set[_Target] = {Definition(path, name)} if name in _statements(path) else set()
    found |= _imported(_names(path).get(name, []), path)
    if not found and path.name == _INIT and (submodule := _member(path.parent, name)) is not None:
        found.add(_Module(submodule))
    if not found and "*" in _names(path):
        stars = [star._replace(name=name) for star in _names(path)["*"] if star is not None]
        found = {target for target in _imported(stars, path) if not isinstance(target, str)}
    return frozenset(found)


def _imported(imports: Iterable[_Import | None], path: Path) -> set[_Target]:
    """Return what names stand for that the module ``path`` imports."""
    found: set[_Target] = set()
    for one in filter(None, imports):
        module = _module(one, path)
        if module is None or module.parts[-3:] == _THIS:
            found.add("." * one.level + ".".join(filter(None, (one.module, one.name))))
        elif not one.name:
            found.add(_Module(module))
        elif module != path:
            found |= _lookup(module, one.name)
        elif (submodule := _member(path.parent, one.name)) is not None:
            found.add(_Module(submodule))  # A package that imports from itself names one of its own modules.
    return found


def _module(one: _Import, path: Path) -> Path | None:
    """Return the file of the module that is imported from, None where it is not followed."""
    if one.level:
        folder = path.parents[one.level - 1]
        return _inside(folder, one.module.split(".")) if one.module else _existing(folder / _INIT)
    top, *rest = one.module.split(".")
    for package in (_top_package(path), PACKAGE):
        if package is not None and package.name == top:
            return _inside(package, rest) if rest else _existing(package / _INIT)
    return _inside(path.parent, [top, *rest]) if _top_package(path) is None else None


@cache
def _top_package(path: Path) -> Path | None:
    package = None
    for folder in path.parents:
        if not (folder / _INIT).is_file():
            break
        package = folder
    return package


def _inside(folder: Path, names: Sequence[str]) -> Path | None:
    return _member(folder.joinpath(*names[:-1]), names[-1])


def _member(folder: Path, name: str) -> Path | None:
    return _existing(folder / f"{name}.py") or _existing(folder / name / _INIT)


def _existing(path: Path) -> Path | None:
    return path if path.is_file() else None


class _Writer:
    """Writes the code of one module in normal form and collects the definitions that it uses."""

    def __init__(self, path: Path) -> None:
        self.uses: dict[str, Definition] = {}
        self.annotated: set[Definition] = set()
        self._path = path
        self._scopes: list[tuple[bool, _Bindings]] = []
        """Scopes that the code is in, the innermost last, and whether each is the body of a class."""

    def text(self, node: Any) -> str:
        """Return a part of the syntax tree as text, without what does not count."""
        if isinstance(node, list):
            return "[" + ",".join(filter(None, map(self.text, node))) + "]"
        if not isinstance(node, ast.AST):
            return "~" if node is None else repr(node)
        write = _SPECIAL.get(type(node), _Writer._plain)
        return write(self, node)

    def _plain(self, node: ast.AST) -> str:
        parts = []
        for name in node._fields:
            value = getattr(node, name, None)
            if value is not None and value != [] and name not in _NOT_COUNTED:
                parts.append(f"{name}={self.text(value)}")
        return f"{type(node).__name__}({','.join(parts)})"

    def _argument(self, node: ast.arg) -> str:
        self._annotation(node.annotation)
        return node.arg

    def _annotated(self, node: ast.AnnAssign) -> str:
        annotation = self._annotation(node.annotation)
        if self._scopes and self._scopes[-1][0]:
            return f"{self.text(node.target)}:{annotation}={self.text(node.value)}"
        return "" if node.value is None else self._plain(ast.Assign([node.target], node.value))

    def _annotation(self, node: ast.expr | None) -> str:
        """Return an annotation as text; of what it names, only classes are followed."""
        outside, self.uses = self.uses, {}
        text = self.text(node)
        self.annotated |= {used for used in self.uses.values() if _is_class(used)}
        self.uses = outside
        return text

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> str:
        outside = self.text(node.args)
        if not isinstance(node, ast.Lambda):
            outside = f"{node.name}{self.text(node.decorator_list)}{outside}"
            self._annotation(node.returns)
        body = node.body if isinstance(node.body, list) else [node.body]
        return f"{type(node).__name__} {outside}{self._within(_bound([node.args, *body]), body)}"

    def _class(self, node: ast.ClassDef) -> str:
        outside = self.text([*node.decorator_list, *node.bases, *node.keywords])
        return f"class {node.name}{outside}{self._within(_bound(node.body), node.body, is_class=True)}"

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> str:
        # The first iterable belongs to the scope outside: in ``[x for x in x]`` the last x is another.
        first, *rest = node.generators
        inside = [getattr(node, name) for name in node._fields if name != "generators"]
        inside += [first.target, first.ifs, first.is_async, rest]
        bound = _bound(part.target for part in node.generators)
        return f"{type(node).__name__} {self.text(first.iter)}{self._within(bound, inside)}"

    def _within(self, bound: _Bindings, node: Any, *, is_class: bool = False) -> str:
        self._scopes.append((is_class, bound))
        text = self.text(node)
        self._scopes.pop()
        return text

    def _reference(self, node: ast.Name | ast.Attribute) -> str:
        targets = self._targets(node)
        if not targets:
            return node.id if isinstance(node, ast.Name) else f"{self.text(node.value)}.{node.attr}"
        names = []
        for target in sorted(targets, key=str):
            if isinstance(target, _Module):  # A module used as a value can be asked for any of its names.
                every = {one for name in sorted(_names(target.path)) for one in _lookup(target.path, name)}
                names += [self._used(one) for one in sorted(one for one in every if isinstance(one, Definition))]
            else:
                names.append(target if isinstance(target, str) else self._used(target))
        return "@" + "|".join(sorted(names))

    def _used(self, definition: Definition) -> str:
        """Note a definition, and return its name; a second one of that name gets a number."""
        name, number = definition.name, 1
        while self.uses.setdefault(name, definition) != definition:
            number += 1
            name = f"{definition.name}#{number}"
        return name

    def _targets(self, node: ast.expr) -> AbstractSet[_Target]:
        """Return what a name or an attribute of a module stands for; nothing where it is local or a builtin."""
        found: set[_Target]
        if isinstance(node, ast.Attribute):
            found = set()
            for base in self._targets(node.value):
                if isinstance(base, _Module):
                    found |= _lookup(base.path, node.attr)
                elif isinstance(base, str):
                    found.add(f"{base}.{node.attr}")
            return found
        if not isinstance(node, ast.Name):
            return frozenset()
        for depth, (is_class, bound) in enumerate(reversed(self._scopes)):
            if node.id in bound and not (is_class and depth):
                found = _imported(bound[node.id], self._path)
                # The body of a class sees the outer name until it gives the name a value of its own.
                if found or not is_class:
                    return found
        return _lookup(self._path, node.id)


_NOT_COUNTED = frozenset({"ctx", "kind", "type_comment", "type_params"})
_SPECIAL: dict[type[ast.AST], Callable[[_Writer, Any], str]] = {
    ast.Import: lambda writer, node: "",
    ast.ImportFrom: lambda writer, node: "",
    ast.Pass: lambda writer, node: "",
    ast.Expr: lambda writer, node: "" if _is_idle(node) else writer.text(node.value),
    ast.Constant: lambda writer, node: repr(node.value),
    ast.Name: _Writer._reference,
    ast.Attribute: _Writer._reference,
    ast.arg: _Writer._argument,
    ast.AnnAssign: _Writer._annotated,
    ast.FunctionDef: _Writer._function,
    ast.AsyncFunctionDef: _Writer._function,
    ast.Lambda: _Writer._function,
    ast.ClassDef: _Writer._class,
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _Writer._comprehension),
}
