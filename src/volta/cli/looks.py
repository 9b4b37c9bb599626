"""``volta bench --decide``: seeds are added in declared looks until every question is decided or the cap is reached."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from volta.bench.config import RunConfig
from volta.bench.progress import format_seconds
from volta.bench.runner import RunSummary
from volta.bench.store import RunStore
from volta.core.errors import InputError
from volta.core.seeding import first_seeds
from volta.report.looks import read_looks, write_looks
from volta.stats import LOOKS, LookReport, Question, alpha_at, decide

Judge = Callable[[Sequence[int], float], list[Question]]
"""(seeds, level) → every question, judged on those seeds at that level."""


def looks_up_to(cap: int, looks: Sequence[int] = LOOKS) -> tuple[int, ...]:
    """Return the looks below ``cap``, and one at it.

    >>> looks_up_to(40), looks_up_to(12)
    ((5, 10, 20, 40), (5, 10, 12))
    """
    if cap < 2:
        raise InputError(f"--cap is {cap}; pass how many seeds a method may have at most, at least 2")
    return (*(look for look in looks if look < cap), cap)


def run_until_decided(
    config: RunConfig,
    store: RunStore,
    looks: Sequence[int],
    run_cells: Callable[[RunConfig], RunSummary],
    judge: Judge,
    say: Callable[[str], object],
) -> RunSummary:
    """Run ``config``'s methods at each look until ``judge`` leaves nothing open; return how all of it ended.

    Each look goes on with the methods that open questions need, the cheapest first. Verdicts rest on the seeds of their
    look alone, whatever more the folder holds, so that a run that was interrupted goes on to the same ones. Looks are
    declared once for a folder: with others the error would be spent again on seeds that were looked at before.
    """
    stored = read_looks(store)
    if stored is not None and stored.looks != tuple(looks):
        raise InputError(
            f"--cap asks for looks at {_listed(looks)} seeds, but those declared for {store.root} are "
            f"{_listed(stored.looks)}, and the errors they allow are spent; go on with --cap {stored.looks[-1]}, or "
            "decide anew, on other seeds or rows, in another --out"
        )
    given = {question.key: question for question in stored.decided} if stored is not None else {}
    earlier: LookReport | None = None
    names = config.methods
    total = RunSummary(0, 0, 0)
    for n_seeds in looks:
        seeds = first_seeds(n_seeds)
        done = run_cells(replace(config, methods=names, seeds=seeds))
        total = RunSummary(
            max(total.n_cells, done.n_cells), total.n_run + done.n_run, max(total.n_failed, done.n_failed)
        )
        questions = judge(seeds, alpha_at(n_seeds, looks))
        if not questions:
            raise InputError(
                "there is nothing to decide: run volta or another --reference together with methods to compare it with"
            )
        questions = [_as_given(question, given, n_seeds) for question in questions]
        earlier = decide(questions, earlier, n_seeds, looks, seconds=seconds_of(store))
        write_looks(store, looks, earlier)
        for line in look_lines(earlier):
            say(line)
        if earlier.finished:
            break
        names = tuple(name for name in earlier.methods if name in config.methods) or names
    return total


def _as_given(question: Question, given: Mapping[str, Question], n_seeds: int) -> Question:
    """Return a question as an earlier call left it: with its verdict from the look that gave it, and open before."""
    stored = given.get(question.key)
    if stored is None:
        return question
    return stored if stored.n_seeds <= n_seeds else replace(question, verdict="")


def _listed(looks: Sequence[int]) -> str:
    return ", ".join(map(str, looks))


def seconds_of(store: RunStore) -> dict[str, float]:
    """Return method → the median seconds of its finished cells."""
    found: dict[str, list[float]] = {}
    for record in store.records():
        found.setdefault(record.cell.method, []).append(record.wall_s)
    return {method: statistics.median(values) for method, values in found.items()}


def look_lines(look: LookReport) -> list[str]:
    """Return what a look says: what is decided, what is not, and what that would cost."""
    n_all = len(look.decided) + len(look.open)
    lines = [f"look at {look.n_seeds} seeds, tests at level {look.alpha:.4f}: {len(look.decided)} of {n_all} decided"]
    lines += [f"  decided  {one.key}: {one.verdict} (at {one.n_seeds} seeds)" for one in look.decided]
    for one in look.open:
        cost = look.cost_s.get(one.key)
        words = "" if cost is None else f"; the next look costs about {format_seconds(cost)} on one worker"
        needed = "" if one.seeds_needed is None else f"; about {one.seeds_needed} seeds should decide it"
        lines.append(f"  open     {one.key}{needed}{words}")
    if look.open and look.next_look is None:
        lines.append(f"the cap of {look.n_seeds} seeds is reached; what is open stays open")
    elif look.open:
        lines.append(f"going on to {look.next_look} seeds with {len(look.methods)} methods: {', '.join(look.methods)}")
    return lines
