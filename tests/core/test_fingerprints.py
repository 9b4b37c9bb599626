"""Names are followed to the definitions that they stand for; only what can change a value counts."""

from __future__ import annotations

import functools
import sys

import pytest

from volta.core.errors import InputError
from volta.core.fingerprints import (
    PACKAGE,
    Definition,
    definition_of,
    fingerprint,
    hash_definitions,
    used_definitions,
)
from volta.metrics import METRICS, auroc, ece

PACKAGE_FILES = {
    "own/__init__.py": "from own.basics import KEPT\nfrom .parts import Part as Piece\nHERE = KEPT\ncut = 2\n",
    "own/basics.py": "import math\nKEPT = 1\nOTHER = 2\n",
    "own/parts/__init__.py": "from .wheel import Part\nfrom . import hub\n",
    "own/parts/wheel.py": "class Part:\n    pass\nclass Spare:\n    pass\n",
    "own/parts/hub.py": "def turn(): pass\ndef stop(): turn()\n",
    "own/lazy/__init__.py": "if TYPE_CHECKING:\n    from own.parts.wheel import Part\n",
    "own/cut.py": "X = 1\n",
    "own/types.py": "class Rows:\n    pass\nNumber = int\n",
    "own/stars.py": "from own.basics import *\n",
    "outside.py": "X = 1\n",
}


@pytest.fixture
def package(tmp_path):
    """Return a function that writes a package and gives the definition ``f`` of its module ``root``."""
    written = []

    def write(root, **others):
        folder = tmp_path / str(len(written))
        written.append(folder)
        changed = {f"own/{name}.py": text for name, text in others.items()}
        for name, text in (PACKAGE_FILES | {"own/root.py": root} | changed).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Definition(folder / "own" / "root.py", "f")

    return write


@pytest.fixture
def used(package):
    """Return what ``f`` uses, as FILE:NAME."""

    def find(root, **others):
        start = package(root, **others)
        found = used_definitions([start]) - {start}
        return {f"{path.relative_to(start.path.parent).as_posix()}:{name}" for path, name in found}

    return find


