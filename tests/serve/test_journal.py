"""A journal's lines after a kill, and after damage."""

from __future__ import annotations

import pytest

from volta.core.errors import StoreError
from volta.serve.feedback import Feedback
from volta.serve.journal import Journal


def test_a_journal_drops_a_last_line_that_was_cut_off(tmp_path):
    journal = Journal(tmp_path / "log", Feedback)
    assert list(journal.read()) == []
    journal.append([Feedback("a", 1), Feedback("b", 2)])
    journal.append([Feedback("é", -1)])
    journal.close()
    whole = (tmp_path / "log").read_bytes()
    for n_bytes in range(len(whole)):
        (tmp_path / "log").write_bytes(whole[:n_bytes])
        journal = Journal(tmp_path / "log", Feedback)
        kept = list(journal.read())
        assert len(kept) == whole[:n_bytes].count(b"\n")
        journal.append([Feedback("c", 3)])
        journal.close()
        assert list(Journal(tmp_path / "log", Feedback).read()) == [*kept, Feedback("c", 3)]


def test_a_journal_that_was_damaged_in_the_middle_is_refused(tmp_path):
    journal = Journal(tmp_path / "log", Feedback)
    list(journal.read())
    journal.append([Feedback("a", 1), Feedback("b", 2)])
    journal.close()
    data = bytearray((tmp_path / "log").read_bytes())
    data[15] ^= 1
    (tmp_path / "log").write_bytes(data)
    with pytest.raises(StoreError, match="damaged in line 1; restore the folder"):
        list(Journal(tmp_path / "log", Feedback).read())
