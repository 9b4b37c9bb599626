"""``python -m tests.kills``: kills commands at random moments; prints what came of it.

After a few kills the command runs to its end, and its results are compared with those of a command left alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import volta
from tests.kills.processes import MODULES, command_line, start
from tests.kills.scenarios import SCENARIOS, Scenario, leftovers

KILLS = {"local": 100, "workers": 50, "ray": 25, "import": 13, "extract": 12}
IN_A_ROW = 10
FRESH = 0.05
ORPHAN_SECONDS = 5.0
END_SECONDS = 600.0


@dataclass(frozen=True)
class Alone:
    """A command left alone: a digest of its results, how long it took once all was imported, and what it imported."""

    result: str
    seconds: float
    modules: tuple[str, ...]


def undisturbed(name: str, place: Path, kept: Path | None) -> Alone:
    """Return what a command left alone does, from ``kept`` if it was run there before with the same code."""
    note = None if kept is None else kept / f"{name}-{_code()}.json"
    if note is not None and note.is_file():
        found = json.loads(note.read_text())
        alone = Alone(found["result"], found["seconds"], tuple(found["modules"]))
        _import_all(alone.modules)
        return alone
    scenario = SCENARIOS[name]
    modules: tuple[str, ...] = ()
    seconds = 0.0
    for number in range(2):
        folder = place / str(number)
        folder.mkdir(parents=True)
        scenario.prepare(folder)
        started = time.monotonic()
        code = start(scenario.arguments(folder), folder / "log", fresh=False).wait(END_SECONDS)
        seconds = time.monotonic() - started
        if code != 0:
            sys.exit(f"the command ended with {code} by itself:\n{(folder / 'log').read_text()}")
        modules = tuple((folder / "log").with_suffix(MODULES).read_text().split())
        _import_all(modules)
    alone = Alone(_digest(scenario.result(folder)), seconds, modules)
    if note is not None:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(json.dumps(asdict(alone)))
    return alone


def _import_all(names: Iterable[str]) -> None:
    """Import here what commands import, since they are forked from this process."""
    for name in names:
        with suppress(ImportError):
            import_module(name)


def _code() -> str:
    """Return a digest of the package and of these scenarios: results of other code are not compared."""
    files = [*Path(volta.__file__).parent.rglob("*.py"), *Path(__file__).parent.glob("*.py")]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()[:16]


def _digest(result: object) -> str:
    return hashlib.sha256(repr(result).encode()).hexdigest()


def kill_in_a_row(
    scenario: Scenario, place: Path, alone: Alone, n_kills: int, rng: random.Random, until: float
) -> Counter[str]:
    """Kill a command ``n_kills`` times, until it is through or ``until`` has come; let it end, count what came of it."""
    counts: Counter[str] = Counter()
    place.mkdir()
    scenario.prepare(place)
    kept: dict[str, str] = {}
    while True:
        fresh = rng.random() < FRESH
        command = start(scenario.arguments(place), place / "log", fresh=fresh)
        left_alone = counts["kills"] == n_kills or time.monotonic() > until
        code = command.wait(END_SECONDS if left_alone else rng.uniform(0.0, alone.seconds * (1.5 if fresh else 0.8)))
        if code is None:
            command.kill()
            counts["kills"] += 1
            counts["with processes of its own"] += bool(command.descendants())
            for orphan in command.wait_for_descendants(ORPHAN_SECONDS):
                counts["BAD orphans after 5 s"] += 1
                print(f"orphan {orphan}: {command_line(orphan)}", flush=True)
        found = scenario.finished(place)
        counts["BAD finished pieces lost or rewritten"] += not kept.items() <= found.items()
        kept = found
        if code is not None:
            break
        counts["with finished pieces"] += bool(kept)
        counts["that left a .part"] += bool(leftovers(place))
    counts["runs to the end"] += 1
    counts["BAD exit codes"] += code != 0
    counts["BAD results"] += code == 0 and _digest(scenario.result(place)) != alone.result
    counts["BAD .part left"] += len(leftovers(place))
    counts["BAD tracebacks"] += "Traceback" in (place / "log").read_text(errors="replace")
    return counts


def run_scenario(
    name: str, n_kills: int, seed: int, kept: Path | None = None, seconds: float = math.inf
) -> Counter[str]:
    """Kill one kind of command ``n_kills`` times; print the end of the log where something came out as it must not.

    After ``seconds`` no more are killed.
    """
    until = time.monotonic() + seconds
    rng = random.Random(f"{name} {seed}")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="volta-kills-") as folder:
        alone = undisturbed(name, Path(folder) / "undisturbed", kept)
        while counts["kills"] < n_kills and time.monotonic() < until:
            place = Path(folder) / str(counts["runs to the end"])
            found = kill_in_a_row(SCENARIOS[name], place, alone, min(IN_A_ROW, n_kills - counts["kills"]), rng, until)
            counts.update(found)
            if n_bad(found):
                print(found, (place / "log").read_text(errors="replace")[-3000:], sep="\n", flush=True)
            shutil.rmtree(place)
    return counts


def n_bad(counts: Counter[str]) -> int:
    """Return how often something came out as it must not."""
    return sum(count for what, count in counts.items() if what.startswith("BAD"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, number in KILLS.items():
        parser.add_argument(f"--{name}", type=int, default=number, metavar="N", help=f"kills, {number} unless given")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--alone", type=Path, metavar="FOLDER", help="keeps what undisturbed commands gave; for a run in pieces"
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="kill no more of a kind after so long")
    chosen = vars(parser.parse_args())
    total: Counter[str] = Counter()
    for name in KILLS:
        if chosen[name]:
            started = time.monotonic()
            counts = run_scenario(name, chosen[name], chosen["seed"], chosen["alone"], chosen["seconds"])
            listed = ", ".join(f"{what} {count}" for what, count in sorted(counts.items()) if count)
            print(f"{name:8} {time.monotonic() - started:6.0f} s  {listed}", flush=True)
            total.update(counts)
    print(f"{total['kills']} kills, {n_bad(total)} that must not happen")
    return 1 if n_bad(total) else 0


if __name__ == "__main__":
    sys.exit(main())
