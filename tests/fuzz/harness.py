"""Runs cases: a file is changed, read, and what came of it is counted."""

from __future__ import annotations

import hashlib
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.mutator import mutate
from tests.fuzz.watching import watched
from volta.core.errors import VoltaError

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Category:
    """One kind of file: ``seeds`` makes sound ones, ``read`` reads one and returns what it understood, as bytes or text.

    ``sealed`` files carry a checksum over what they say: a changed one may be refused, or read as what it was, never
    as something else. ``share`` is the part of the asked number of cases that is run, below 1 for slow readers.
    ``mutate`` changes a sound file; the usual one changes bytes. A reader that ``mends`` makes anew what is damaged.
    """

    file: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], object]
    sealed: bool = False
    share: float = 1.0
    mutate: Callable[[bytes, random.Random], bytes] = mutate
    mends: bool = False


@dataclass
class Outcomes:
    """Counts by outcome, and the inputs that must not have come out as they did."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, bytes]] = field(default_factory=list)


def run_category(name: str, category: Category, n_cases: int, seed: int = 0) -> Outcomes:
    """Read ``n_cases`` changed files; equal names, numbers and seeds give equal cases."""
    outcomes = Outcomes()
    seeds = category.seeds()
    with tempfile.TemporaryDirectory(prefix="volta-fuzz-") as folder:
        sound = [_digest(_read(category, seed, Path(folder))) for seed in seeds]
        for case in range(max(1, round(n_cases * category.share))):
            rng = random.Random(f"{name} {case}" + (f" {seed}" if seed else ""))
            number = rng.randrange(len(seeds))
            data = category.mutate(seeds[number], rng)
            outcome, bad = judge(category, data, Path(folder), sound[number])
            outcomes.counts[outcome] += 1
            if bad:
                outcomes.failures.append((outcome, data))
    return outcomes


def judge(category: Category, data: bytes, folder: Path, sound: str | None = None) -> tuple[str, bool]:
    """Read one file; return the outcome in words and whether it is one that must not happen."""
    try:
        with watched(folder) as happened:
            found = _read(category, data, folder)
    except VoltaError:
        outcome, bad = "refused", False
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        outcome, bad = f"raised {type(error).__name__}", True
    else:
        outcome, bad = "read", False
        if category.sealed and sound is not None and _digest(found) != sound:
            outcome, bad = "read though altered", True
    return (happened[0], True) if happened else (outcome, bad)


def corpus(name: str) -> Iterator[Path]:
    """Walk the kept inputs of a category that once came out as they must not."""
    yield from sorted((CORPUS / name).glob("*.bin"))


def keep(name: str, data: bytes) -> Path:
    """Put an input into the corpus."""
    path = CORPUS / name / f"{hashlib.sha256(data).hexdigest()[:12]}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _read(category: Category, data: bytes, folder: Path) -> object:
    path = folder / category.file
    path.write_bytes(data)
    return category.read(path)


def _digest(found: object) -> str:
    return hashlib.sha256(found if isinstance(found, bytes) else repr(found).encode(errors="replace")).hexdigest()
