"""Attack the stated guarantees of one library with `volta.audit`, and write what was found to DIR/LIBRARY.csv.

    PYTHONPATH=src python benchmarks/audit/run.py volta|mapie|crepes|torchcp|nonconform|puncc|sklearn [--out DIR]

Each library has an environment of its own, in which volta needs joblib, msgspec, filelock and platformdirs alone:

    pip install scikit-learn mapie crepes joblib msgspec filelock platformdirs      # volta, mapie, crepes, sklearn
    pip install puncc joblib msgspec filelock platformdirs
    pip install nonconform joblib msgspec filelock platformdirs                     # Python 3.12 or later
    pip install torch scikit-learn pandas tqdm pillow joblib msgspec filelock platformdirs
    pip install --no-deps torchcp torchvision

``--scripts DIR`` writes the program that repeats the worst attack of each guarantee.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.metadata
import re
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import volta

DISTRIBUTIONS = {"sklearn": "scikit-learn", "volta": "volta-uq"}
OUT = Path(__file__).parents[2] / "docs" / "results" / "audit"


def main() -> None:
    options = parse()
    name = DISTRIBUTIONS.get(options.library, options.library)
    version = volta.__version__ if options.library == "volta" else importlib.metadata.version(name)
    rows = []
    start = time.process_time()
    module = importlib.import_module(f"of_{options.library}")
    for title, fit, claim, level, confidence in module.CASES:
        # A bound on the error of answers takes hundreds of calibration rows to exist at all.
        attacks = [
            replace(a, sizes=tuple(5 * s for s in a.sizes)) if claim == "selective_risk" else a for a in volta.ATTACKS
        ]
        # Events of a draw, and rates of a third of its rows, take more draws to count.
        events = confidence is not None or claim in ("class_coverage", "ever_alarm")
        draws = getattr(module, "DRAWS", {}).get(claim, options.draws * (2 if events else 1))
        # A one-class SVM takes longer for a row than all else.
        n_new = 4000 if claim == "false_alarms" and confidence is not None else None
        settings = {"confidence": confidence, "attacks": attacks, "draws": draws, "n_new": n_new, "seed": options.seed}
        found = volta.audit(fit, claim, level, **settings)
        print(found, f"{time.process_time() - start:.0f} s of processor time\n", sep="\n", flush=True)
        for result in found.results:
            own = {"library": name, "version": version, "guarantee": title, "claim": found.claim}
            rows.append(own | asdict(result) | {"verdict": result.verdict, "seed": options.seed})
        if options.scripts:
            options.scripts.mkdir(parents=True, exist_ok=True)
            file = options.scripts / f"{options.library}-{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')}.py"
            file.write_text(found.script, encoding="utf-8")
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / f"{options.library}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rounded(row) for row in rows)


def rounded(row: dict[str, object]) -> dict[str, object]:
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--scripts", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
