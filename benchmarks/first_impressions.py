"""Processor seconds of what a newcomer does first: ``import volta``, ``volta --help``, ``volta --version``.

Each is a process of its own, started ``--repeats`` times; median and least are printed, the bare interpreter's beside
them. Aims: ``import volta`` below 0.1 s, ``volta --help`` below 0.3 s.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys

COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "import volta": ("-c", "import volta"),
    "volta --help": ("-m", "volta", "--help"),
    "volta --version": ("-m", "volta", "--version"),
    "volta bench --help": ("-m", "volta", "bench", "--help"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    n_repeats = parser.parse_args().repeats
    print(f"processor seconds, median and least of {n_repeats}; Python {platform.python_version()}")
    for name, arguments in COMMANDS.items():
        seconds = [_processor_seconds(arguments) for _ in range(n_repeats)]
        print(f"{name:20} {statistics.median(seconds):6.3f} {min(seconds):6.3f}")


def _processor_seconds(arguments: tuple[str, ...]) -> float:
    before = os.times()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


if __name__ == "__main__":
    main()