@pytest.fixture
def key(package):
    def find(root, **others):
        return hash_definitions(frozenset([package(root, **others)]))

    return find


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import json\ndef f(): json.dumps(1)", set()),
        ("from outside import X\ndef f(): X", set()),
        ("import own.basics\ndef f(): own.basics.KEPT", {"basics.py:KEPT"}),
        ("import own.basics as b\ndef f(): b.KEPT", {"basics.py:KEPT"}),
        ("from own import basics\ndef f(): basics.KEPT", {"basics.py:KEPT"}),
        ("from . import basics\ndef f(): basics.KEPT.real", {"basics.py:KEPT"}),
        ("from .basics import KEPT as k\ndef f(): k", {"basics.py:KEPT"}),
        ("from .basics import KEPT, OTHER\ndef f(): KEPT", {"basics.py:KEPT"}),
        ("from own import KEPT\ndef f(): KEPT", {"basics.py:KEPT"}),
        ("from own import Piece\nclass f(Piece): pass", {"parts/wheel.py:Part"}),
        ("from own.lazy import Part\ndef f(): Part()", {"parts/wheel.py:Part"}),
        ("import own\ndef f(): own.parts.hub.stop()", {"parts/hub.py:stop", "parts/hub.py:turn"}),
        ("from own import HERE\ndef f(): HERE", {"__init__.py:HERE", "basics.py:KEPT"}),
        ("from own import cut\ndef f(): cut", {"__init__.py:cut"}),
        ("from own.stars import KEPT\ndef f(): KEPT", {"basics.py:KEPT"}),
        ("from own.basics import *\ndef f(): KEPT", {"basics.py:KEPT"}),
        # Wherever a name stands: inside functions, as a default, a decorator, a base, a member of a class.
        ("def f():\n    def g():\n        from own import basics\n        basics.KEPT", {"basics.py:KEPT"}),
        ("from .basics import KEPT\ndef f(x=KEPT): pass", {"basics.py:KEPT"}),
        ("from .parts import hub\n@hub.turn\ndef f(): pass", {"parts/hub.py:turn"}),
        ("from .parts import hub\nclass f:\n    def method(self): hub.turn()", {"parts/hub.py:turn"}),
        ("from .parts import hub\nTABLE = {'turn': hub.turn}\ndef f(): TABLE['turn']()", {"root.py:TABLE", "parts/hub.py:turn"}),
        ("from .parts import hub\ndef f(): getattr(hub, 'st' + 'op')", {"parts/hub.py:turn", "parts/hub.py:stop"}),
        ("try:\n    from .basics import KEPT\nexcept ImportError:\n    KEPT = 0\ndef f(): KEPT", {"root.py:KEPT", "basics.py:KEPT"}),
        ("TABLE = {}\ndef g(): pass\nTABLE['g'] = g\nOTHER = 1\ndef f(): TABLE", {"root.py:TABLE", "root.py:g"}),
        ("import math\nfrom .basics import KEPT\nmath.settings(KEPT)\ndef f(): pass", {"basics.py:KEPT"}),
        ("A = B()\nA += C\nC = 1\ndef f(): return A", {"root.py:A", "root.py:C"}),
        # A name of an inner scope is not the module's.
        ("X = 1\ndef f(X): X", set()),
        ("X = 1\ndef f():\n    X = 2\n    return lambda: X", set()),
        ("X = 1\ndef f(): return [X for X in (1, 2)]", set()),
        ("X = (1,)\ndef f(): return [X for X in X]", {"root.py:X"}),
        ("X = 1\ndef f(): return [X for X in (1,)], X", {"root.py:X"}),
        ("X = 1\nclass f:\n    X = 2\n    def method(self): return X", {"root.py:X"}),
        ("X = 1\ndef f():\n    global X\n    X = 2", {"root.py:X"}),
        ("X = 1\ndef f(one):\n    match one:\n        case {'a': X}: return X", set()),
        ("X = 1\ndef f():\n    try: pass\n    except OSError as X: print(X)", set()),
        # Classes that annotations name are followed, and nothing else that they name.
        ("from .types import Rows, Number\ndef f(rows: Rows, n: Number) -> None: pass", {"types.py:Rows"}),
        ("if TYPE_CHECKING:\n    from .types import Rows\ndef f() -> list[Rows]: pass", {"types.py:Rows"}),
    ],
)  # fmt: skip
def test_names_are_followed(used, text, names):
    assert used(text) == names


BASE = "from .helpers import LIMIT, scale\ndef f(x: int) -> int:\n    '''Say.'''\n    return scale(x) + LIMIT\n"
HELPERS = "LIMIT = 1\ndef scale(x):\n    return x * 2\ndef unused():\n    return 3\n"
SAME = {
    "a comment, a docstring, layout": (
        "# Of f.\nfrom .helpers import LIMIT, scale\n\n\ndef f(\n    x,\n):\n    # Scaled.\n    return (scale( x )+LIMIT)\n",
        {"helpers": '"""Helpers."""\nLIMIT: int = 1\n"""How far."""\n' + HELPERS.partition("\n")[2]},
    ),
    "an annotation": (BASE.replace("x: int", "x: float"), {"helpers": HELPERS}),
    "an unused definition": (BASE + "def g(): pass\n", {"helpers": HELPERS.replace("return 3", "return 4")}),
    "a function in another module": (
        "from .helpers import LIMIT\nfrom .scaling import scale\n" + BASE.partition("\n")[2],
        {
            "helpers": HELPERS.replace("def scale(x):\n    return x * 2\n", ""),
            "scaling": "def scale(x): return x * 2\n",
        },
    ),
    "a renamed module": (BASE.replace("helpers", "tools"), {"tools": HELPERS}),
    "another form of import": (
        "from . import helpers as h\n"
        + BASE.partition("\n")[2].replace("scale", "h.scale").replace("LIMIT", "h.LIMIT"),
        {"helpers": HELPERS},
    ),
    "an import inside the function": (
        "def f(x):\n    from .helpers import LIMIT, scale as s\n    return s(x) + LIMIT\n",
        {"helpers": HELPERS},
    ),
}
CHANGED = {
    "the function": (BASE.replace("+", "-"), {"helpers": HELPERS}),
    "what it uses": (BASE, {"helpers": HELPERS.replace("* 2", "* 3")}),
    "a constant": (BASE, {"helpers": HELPERS.replace("LIMIT = 1", "LIMIT = True")}),
    "a default": (BASE.replace("x: int", "x: int = 1"), {"helpers": HELPERS}),
    "a keyword that must be given": (BASE.replace("x: int", "*, x"), {"helpers": HELPERS}),
    "a keyword with a default": (BASE.replace("x: int", "*, x=None"), {"helpers": HELPERS}),
    "a statement that changes a constant": (BASE, {"helpers": HELPERS + "LIMIT += 1\n"}),
    "an external function": ("from math import sin as scale\n" + BASE.replace(", scale", ""), {"helpers": HELPERS}),
    "another one": ("from math import cos as scale\n" + BASE.replace(", scale", ""), {"helpers": HELPERS}),
}  # fmt: skip


