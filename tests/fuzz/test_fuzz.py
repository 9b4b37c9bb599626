from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.categories import CATEGORIES
from tests.fuzz.harness import CORPUS, Category, corpus, judge, run_category
from volta.core.errors import InputError

# slow: many files; a few of every kind are read each time
CASES = [40, pytest.param(200, marks=pytest.mark.slow)]

# Libraries warn of files that they then refuse.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("n_cases", CASES)
@pytest.mark.parametrize("name", CATEGORIES)
def test_damaged_files_are_refused_or_read_as_they_were(name: str, n_cases: int) -> None:
    found = run_category(name, CATEGORIES[name], n_cases)
    assert not found.failures, found.counts
    assert found.counts["refused"] > 0 or (CATEGORIES[name].mends and CATEGORIES[name].sealed)


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for name in CATEGORIES for path in corpus(name)]
)
def test_past_failures_are_refused(path: Path, tmp_path: Path) -> None:
    category = CATEGORIES[path.parent.name]
    assert judge(category, path.read_bytes(), tmp_path) == ("read" if category.mends else "refused", False)


def test_the_corpus_has_no_stray_folder() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= set(CATEGORIES)


def test_equal_runs_give_equal_cases() -> None:
    assert run_category("npy", CATEGORIES["npy"], 30).counts == run_category("npy", CATEGORIES["npy"], 30).counts


def test_what_must_not_happen_is_found() -> None:
    def read(path: Path) -> bytes:
        data = path.read_bytes()
        if len(data) < 50:
            raise KeyError("short")
        if data[0] != 1:
            raise InputError("wrong")
        return data

    found = run_category("x", Category("x", lambda: [b"\1" * 100], read, sealed=True), 200)
    assert set(found.counts) == {"raised KeyError", "read though altered", "refused"}
    assert len(found.failures) == 200 - found.counts["refused"]
