"""What a service remembers: counts, monitor, feedback and events, in a folder that survives a kill at any time.

Counts and the monitor's scores are one line a quarter of a second; the monitor itself is written when those lines grow
long, and replays the rest when it is read. Labels are in the store of `volta.serve.feedback`.
"""

from __future__ import annotations

import math
import queue
import secrets
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volta.core.checksummed import FileKind, read_object, write_object
from volta.core.errors import StoreError, reason
from volta.core.files import lock_file
from volta.decisions import GuaranteeWatch, Monitor
from volta.decisions.conformal import Floats
from volta.decisions.decide import ACTIONS
from volta.serve.feedback import MOST_SET_CLASSES, Ids, LabelStore
from volta.serve.journal import LONGEST_LOG, REMEDY, Journal

TICK_SECONDS = 0.25
N_BINS = 10
MOST_MINUTES = 1440
DRIFT_ROWS = 1000
"""Drift of columns is a mean over about so many of the latest rows."""
LEAST_ROWS = 30


@dataclass(frozen=True)
class Tick:
    """What came since the last line: the counts so far, and the scores of ``n_before`` rows and of those after them."""

    counts: dict[str, int]
    uncertainty: list[int]
    pvalues: list[int]
    columns: bytes
    minutes: dict[int, list[int]]
    n_before: int
    scores: bytes


@dataclass
class Event:
    """Something to be told once: ``kind`` is ``monitor alarm`` or ``guarantee broken: NAME``."""

    kind: str
    at: float
    evidence: dict[str, Any]
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    delivered: bool = False


@dataclass(frozen=True)
class Service:
    """Whose folder this is: SHA-256 of the model, the key of ids, and how often a service began here."""

    model: str
    key: str
    run: int
    settings: dict[str, Any]


@dataclass(frozen=True)
class _Events:
    events: list[Event]


SERVICE_FILE = FileKind("service's identity", 1, REMEDY)
EVENTS_FILE = FileKind("list of a service's events", 1, REMEDY)


@dataclass(frozen=True, eq=False)
class Batch:
    """What one call of the model decided: arrays (n,), ``rows`` (n, d) where columns are watched."""

    actions: NDArray[np.intp]
    uncertainty: Floats
    pvalues: Floats
    scores: Floats
    rows: Floats | None


@dataclass(frozen=True, eq=False)
class ColumnRanges:
    """Where the training rows lie in each column: names, and arrays (d,) of centre, scale, smallest and largest."""

    names: tuple[str, ...]
    centre: Floats
    scale: Floats
    low: Floats
    high: Floats


COUNTS = ("rows", "answers", "abstentions", "ood", "invalid", "requests", "refused")


