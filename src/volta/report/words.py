"""The sentences of a report: main result, warnings, notes, how to reproduce it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from volta.bench.records import EXTERNAL, Environment, instruction_sets, library_versions
from volta.figures.style import full_name, heading, metric_key, split_key
from volta.metrics.expected_ece import EXPECTED_ECE_METRICS
from volta.report.result_tables import warm_up_sentence
from volta.report.run import Group, Run, budget_limits
from volta.report.statistics import Statistics
from volta.report.table_model import decimals_for, show
from volta.stats.ranking import Aspect, Finding, find

FEW = 3
"""Up to this many methods are named as leaders; more than that is no clear winner."""
ORDER = ("ece", "accuracy", "nll", "aurc", "auroc")
"""Calibration comes first: it is what the methods are for."""
_SUBJECTS = {"ece": "calibration", "nll": "likelihood", "aurc": "selective prediction"}


def finding_sentence(group: Group, own: Statistics) -> str:
    """Return the main result of a run in a few sentences; empty where no cell has finished.

    ``own``: the statistics of that group alone. Leaders are the confidence set of the best; no mean is called the best
    without a test.
    """
    if not own.leaderboard:
        return ""
    found = find(group.task, own.leaderboard, own.pairs)
    if found.n_methods == 1:
        return _alone(group, found.first or group.compared)
    # Near OOD before far OOD.
    tested = sorted(
        (one for one in found.aspects if one.is_tested),
        key=lambda one: (ORDER.index(one.metric), "" if one.set.startswith("near") else one.set),
    )
    sentences = _leaders(group, tested) or _no_winner(group, found, tested)
    if tested and found.n_pairs:
        seeds = "1 seed" if group.context.n_seeds == 1 else f"{group.context.n_seeds} seeds"
        basis = f"on any ranked metric ({seeds}, {group.context.n_rows:,} test samples)"
        sentences.append(f"{found.n_different} of {found.n_pairs} pairs differ significantly {basis}.")
    return f"On {group.task}, {' '.join(sentences)}"


def _leaders(group: Group, tested: Sequence[Aspect]) -> list[str]:
    """Return who leads on which metrics, and where no method is better than the first; empty without a leader."""
    led = [one for one in tested if one.separates and len(one.best) <= FEW]
    if not led:
        return []
    by_names: dict[frozenset[str], list[Aspect]] = {}
    for aspect in led:
        by_names.setdefault(aspect.names, []).append(aspect)
    clauses = []
    for names, aspects in by_names.items():
        verb = "leads" if len(names) == 1 else "lead"
        clauses.append(f"{_who(group, aspects[0])} {verb} on {listed([_subject(one) for one in aspects])}")
    sentences = [f"{'; '.join(clauses)}."]
    first = next(iter(by_names))
    # With few seeds even the last by its mean may not be significantly worse, which is no merit.
    unbeaten = [_subject(one) for one in tested if first <= one.names & one.good and one not in led]
    if unbeaten:
        sentences.append(
            f"No method is significantly better than {_who(group, by_names[first][0])} on {listed(unbeaten)}."
        )
    return sentences


def _no_winner(group: Group, found: Finding, tested: Sequence[Aspect]) -> list[str]:
    """Return that there is no clear winner, and who is first by mean rank."""
    sentences = ["one seed gives no test."]
    if tested:
        fewest = min(tested, key=lambda one: len(one.best) / one.n_distinct)
        tied = f"{len(fewest.best)} of {fewest.n_distinct} distinct methods are tied for best"
        sentences = [f"there is no clear winner: on {_subject(fewest)}, {tied}."]
    if found.first and found.mean_rank is not None:
        names = listed([group.title(name) for name in found.first])
        sentences.append(f"First by mean rank: {names} ({found.mean_rank:.1f} of {found.n_methods}).")
    return sentences


def group_header(group: Group) -> str:
    """Return what was run in words: methods, seeds, test samples, protocol, budget, unfinished cells."""
    n_rows, seeds = group.context.n_rows, {seed for _, seed in group.records}
    n_ablation = len(group.methods) - len(group.compared)
    what = _count(len(group.compared), "method") + (f" and {_count(n_ablation, 'ablation row')}" if n_ablation else "")
    # Where test samples rotate with the seed, each seed has others.
    rotated = len({record.data.get("test") for record in group.records.values() if record.origin != EXTERNAL}) > 1
    samples = f"{n_rows:,} test samples" + (" rotated with the seed" if rotated else "")
    parts = [f"{what} × {_count(len(seeds), 'seed')}, {samples}"]
    parts += [] if group.is_external else [f"{group.protocol} protocol", group.context.budget]
    if group.missing:
        parts.append(f"{len(group.records)} of {len(group.planned)} cells finished")
    return "; ".join(part for part in parts if part)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _alone(group: Group, names: Sequence[str]) -> str:
    """Return accuracy and ECE of the only method, with the range of the ECE expected under perfect calibration."""
    name = names[0]
    accuracy, ece, *expected = (group.sample(name, key) for key in ("accuracy", "ece", *EXPECTED_ECE_METRICS))
    if accuracy is None or ece is None:
        return ""
    mean = ece.mean
    words = f"On {group.task}, {group.title(name)} has an accuracy of {show('accuracy', accuracy.mean)}"
    words += f" and an ECE of {show('ece', mean, decimals_for('ece', [mean]))}"
    known = [sample.mean for sample in expected if sample is not None]
    if len(known) == len(expected):
        _, low, high = known
        position = "above" if mean > high else "below" if mean < low else "within"
        words += f", {position} the range expected under perfect calibration ({low:.4f}–{high:.4f})"
    return f"{words}. No other method was run."


def _who(group: Group, aspect: Aspect) -> str:
    """Return the names of the leaders; methods with the same predictions are named together."""
    parts = []
    for names in aspect.best:
        titles = [group.title(name) for name in names]
        more = f" (and {len(titles) - 1} more with the same predictions)"
        parts.append(titles[0] + more if len(titles) > FEW else "/".join(titles))
    return listed(parts)


def _subject(aspect: Aspect) -> str:
    key = metric_key(aspect.metric, aspect.set)
    if aspect.metric == "accuracy":
        return "accuracy"
    if aspect.metric == "auroc":
        kind = split_key(key)[1].partition(":")[0]
        return f"{kind}-OOD AUROC" if kind in ("near", "far") else full_name(key)
    return f"{_SUBJECTS[aspect.metric]} ({heading(key)})"


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence: "a, b and c"."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


CAPABILITIES = {"DEFAULT": "default", "NO AVX": "default", "AVX2": "avx2", "AVX512": "avx512"}
"""How torch calls an instruction set → the value of the variable that asks for it."""


Fact: TypeAlias = tuple[str, str, str]
"""A named fact: its name, words, and what is to be read letter by letter."""


def run_facts(run: Run) -> list[Fact]:
    """Return every setting, versions, hardware and times of the run."""
    manifest, environment = run.manifest, run.manifest.environment
    commit, found = environment.commit or "", variables(environment)
    # When the newest record was written, by its file, or the last command where that came after.
    records = run.store.folder("cells").glob("*/record.json") if run.store else ()
    newest = datetime.fromtimestamp(max((path.stat().st_mtime for path in records), default=0.0), UTC)
    settings = manifest.config.stored if manifest.config else {}
    return [
        *((name, _words(value), "") for name, value in settings.items()),
        ("variables", "" if found else "none recorded", found),
        ("volta", f"{environment.volta}, commit" if commit else f"{environment.volta}, no checkout", commit),
        ("Python", environment.python, ""),
        ("packages", ", ".join(f"{name} {version}" for name, version in environment.packages.items()), ""),
        ("platform", f"{environment.platform}, {environment.machine}", ""),
        ("hardware", f"{environment.cpu}, {environment.cores} cores, {environment.memory_gb} GB", ""),
        ("instruction set", environment.instruction_set or "not recorded", ""),
        ("first command", manifest.created, ""),
        ("last command", manifest.updated, ""),
        ("last changed", max(newest.isoformat(timespec="seconds"), manifest.updated), ""),
    ]


def variables(environment: Environment) -> str:
    """Return the variables that ask for the same instruction sets on another processor, as a shell has them.

    >>> from volta.bench.records import BlasLibrary
    >>> known = Environment("0.2", None, "3.11", {}, "Linux", "x86_64", "cpu", 2, 8.0, "AVX2",
    ...     (BlasLibrary("openblas", "0.3", "Haswell"),))
    >>> variables(known)
    'ATEN_CPU_CAPABILITY=avx2 OPENBLAS_CORETYPE=Haswell'
    """
    found = []
    if environment.cpu_capability in CAPABILITIES:
        found.append(f"ATEN_CPU_CAPABILITY={CAPABILITIES[environment.cpu_capability]}")
    kernels = {one.architecture for one in environment.blas if one.name == "openblas" and one.architecture}
    if len(kernels) == 1:
        found.append(f"OPENBLAS_CORETYPE={kernels.pop()}")
    return " ".join(found)


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not set" if value is None else str(value)


PAPER_BACKBONE = "resnet18"
TINY_IMAGENET = "tinyimagenet"
SAW_OOD = (
    "Features: those of a network trained on ImageNet, which saw the classes that are out of distribution here. The "
    "paper’s come from an ensemble trained on Tiny ImageNet, which is not available: its numbers are of other features."
)
MAX_NAMED = 6
DIGEST_LETTERS = 64


def group_warnings(group: Group) -> list[str]:
    """Return what a reader must know before any number: what is reduced, mixed or missing."""
    lines = []
    if limits := budget_limits(group.budget):
        lines.append(f"Reduced run ({limits}): these numbers are not comparable with a full run’s or the paper’s.")
    # No backbone that can be had is the paper's on Tiny ImageNet.
    usual = set() if group.task == TINY_IMAGENET else {PAPER_BACKBONE}
    backbones = {record.backbone for record in group.records.values() if record.backbone is not None}
    lines += [f"Features: {name}." for name in sorted(backbones - usual)]
    if group.task == TINY_IMAGENET:
        lines.append(SAW_OOD)
    mixed = instruction_sets(group.records.values())
    if len(mixed) > 1:
        shares = "; ".join(f"{n} {'cell' if n == 1 else 'cells'} on {name}" for name, n in mixed.items())
        lines.append(f"Instruction sets are mixed, and equal seeds give other numbers on each: {shares}.")
    versions = library_versions(group.records.values())
    if len(versions) > 1:
        shares = "; ".join(f"{n} {'cell' if n == 1 else 'cells'} with {name}" for name, n in versions.items())
        lines.append(f"Versions of libraries are mixed, and equal seeds may give other numbers with each: {shares}.")
    if stopped := warm_up_sentence(group):
        lines.append(stopped)
    if group.missing:
        lines.append(
            f"{len(group.missing)} of {len(group.planned)} cells are not finished; "
            "every mean is over the seeds that are. They are named below."
        )
    if len({seed for _, seed in group.records}) == 1:
        lines.append(
            "One seed: no standard deviations; tests are about new test samples, for the models as they are."
            if any(group.origin(method) == EXTERNAL for method in group.methods)
            else "One seed: no standard deviations and no tests."
        )
    return lines


def group_remarks(group: Group) -> dict[str, Sequence[str | Fact]]:
    """Return what is missing or failed, sets the task lacks, floored rows, notes of the methods, and data hashes."""
    notes: dict[str, list[str]] = {}
    floored = []
    for (method, seed), record in group.records.items():
        for note in record.notes:
            notes.setdefault(note, []).append(f"{group.title(method)} ({seed})")
        for name, count in record.floored_rows.items():
            floored.append(
                f"{group.title(method)}, seed {seed}, {name}: {count} samples gave their true class a probability of 0 "
                "and were floored in NLL"
            )
    return {
        "failed": [f"{cell.label}: {message}" for cell, message in group.failures.items()],
        "never_run": [cell.label for cell in group.missing if cell not in group.failures],
        "absent": _absent(group),
        "floored": floored,
        "notes": [f"{' '.join(note.split())} — {_names(who)}" for note, who in notes.items()],
        "data": _data_facts(group),
    }


def _absent(group: Group) -> list[str]:
    if not group.methods:
        return []
    words = []
    if not group.sets("ood"):
        words.append("The task has no OOD sets: no AUROC, FPR95 or score histograms.")
    if not group.sets("shift"):
        words.append("The task has no shifted test sets: no robustness table.")
    if not group.is_external and not any(group.is_ours(method) for method in group.methods):
        words.append("VOLTA itself is not in this run: no claims are judged.")
    return words


def _names(who: list[str]) -> str:
    more = f" and {len(who) - MAX_NAMED} more" if len(who) > MAX_NAMED else ""
    return f"{', '.join(who[:MAX_NAMED])}{more}"


def _data_facts(group: Group) -> list[Fact]:
    if group.first_record is None:
        return []
    rows, hashes = group.first_record.rows, group.first_record.data
    facts = []
    for name in dict.fromkeys([*rows, *hashes]):
        # A set's hash is followed by whether the set is near, which a reader has from elsewhere.
        digest = hashes.get(name, "")[:DIGEST_LETTERS]
        words = [f"{rows[name]:,} rows"] if name in rows else []
        facts.append((name, " ".join([*words, *(["sha256"] if digest else [])]), digest))
    return facts