@pytest.mark.parametrize("edit", SAME)
def test_what_changes_no_value_changes_no_fingerprint(key, edit):
    root, others = SAME[edit]
    assert key(root, **others) == key(BASE, helpers=HELPERS)


def test_what_may_change_a_value_changes_the_fingerprint(key):
    keys = {edit: key(root, **others) for edit, (root, others) in CHANGED.items()}
    assert len({*keys.values(), key(BASE, helpers=HELPERS)}) == len(CHANGED) + 1


def test_definitions_of_one_name_are_told_apart(key):
    one, other = "def g(): return 1\n", "def g(): return 2\n"
    difference = "from .one import g\nfrom .other import g as h\ndef f(): return g() - h()\n"
    turned = difference.replace("g() - h()", "h() - g()")
    keys = {key(difference, one=first, other=second) for first in (one, other) for second in (one, other)}
    assert len(keys) == 4
    assert key(turned, one=one, other=other) == key(difference, one=other, other=one)
    through = "from .one import a\nfrom .other import b\ndef f(): return a() + b()\n"
    a, b = "def a(): return 3 * g()\n", "def b(): return g()\n"
    assert key(through, one=one + a, other=other + b) != key(through, one=other + a, other=one + b)


def test_fields_keep_their_annotations(key):
    assert key("class f:\n    x: int = 1") != key("class f:\n    x: float = 1") != key("class f:\n    x = 1")


def test_modules_that_use_each_other_end(used):
    found = used("from . import other\ndef f(): other.g()", other="from . import root\ndef g(): root.f()\n")
    assert found == {"other.py:g"}


def test_other_packages_are_followed_into_volta(used, tmp_path):
    start = tmp_path / "script.py"
    start.write_text("from volta.metrics import ece\nfrom beside import X\nf = lambda: ece(X)\n", encoding="utf-8")
    (tmp_path / "beside.py").write_text("X = 1\nY = 2\n", encoding="utf-8")
    found = used_definitions([Definition(start, "f")])
    assert {definition_of(ece), Definition(tmp_path / "beside.py", "X")} <= found
    names = {name for path, name in found if path.is_relative_to(PACKAGE)}
    assert "ReliabilityBins" in names
    assert not names & {"nll", "METRICS"}
    assert "beside" not in sys.modules


def test_order_and_repetition_do_not_matter():
    assert fingerprint([ece, auroc]) == fingerprint([auroc, ece, ece]) != fingerprint([ece])


def test_wrapped_functions_count_as_what_they_wrap():
    assert definition_of(functools.wraps(ece)(lambda: None)) == definition_of(ece)
    assert definition_of(METRICS["ece"].function).path == definition_of(ece).path


def test_what_has_no_file_is_refused():
    scope = {"__name__": "nowhere"}
    exec("class Loose: pass", scope)
    for thing in (scope["Loose"], functools.partial(ece), print):
        with pytest.raises(InputError, match=r"is not defined in a file.*move it to the top of a \.py file"):
            fingerprint([thing])
