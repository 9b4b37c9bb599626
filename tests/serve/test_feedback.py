"""Ids, and labels that are kept once, whatever is killed when."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

from volta.core.errors import StoreError
from volta.decisions import GuaranteeWatch
from volta.serve import feedback as module
from volta.serve.feedback import Ids, LabelStore


def test_an_id_says_what_was_decided_and_cannot_be_made_up():
    ids = Ids(b"k" * 16, 7)
    sets = np.array([[True, False, True], [False, True, False]])
    names = ids.issue(np.array([0, 2]), np.array([2, 1]), sets)
    first, second = (ids.read(name) for name in names)
    assert (first.run, first.number, first.action, first.label) == (7, 0, 0, 2)
    assert [first.holds(label) for label in (0, 1, 2, -1)] == [True, False, True, False]
    assert (second.number, second.action, [second.holds(label) for label in range(3)]) == (1, 2, [False, True, False])
    assert Ids(b"j" * 16, 7).read(names[0]) is None
    for text in ("", "é", names[0][:-4], "B" + names[0][1:], 5):
        assert ids.read(text) is None


def make_store(folder, run=1):
    folder.mkdir(exist_ok=True)
    return LabelStore(folder, Ids(b"k" * 16, run), {"sets": GuaranteeWatch(0.1), "answers": GuaranteeWatch(0.05)})


def issue(store, n_rows):
    sets = np.eye(3, dtype=bool)[np.arange(n_rows) % 3]
    return store.ids.issue(np.arange(n_rows) % 2, np.arange(n_rows) % 3, sets)


def known(store):
    return store.n, store.n_errors, {name: watch.state for name, watch in store.watches.items()}


def test_a_long_log_is_folded_and_no_label_counts_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LONGEST_LOG", 2000)
    folded, plain = make_store(tmp_path / "folded"), make_store(tmp_path / "plain")
    names = issue(folded, 300)
    for start in range(0, 300, 10):
        labels = [(name, start % 3) for name in names[start : start + 10]]
        assert folded.add([labels]) == [["accepted"] * 10]
        assert (tmp_path / "folded" / "feedback.log").stat().st_size < 2000 + 10 * 70
        monkeypatch.setattr(module, "LONGEST_LOG", 1 << 24)
        plain.add([labels])
        monkeypatch.setattr(module, "LONGEST_LOG", 2000)
    assert known(folded) == known(plain)
    again = make_store(tmp_path / "folded", run=2)
    assert known(again) == known(plain)
    assert again.add([[(name, 0) for name in names]]) == [["known"] * 300]
    assert again.add([[(name, 0) for name in issue(again, 40)]]) == [["accepted"] * 40]
    again.close()
    assert (tmp_path / "folded" / "feedback.log").stat().st_size == 0
    later = make_store(tmp_path / "folded", run=3)
    assert later.n == 340
    assert later.add([[(names[0], 0)]]) == [["known"]]
    for store in (folded, plain, later):
        store.close()


def test_a_kill_between_the_file_and_the_new_log_counts_no_label_twice(tmp_path):
    store = make_store(tmp_path / "a")
    names = issue(store, 60)
    store.add([[(name, 0) for name in names[:50]]])
    shutil.copy(tmp_path / "a" / "feedback.log", tmp_path / "log")
    store.compact()
    expected = known(store)
    store.close()
    shutil.copy(tmp_path / "log", tmp_path / "a" / "feedback.log")
    again = make_store(tmp_path / "a")
    assert known(again) == expected
    assert again.add([[(name, 0) for name in names]]) == [["known"] * 50 + ["accepted"] * 10]
    again.close()


def test_a_log_that_cannot_be_folded_grows_and_labels_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LONGEST_LOG", 100)
    store = make_store(tmp_path)
    (tmp_path / "feedback.safetensors").mkdir()
    names = issue(store, 20)
    assert store.add([[(name, 0) for name in names]]) == [["accepted"] * 20]
    (tmp_path / "feedback.safetensors").rmdir()
    again = make_store(tmp_path, run=2)
    assert known(again) == known(store)
    store.close()
    again.close()


def test_a_damaged_file_is_refused(tmp_path):
    store = make_store(tmp_path)
    store.add([[(name, 0) for name in issue(store, 20)]])
    store.close()
    path = tmp_path / "feedback.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match="altered or damaged"):
        make_store(tmp_path)


_ADD = """
import sys
from pathlib import Path
from tests.serve import test_feedback as here
here.module.LONGEST_LOG = 2000
store = here.make_store(Path(sys.argv[1]), run=int(sys.argv[2]))
print(store.n, flush=True)
for n_added in range(10, 100_000, 10):
    store.add([[(name, 0) for name in here.issue(store, 10)]])
    print(n_added, flush=True)
"""


@pytest.mark.slow  # starts and kills processes
def test_no_acknowledged_label_is_lost_over_kills_while_logs_are_folded(tmp_path):
    n_kept, n_least = 0, 0
    for run in range(1, 8):
        command = [sys.executable, "-c", _ADD, tmp_path / "store", str(run)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            n_kept = int(process.stdout.readline())
            assert n_least <= n_kept <= n_least + 10
            time.sleep(random.Random(run).uniform(0.1, 0.5))
            process.kill()
            lines = process.stdout.read().split("\n")
        n_least = n_kept + (int(lines[-2]) if len(lines) > 1 else 0)
    assert n_least > 300
    assert (tmp_path / "store" / "feedback.log").stat().st_size < 4000
