"""What a reader must know about a run besides its numbers: warnings first, and what is missing or was noted."""

from __future__ import annotations

from dataclasses import dataclass

from volta.bench.records import OWN, instruction_sets, library_versions
from volta.report.reproduce import Fact
from volta.report.run import Group, budget_limits
from volta.report.training import climb_sentence

PAPER_BACKBONE = "resnet18"
MAX_NAMED = 6
DIGEST_LETTERS = 64


@dataclass(frozen=True)
class Remarks:
    """What is missing or failed, sets the task lacks, floored rows, notes of the methods, rows and data hashes."""

    failed: tuple[str, ...]
    never_run: tuple[str, ...]
    absent: tuple[str, ...]
    floored: tuple[str, ...]
    notes: tuple[str, ...]
    data: tuple[Fact, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say."""
        return not (self.failed or self.never_run or self.absent or self.floored or self.notes or self.data)


def group_warnings(group: Group) -> list[str]:
    """Return what a reader must know before any number: what is reduced, mixed or missing."""
    lines = []
    if limits := budget_limits(group.budget):
        lines.append(f"Reduced run ({limits}): these numbers are not comparable with a full run’s or the paper’s.")
    lines += [f"Features: {name}." for name in unusual_features(group)]
    mixed = instruction_sets(group.records.values())
    if len(mixed) > 1:
        shares = "; ".join(f"{n} {'cell' if n == 1 else 'cells'} on {name}" for name, n in mixed.items())
        lines.append(f"Instruction sets are mixed, and equal seeds give other numbers on each: {shares}.")
    versions = library_versions(group.records.values())
    if len(versions) > 1:
        shares = "; ".join(f"{n} {'cell' if n == 1 else 'cells'} with {name}" for name, n in versions.items())
        lines.append(f"Versions of libraries are mixed, and equal seeds may give other numbers with each: {shares}.")
    if climb := climb_sentence(group):
        lines.append(climb)
    if group.missing:
        lines.append(
            f"{len(group.missing)} of {len(group.planned)} cells are not finished; "
            "every mean is over the seeds that are. They are named below."
        )
    if len({seed for _, seed in group.records}) == 1:
        lines.append(
            "One seed: no standard deviations; tests are about new test rows, for own models as they are."
            if any(group.origin(method) == OWN for method in group.methods)
            else "One seed: no standard deviations and no tests."
        )
    return lines


def unusual_features(group: Group) -> list[str]:
    """Return the backbones of the features that the records rest on, where that is not the paper's."""
    found = {record.backbone for record in group.records.values() if record.backbone is not None}
    return sorted(found - {PAPER_BACKBONE})


def group_remarks(group: Group) -> Remarks:
    """Return what there is to say about the cells and the data of a group."""
    notes: dict[str, list[str]] = {}
    floored = []
    for (method, seed), record in group.records.items():
        for note in record.notes:
            notes.setdefault(note, []).append(f"{group.title(method)} ({seed})")
        for name, count in record.floored_rows.items():
            floored.append(
                f"{group.title(method)}, seed {seed}, {name}: {count} rows gave their true class a probability of 0 "
                "and were floored in NLL"
            )
    return Remarks(
        failed=tuple(f"{cell.label}: {message}" for cell, message in group.failures.items()),
        never_run=tuple(cell.label for cell in group.missing if cell not in group.failures),
        absent=tuple(_absent(group)),
        floored=tuple(floored),
        notes=tuple(f"{' '.join(note.split())} — {_names(who)}" for note, who in notes.items()),
        data=tuple(_data_facts(group)),
    )


def _absent(group: Group) -> list[str]:
    if group.table is None:
        return []
    words = []
    if not group.sets("ood"):
        words.append("The task has no OOD sets: no AUROC, FPR95 or score histograms.")
    if not group.sets("shift"):
        words.append("The task has no shifted test sets: no robustness table.")
    if not group.is_own and not any(group.is_ours(method) for method in group.methods):
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
        facts.append(Fact(name, " ".join([*words, *(["sha256"] if digest else [])]), digest))
    return facts
