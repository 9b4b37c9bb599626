"""Labels that come later: ids that say what was decided, and a store in which each label counts once."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.checksummed import FileKind, read_arrays, write_arrays
from volta.core.types import Array
from volta.decisions import GuaranteeWatch
from volta.decisions.decide import ACTIONS
from volta.serve.journal import LONGEST_LOG, REMEDY, Journal

MOST_SET_CLASSES = 64
"""Sets of up to so many classes are in a decision's id, so that feedback can tell whether they held the class."""
NOT_A_CLASS = -1

_ID = struct.Struct(">IHIBIQ")
_UNUSABLE = len(ACTIONS)
_NO_SET = (1 << MOST_SET_CLASSES) - 1


@dataclass(frozen=True)
class Issued:
    """What a decision's id says: when it was made, what was decided, the class and the prediction set."""

    run: int
    number: int
    action: int
    label: int
    members: int

    def holds(self, label: int) -> bool:
        """Whether the prediction set held a class."""
        return label != NOT_A_CLASS and bool(self.members >> (MOST_SET_CLASSES - 1 - label) & 1)


class Ids:
    """Makes ids of decisions that carry what feedback needs, so that none has to be stored; no one else can make one.

    An id is 23 bytes of numbers and 7 of a keyed hash, in base64.
    """

    def __init__(self, key: bytes, run: int) -> None:
        self._key, self._run, self._next = key, run, 0

    def issue(self, actions: NDArray[Any], labels: NDArray[Any], sets: NDArray[np.bool_] | None) -> list[str]:
        """Return an id for each decision."""
        members = np.full(len(actions), _NO_SET, dtype=np.uint64)
        if sets is not None and sets.shape[1] <= MOST_SET_CLASSES:
            padded = np.zeros((len(sets), MOST_SET_CLASSES), dtype=np.bool_)
            padded[:, : sets.shape[1]] = sets
            members = np.packbits(padded, axis=1).view(">u8").ravel()
        first, self._next = self._next, self._next + len(actions)
        found = []
        for number, (action, label, held) in enumerate(
            zip(actions.tolist(), labels.tolist(), members.tolist(), strict=True), first
        ):
            body = _ID.pack(self._run, number >> 32, number & 0xFFFFFFFF, action, label, held)
            found.append(base64.urlsafe_b64encode(body + self._sign(body)).decode())
        return found

    def issue_unusable(self, n_rows: int) -> list[str]:
        """Return an id for each row that could not be decided; its label counts for no guarantee."""
        return self.issue(np.full(n_rows, _UNUSABLE), np.zeros(n_rows, dtype=np.intp), None)

    def read(self, text: object) -> Issued | None:
        """Return what an id says, or None where this service did not give it."""
        try:
            data = base64.urlsafe_b64decode(text.encode()) if isinstance(text, str) else b""
        except ValueError:
            return None
        body = data[: _ID.size]
        if len(data) != _ID.size + 7 or not hmac.compare_digest(data[_ID.size :], self._sign(body)):
            return None
        run, high, low, action, label, members = _ID.unpack(body)
        return Issued(run, high << 32 | low, action, label, members)

    def _sign(self, body: bytes) -> bytes:
        return hashlib.blake2b(body, key=self._key, digest_size=7).digest()


@dataclass(frozen=True)
class Feedback:
    """One label that came later; ``label`` is a class's number, or -1 where the sample is of no class."""

    id: str
    label: int


FEEDBACK_FILE = FileKind("list of labelled decisions", 1, REMEDY, max_bytes=1 << 36)


@dataclass(frozen=True)
class _Totals:
    n: int
    n_errors: int


class LabelStore:
    """Labels of a service: on disk before they are acknowledged, each decision's once, and counted for the guarantees.

    ``feedback.log`` has a line for each label; where it grows long, what all lines come to is written to
    ``feedback.safetensors``, and the log begins again. A kill between the two leaves lines that the file counts
    already: its bits, one for each decision of a run, say so. ``n`` labels came, ``n_errors`` answers were wrong;
    ``watches``: the guarantees by name.
    """

    def __init__(self, folder: Path, ids: Ids, watches: dict[str, GuaranteeWatch]) -> None:
        self.ids, self.watches = ids, watches
        self.n = self.n_errors = 0
        self._bits: dict[int, bytearray] = {}
        self._path, self._log = folder / "feedback.safetensors", Journal(folder / "feedback.log", Feedback)
        if self._path.exists():
            self._restore()
        read = ((ids.read(line.id), line.label) for line in self._log.read())
        self._learn([(issued, label) for issued, label in read if issued and not self._is_labelled(issued)])

    def add(self, requests: Sequence[Sequence[tuple[str, int]]]) -> list[list[str]]:
        """Write the labels (id, class number) of several requests with one sync; return a word for each label."""
        taken: set[tuple[int, int]] = set()
        found: list[tuple[Issued, int]] = []
        lines: list[Feedback] = []
        words: list[list[str]] = []
        for labels in requests:
            words.append([])
            for text, label in labels:
                issued = self.ids.read(text)
                if issued is None:
                    words[-1].append("unknown id")
                elif (issued.run, issued.number) in taken or self._is_labelled(issued):
                    words[-1].append("known")
                else:
                    taken.add((issued.run, issued.number))
                    found.append((issued, label))
                    lines.append(Feedback(text, label))
                    words[-1].append("accepted")
        if lines:
            self._log.append(lines)
            self._learn(found)
        if self._log.n_bytes > LONGEST_LOG:
            self.compact()
        return words

    def _is_labelled(self, issued: Issued) -> bool:
        bits = self._bits.get(issued.run, b"")
        place, bit = divmod(issued.number, 8)
        return place < len(bits) and bool(bits[place] >> bit & 1)

    def _learn(self, labels: Sequence[tuple[Issued, int]]) -> None:
        """Take labels into the guarantees, in order."""
        covered, correct = [], []
        for issued, label in labels:
            bits = self._bits.setdefault(issued.run, bytearray())
            place, bit = divmod(issued.number, 8)
            if place >= len(bits):
                bits.extend(bytes(place + 1 - len(bits) + len(bits) // 8))
            bits[place] |= 1 << bit
            self.n += 1
            if issued.action == _UNUSABLE:
                continue
            covered.append(issued.holds(label))
            if issued.action == ACTIONS.index("answer"):
                correct.append(issued.label == label)
        self.n_errors += correct.count(False)
        for name, held in (("sets", covered), ("answers", correct)):
            if name in self.watches and held:
                self.watches[name].update(np.array(held))

    def compact(self) -> None:
        """Write what all labels come to as one file, then begin the log again; where there is no room, it grows."""
        arrays: dict[str, Array] = {
            f"run {run}": np.frombuffer(bytes(bits), np.uint8) for run, bits in self._bits.items()
        }
        arrays |= {f"watch {name}": watch.to_array() for name, watch in self.watches.items()}
        with contextlib.suppress(OSError):
            write_arrays(self._path, FEEDBACK_FILE, arrays, {"n": self.n, "n_errors": self.n_errors})
            self._log.replace([])

    def _restore(self) -> None:
        totals, arrays = read_arrays(self._path, FEEDBACK_FILE, _Totals)
        with FEEDBACK_FILE.parsing(self._path):
            self.n, self.n_errors = totals.n, totals.n_errors
            for name, watch in self.watches.items():
                watch.restore(arrays.pop(f"watch {name}"))
            self._bits = {int(name.removeprefix("run ")): bytearray(bits) for name, bits in arrays.items()}

    def close(self) -> None:
        """Fold the log, and close it."""
        if self._log.n_bytes:
            self.compact()
        self._log.close()
