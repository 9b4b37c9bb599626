"""Imports are followed wherever they stand, to the module that defines what is imported, and no further."""

from __future__ import annotations

import pytest

from volta.core.errors import InputError
from volta.core.fingerprints import PACKAGE, file_of, fingerprint, used_files

FILES = {
    "own/__init__.py": "from own.basics import kept\nfrom .parts import Part as Piece\nHERE = 1\ncut = 2\n",
    "own/basics.py": "import math\nkept = 1\n",
    "own/parts/__init__.py": "from .wheel import Part\nfrom . import hub\n",
    "own/parts/wheel.py": "Part = 1\n",
    "own/parts/hub.py": "",
    "own/lazy/__init__.py": "if TYPE_CHECKING:\n    from own.parts.wheel import Part\n",
    "own/cut.py": "",
    "own/late.py": "",
    "own/typed.py": "",
    "own/untyped.py": "",
    "outside.py": "",
}


@pytest.fixture
def used(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def follow(text):
        root = tmp_path / "own" / "root.py"
        root.write_text(text, encoding="utf-8")
        return {path.relative_to(tmp_path / "own").as_posix() for path in used_files([root])} - {"root.py"}

    return follow


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("import json", set()),
        ("import outside", set()),
        ("import own.late", {"late.py"}),
        ("import own.late as l, json", {"late.py"}),
        ("from own import late", {"late.py"}),
        ("from . import late", {"late.py"}),
        ("from .late import anything", {"late.py"}),
        ("from .parts import hub", {"parts/hub.py"}),
        ("from own.parts.hub import anything", {"parts/hub.py"}),
        ("from own import kept", {"basics.py"}),
        ("from own import kept as other", {"basics.py"}),
        ("from own import Piece", {"parts/wheel.py"}),
        ("from own.parts import Part", {"parts/wheel.py"}),
        ("from own.lazy import Part", {"parts/wheel.py"}),
        ("def f():\n    def g():\n        from own import late", {"late.py"}),
        ("class A:\n    import own.late", {"late.py"}),
        ("try:\n    import json\nexcept ImportError:\n    from . import late", {"late.py"}),
        ("if TYPE_CHECKING:\n    from own import typed\nelse:\n    from own import untyped", {"untyped.py"}),
        ("if typing.TYPE_CHECKING:\n    from own import typed", set()),
        # What the package defines itself brings the package, and with it all that it imports.
        ("from own import HERE", {"__init__.py", "basics.py", "parts/wheel.py"}),
        ("from own import cut", {"__init__.py", "basics.py", "parts/wheel.py"}),
        ("from own import *", {"__init__.py", "basics.py", "parts/wheel.py"}),
        ("import own", {"__init__.py", "basics.py", "parts/wheel.py"}),
    ],
)
def test_imports_are_followed(used, text, files):
    assert used(text) == files


def test_other_packages_are_followed_into_volta(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from volta.metrics import ece\n", encoding="utf-8")
    found = used_files([script])
    assert PACKAGE / "metrics" / "calibration.py" in found
    assert PACKAGE / "metrics" / "__init__.py" not in found
    assert PACKAGE / "metrics" / "selective.py" not in found


def test_modules_that_import_each_other_end():
    root = PACKAGE / "networks" / "loop.py"
    assert root in used_files([root])


def test_order_and_repetition_do_not_matter():
    one, other = PACKAGE / "core" / "quantile.py", PACKAGE / "core" / "seeding.py"
    assert fingerprint([one, other]) == fingerprint([other, one, one]) != fingerprint([one])


def test_what_has_no_file_is_refused():
    scope = {"__name__": "nowhere"}
    exec("class Loose: pass", scope)
    with pytest.raises(InputError, match=r"Loose is not defined in a file.*move it to a \.py file"):
        file_of(scope["Loose"])
    assert file_of(fingerprint) == PACKAGE / "core" / "source_stamp.py"