class State:
    """The memory of a service in ``folder``; one process at a time has it.

    ``settings``: what the guarantees depend on, such as alpha; other ones need another folder. ``max_error``: the
    largest error among answers that is watched, None for none; ``alpha``: that of sets; ``edges``: inner edges of ten
    bins of uncertainty that hold a tenth of the calibration rows each, None where not known.
    """

    def __init__(
        self,
        folder: Path,
        *,
        model: str,
        settings: dict[str, Any],
        edges: Floats | None,
        ranges: ColumnRanges | None,
        monitor: Callable[[], Monitor],
        max_error: float | None,
        alpha: float,
        n_classes: int,
        tell: Callable[[Event], None] | None = None,
    ) -> None:
        self.folder, self._edges, self._ranges, self._tell = folder, edges, ranges, tell
        # The key of the ids is in it.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder_lock = lock_file(folder, "lock")
        self._take_folder()
        try:
            service = self._begin(model, settings)
            self.ids = Ids(bytes.fromhex(service.key), service.run)
            self.counts = dict.fromkeys(COUNTS, 0)
            self.uncertainty_bins, self.pvalue_bins = [0] * N_BINS, [0] * N_BINS
            # Weight, then each column's mean deviation and share outside the training range, all decayed.
            self._columns = np.zeros(1 + 2 * len(ranges.names if ranges else ()))
            self.minutes: dict[int, list[int]] = {}
            self._monitor_path = folder / "monitor.safetensors"
            self.monitor = Monitor.load(self._monitor_path) if self._monitor_path.exists() else monitor()
            self._ticks = Journal(folder / "counts.log", Tick)
            self._replay(self._ticks.read())
            watches = {"sets": GuaranteeWatch(alpha)} if n_classes <= MOST_SET_CLASSES else {}
            if max_error is not None:
                watches["answers"] = GuaranteeWatch(max_error)
            self.feedback = LabelStore(folder, self.ids, watches)
            self._events_path = folder / "events.json"
            self.events = (
                read_object(self._events_path, EVENTS_FILE, _Events).events if self._events_path.exists() else []
            )
        except BaseException:
            self._folder_lock.release()
            raise
        self._lock, self._event_lock = threading.Lock(), threading.Lock()
        self.problem = ""
        """Why the folder cannot be written, empty where it can."""
        self._pending: list[Batch] = []
        self._unsaved: list[Floats] = []
        self._written = dict(self.counts)
        self._stop = threading.Event()
        self._queue: queue.SimpleQueue[tuple[list[tuple[str, int]], Future[list[str]]] | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=work, name=f"volta {name}", daemon=True)
            for name, work in (("keeper", self._keep), ("feedback", self._write_feedback), ("alerts", self._tell_all))
        ]
        for event in self.events:
            if not event.delivered:
                self._outbox.put(event)
        # A kill may have come between what happened and the note of it.
        self._note_events()
        for thread in self._threads:
            thread.start()

    def _take_folder(self) -> None:
        from filelock import Timeout

        try:
            self._folder_lock.acquire(timeout=0)
        except Timeout:
            raise StoreError(
                f"{self.folder} is in use by another service: two would count the same rows twice; stop it, or name "
                "another folder with --state"
            ) from None

    def _begin(self, model: str, settings: dict[str, Any]) -> Service:
        path = self.folder / "service.json"
        service = Service(model, secrets.token_hex(16), 0, settings)
        if path.exists():
            service = read_object(path, SERVICE_FILE, Service)
            if service.model != model:
                raise StoreError(
                    f"{self.folder} belongs to another model, SHA-256 {service.model[:12]}…, this one's is "
                    f"{model[:12]}…; name another folder with --state"
                )
            if service.settings != settings:
                raise StoreError(
                    f"{self.folder} was begun with {_words(service.settings)}, not {_words(settings)}; pass those, or "
                    "name another folder with --state"
                )
        service = Service(service.model, service.key, service.run + 1, settings)
        write_object(path, SERVICE_FILE, service)
        return service

    def note(self, batch: Batch | None, n_invalid: int = 0) -> None:
        """Take decisions into the counts; the monitor follows within a quarter of a second."""
        actions = () if batch is None else batch.actions
        answers, abstentions, ood = np.bincount(np.asarray(actions, np.intp), minlength=len(ACTIONS)).tolist()
        with self._lock:
            self._count(answers + abstentions + ood + n_invalid, answers, abstentions + n_invalid, ood, n_invalid)
            if batch is not None:
                self._pending.append(batch)

    def _count(self, rows: int, answers: int, abstentions: int, ood: int, invalid: int) -> None:
        for name, number in zip(COUNTS, (rows, answers, abstentions, ood, invalid), strict=False):
            self.counts[name] += number
        now = int(time.time() // 60)
        found = [answers, abstentions, ood, invalid]
        # Keys rise. Where the clock is set back, what was counted in minutes to come is added to this one.
        while self.minutes and next(reversed(self.minutes)) > now:
            found = [sum(pair) for pair in zip(found, self.minutes.popitem()[1], strict=True)]
        minute = self.minutes.setdefault(now, [0, 0, 0, 0])
        for place, number in enumerate(found):
            minute[place] += number
        while len(self.minutes) > MOST_MINUTES:
            del self.minutes[next(iter(self.minutes))]

    def count_request(self, refused: bool) -> None:
        """Count a request, and whether it was refused with a 4xx."""
        with self._lock:
            self.counts["requests"] += 1
            self.counts["refused"] += refused

    def label(self, labels: list[tuple[str, int]]) -> Future[list[str]]:
        """Keep labels (id, class number) for good; the future's result, when they are on disk, is a word for each."""
        future: Future[list[str]] = Future()
        self._queue.put((labels, future))
        return future

    def _keep(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            try:
                self.tick()
            except Exception as error:
                # The thread must live on, and /health say what is wrong.
                self.problem = reason(error)

    def tick(self) -> None:
        """Bring monitor, histograms and drift up to date, and write a line."""
        with self._lock:
            pending, self._pending = self._pending, []
            counts, minutes = dict(self.counts), {key: list(self.minutes[key]) for key in list(self.minutes)[-2:]}
        if pending:
            self._take(pending)
        scores = np.concatenate([*self._unsaved, np.empty(0)])
        if counts == self._written and not len(scores):
            return
        n_before = self.monitor.state.n - len(scores)
        line = self._line(counts, minutes, n_before, scores)
        try:
            if self._ticks.n_bytes > LONGEST_LOG:
                self.compact()
            else:
                self._ticks.append([line])
            self._unsaved, self._written, self.problem = [], counts, ""
        except OSError as error:
            self.problem = reason(error)

    def _take(self, pending: list[Batch]) -> None:
        scores = np.concatenate([batch.scores for batch in pending])
        self.monitor.update(scores)
        self._unsaved.append(scores)
        _add(self.pvalue_bins, np.concatenate([batch.pvalues for batch in pending]), np.arange(1, N_BINS) / N_BINS)
        if (edges := self._edges) is not None:
            _add(self.uncertainty_bins, np.concatenate([batch.uncertainty for batch in pending]), edges)
        rows = [batch.rows for batch in pending if batch.rows is not None]
        if rows and self._ranges is not None:
            self._columns = _drifted(self._columns, np.concatenate(rows), self._ranges)
        self._note_events()

    def _line(self, counts: dict[str, int], minutes: dict[int, list[int]], n_before: int, scores: Floats) -> Tick:
        return Tick(
            counts=counts,
            uncertainty=self.uncertainty_bins,
            pvalues=self.pvalue_bins,
            columns=self._columns.tobytes(),
            minutes=minutes,
            n_before=n_before,
            scores=scores.tobytes(),
        )

    def _replay(self, ticks: Iterator[Tick]) -> None:
        """Take over what lines say; their scores go to the monitor at once, which takes time by the call."""
        scores: list[Floats] = []
        n_rows = self.monitor.state.n
        for tick in ticks:
            self.counts = dict.fromkeys(COUNTS, 0) | tick.counts
            self.uncertainty_bins, self.pvalue_bins = tick.uncertainty, tick.pvalues
            self._columns = np.frombuffer(tick.columns).copy()
            if tick.minutes:
                first = next(iter(tick.minutes))
                self.minutes = {key: value for key, value in self.minutes.items() if key < first} | tick.minutes
            # The monitor may have been written later than this line.
            if tick.scores and tick.n_before >= n_rows:
                scores.append(np.frombuffer(tick.scores))
                n_rows += len(scores[-1])
        if scores:
            self.monitor.update(np.concatenate(scores))

    def compact(self) -> None:
        """Write the monitor as a whole, then one line in the place of all."""
        self.monitor.save(self._monitor_path)
        with self._lock:
            counts, minutes = dict(self.counts), {key: list(value) for key, value in self.minutes.items()}
        self._ticks.replace([self._line(counts, minutes, self.monitor.state.n, np.empty(0))])

    def _write_feedback(self) -> None:
        while (first := self._queue.get()) is not None:
            group, stop = [first], False
            while not self._queue.empty():
                if (one := self._queue.get()) is None:
                    stop = True
                    break
                group.append(one)
            self._answer(group)
            if stop:
                return

    def _answer(self, group: list[tuple[list[tuple[str, int]], Future[list[str]]]]) -> None:
        """Write the labels of several requests at once, then tell each what became of its own."""
        try:
            words = self.feedback.add([labels for labels, _ in group])
            self._note_events()
        except Exception as error:
            for _, future in group:
                future.set_exception(StoreError(f"feedback cannot be written ({reason(error)}); send it again later"))
            return
        for (_, future), said in zip(group, words, strict=True):
            future.set_result(said)

    def _note_events(self) -> None:
        """Add an event, once, for an alarm and for each guarantee that is broken."""
        with self._event_lock:
            found: list[tuple[str, dict[str, Any]]] = []
            if (state := self.monitor.state).alarm:
                evidence = {name: getattr(state, name) for name in ("n", "alarm_at", "alpha", "pvalue")}
                found.append(("monitor alarm", evidence | {"columns": self.drifting()[:5]}))
            found += [
                (f"guarantee broken: {name}", asdict(watch.state))
                for name, watch in self.feedback.watches.items()
                if watch.state.verdict == "broken"
            ]
            known = {event.kind for event in self.events}
            for kind, evidence in found:
                if kind not in known:
                    self.events.append(event := Event(kind, time.time(), evidence))
                    self._outbox.put(event)
        if any(kind not in known for kind, _ in found):
            self._save_events()

    def _save_events(self) -> None:
        try:
            with self._event_lock:
                write_object(self._events_path, EVENTS_FILE, _Events(self.events))
        except OSError as error:
            self.problem = reason(error)

    def _tell_all(self) -> None:
        while (event := self._outbox.get()) is not None:
            if self._tell is not None:
                self._tell(event)
            event.delivered = True
            self._save_events()

    def drifting(self) -> list[dict[str, Any]]:
        """Return each column's drift over the latest rows, the furthest first."""
        weight, names = self._columns[0], () if self._ranges is None else self._ranges.names
        if weight < LEAST_ROWS or not names:
            return []
        d = len(names)
        shift, outside = self._columns[1 : 1 + d] / weight, self._columns[1 + d :] / weight
        order = np.argsort(-np.maximum(np.abs(shift), 5 * outside), kind="stable")
        return [
            {
                "column": names[place],
                "shift": round(float(shift[place]), 3),
                "outside": round(float(outside[place]), 4),
            }
            for place in order.tolist()
        ]

    def summary(self) -> dict[str, Any]:
        """Return all that the live page shows, as plain values."""
        state = self.monitor.state
        with self._lock:
            counts, minutes = dict(self.counts), [[key, *value] for key, value in list(self.minutes.items())[-120:]]
            events = [asdict(event) for event in self.events[-20:]]
        return {
            "counts": counts | {"feedback": self.feedback.n, "errors": self.feedback.n_errors},
            "minutes": minutes,
            "uncertainty": self.uncertainty_bins if self._edges is not None else None,
            "pvalues": self.pvalue_bins,
            "columns": self.drifting()[:20],
            "monitor": {
                "rows": state.n,
                "alarm": state.alarm,
                "alarm_at": state.alarm_at,
                "alpha": state.alpha,
                "pvalue": state.pvalue,
                "log10_martingale": state.log_martingale / math.log(10),
            },
            "guarantees": {name: asdict(watch.state) for name, watch in self.feedback.watches.items()},
            "events": events,
            "problem": self.problem,
        }

    def close(self) -> None:
        """Write what there is and let go of the folder; a second call does nothing."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._queue.put(None)
        self._outbox.put(None)
        for thread in self._threads:
            thread.join(timeout=30)
        self.tick()
        with ExitStack() as closing:
            closing.callback(self._folder_lock.release)
            closing.callback(self.feedback.close)
            closing.callback(self._ticks.close)
            # Where there is no room, the lines are enough.
            with suppress(OSError):
                self.compact()


def _words(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _add(bins: list[int], values: Floats, edges: Floats) -> None:
    for place, number in enumerate(np.bincount(edges.searchsorted(values), minlength=N_BINS).tolist()):
        bins[place] += number


def _drifted(sums: Floats, rows: Floats, ranges: ColumnRanges) -> Floats:
    """Add rows to decayed sums, the latest with the most weight; deviations count up to four."""
    kept = (1 - 1 / DRIFT_ROWS) ** np.arange(len(rows) - 1, -1, -1)
    deviation = np.clip((rows - ranges.centre) / ranges.scale, -4, 4)
    outside = (rows < ranges.low) | (rows > ranges.high)
    new = np.concatenate([[kept.sum()], kept @ deviation, kept @ outside])
    return np.asarray(sums * (1 - 1 / DRIFT_ROWS) ** len(rows) + new)


N_TRIES = 3
CALL_SECONDS = 10.0


def teller(webhook: str | None, command: str | None, log: Callable[[str], None]) -> Callable[[Event], None]:
    """Return what tells an event: POST it as JSON to an address, or give it to a command on standard input.

    Each is tried three times. What fails is logged without the address, which may hold a secret.
    """

    def tell(event: Event) -> None:
        data = msgspec.json.encode({"kind": event.kind, "at": event.at, "id": event.id, "evidence": event.evidence})
        for name, target, call in (("webhook", webhook, _post), ("command", command, _run)):
            for n_tries in range(N_TRIES if target else 0):
                try:
                    call(str(target), data)
                    break
                except Exception as error:
                    log(f"alert by {name} failed, try {n_tries + 1} of {N_TRIES}: {type(error).__name__}")
                    time.sleep(0.2 * 4**n_tries)

    return tell


def _post(address: str, data: bytes) -> None:
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:  # noqa: S310
        answer.read(1024)


def _run(command: str, data: bytes) -> None:
    # The user's own command line, as typed.
    subprocess.run(command, shell=True, input=data, timeout=3 * CALL_SECONDS, check=True)  # noqa: S602
