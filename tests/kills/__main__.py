"""``python -m tests.kills``: kills commands at random moments; prints what came of it.

After a few kills the command runs to its end, and its results are compared with those of a command left alone.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from tests.kills.processes import MODULES, command_line, start
from tests.kills.scenarios import SCENARIOS, Scenario, leftovers

KILLS = {"local": 100, "workers": 50, "ray": 25, "import": 13, "extract": 12}
IN_A_ROW = 10
FRESH = 0.05
ORPHAN_SECONDS = 5.0
END_SECONDS = 600.0


def undisturbed(scenario: Scenario, place: Path) -> tuple[object, float]:
    """Return the results of a command left alone, and how long a second one took, which had nothing to import."""
    for number in range(2):
        folder = place / str(number)
        folder.mkdir(parents=True)
        scenario.prepare(folder)
        started = time.monotonic()
        code = start(scenario.arguments(folder), folder / "log", fresh=False).wait(END_SECONDS)
        if code != 0:
            sys.exit(f"the command ended with {code} by itself:\n{(folder / 'log').read_text()}")
        for name in (folder / "log").with_suffix(MODULES).read_text().split():
            with suppress(ImportError):
                import_module(name)
    return scenario.result(folder), time.monotonic() - started


def kill_in_a_row(
    scenario: Scenario, place: Path, wanted: object, seconds: float, n_kills: int, rng: random.Random
) -> Counter[str]:
    """Kill a command ``n_kills`` times or until it is through, let it end, and count what came of it."""
    counts: Counter[str] = Counter()
    place.mkdir()
    scenario.prepare(place)
    kept: dict[str, str] = {}
    while True:
        fresh = rng.random() < FRESH
        command = start(scenario.arguments(place), place / "log", fresh=fresh)
        left_alone = counts["kills"] == n_kills
        code = command.wait(END_SECONDS if left_alone else rng.uniform(0.0, seconds * (1.5 if fresh else 0.8)))
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
    counts["BAD results"] += code == 0 and scenario.result(place) != wanted
    counts["BAD .part left"] += len(leftovers(place))
    counts["BAD tracebacks"] += "Traceback" in (place / "log").read_text(errors="replace")
    return counts


def run_scenario(name: str, n_kills: int, seed: int) -> Counter[str]:
    """Kill one kind of command ``n_kills`` times; print the end of the log where something came out as it must not."""
    rng = random.Random(f"{name} {seed}")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="volta-kills-") as folder:
        wanted, seconds = undisturbed(SCENARIOS[name], Path(folder) / "undisturbed")
        while counts["kills"] < n_kills:
            place = Path(folder) / str(counts["runs to the end"])
            found = kill_in_a_row(
                SCENARIOS[name], place, wanted, seconds, min(IN_A_ROW, n_kills - counts["kills"]), rng
            )
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
    chosen = vars(parser.parse_args())
    total: Counter[str] = Counter()
    for name in KILLS:
        if chosen[name]:
            started = time.monotonic()
            counts = run_scenario(name, chosen[name], chosen["seed"])
            listed = ", ".join(f"{what} {count}" for what, count in sorted(counts.items()) if count)
            print(f"{name:8} {time.monotonic() - started:6.0f} s  {listed}", flush=True)
            total.update(counts)
    print(f"{total['kills']} kills, {n_bad(total)} that must not happen")
    return 1 if n_bad(total) else 0


if __name__ == "__main__":
    sys.exit(main())
