"""``python -m tests.fuzz --cases N``: N changed files over all categories; prints what came of them."""

from __future__ import annotations

import argparse
import sys
import time
import warnings

from tests.fuzz.categories import CATEGORIES
from tests.fuzz.harness import keep, run_category
from tests.parser_process import forked_parsers

KEPT = 5
"""So many inputs of a category go into the corpus; the next run, after a mend, finds others."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="cases over all categories")
    parser.add_argument("--only", nargs="*", choices=sorted(CATEGORIES), help="categories to run")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other cases")
    chosen = parser.parse_args()
    names = chosen.only or list(CATEGORIES)
    each = chosen.cases / sum(CATEGORIES[name].share for name in names)
    # Libraries warn of files that they then refuse.
    warnings.simplefilter("ignore")
    bad = total = 0
    for name in names:
        started = time.monotonic()
        found = run_category(name, CATEGORIES[name], round(each), chosen.seed)
        n_cases = found.counts.total()
        counted = ", ".join(f"{outcome} {count}" for outcome, count in sorted(found.counts.items()))
        print(f"{name:20} {n_cases:7} cases  {time.monotonic() - started:6.0f} s  {counted}", flush=True)
        for outcome, data in found.failures[:KEPT]:
            print(f"    {outcome}: kept as {keep(name, data)}")
        bad, total = bad + len(found.failures), total + n_cases
    print(f"{total} cases, {bad} that must not happen")
    return 1 if bad else 0


if __name__ == "__main__":
    with forked_parsers():
        code = main()
    sys.exit(code)
