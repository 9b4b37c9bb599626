"""A process beside the caller's: what it answers, what it does when a call or the process fails."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from volta.core.processes import SecondProcess, SecondProcessError


def test_a_helper_answers_one_call_after_another():
    with SecondProcess() as helper:
        assert helper.call("builtins:sum", [1, 2, 3]) == 6
        assert helper.call("numpy:add", np.arange(3), 1).tolist() == [1, 2, 3]


def test_a_call_that_fails_says_why_and_the_helper_goes_on():
    with SecondProcess() as helper:
        with pytest.raises(SecondProcessError, match="ValueError: invalid literal for int"):
            helper.call("builtins:int", "x")
        assert helper.call("builtins:print", "said aloud") is None
        assert helper.call("builtins:int", "7") == 7


def test_a_helper_that_has_ended_says_so():
    with SecondProcess() as helper:
        with pytest.raises(SecondProcessError, match="has ended"):
            helper.call("os:_exit", 3)
        with pytest.raises(SecondProcessError, match="has ended"):
            helper.call("builtins:int", "7")


def test_a_script_without_a_guard_is_not_run_again(tmp_path):
    script = tmp_path / "plain.py"
    script.write_text(
        "print('begun')\nfrom volta.core.processes import SecondProcess\nwith SecondProcess() as h: print(h.call('builtins:int', '7'))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["begun", "7"]


def test_arguments_that_cannot_be_sent_and_a_closed_helper_are_errors_of_a_call(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path])  # a Path, as some scripts append
    with SecondProcess() as helper:
        with pytest.raises(SecondProcessError, match="cannot be sent"):
            helper.call("builtins:len", lambda: None)
        assert helper.call("builtins:int", "7") == 7
    with pytest.raises(SecondProcessError, match="has ended"):
        helper.call("builtins:int", "7")


def test_no_other_process_gets_an_end_of_the_pipes():
    """What goes through them is unpickled: a program that the caller starts meanwhile must not hold an end of one."""
    with SecondProcess() as helper:
        pipes = [helper._process.stdin.fileno(), helper._process.stdout.fileno()]
        assert not any(map(os.get_inheritable, pipes))
        if sys.platform.startswith("linux"):
            names = [os.readlink(f"/proc/self/fd/{pipe}") for pipe in pipes]
            said = subprocess.run(
                ["ls", "-l", "/proc/self/fd"], close_fds=False, check=True, capture_output=True, text=True
            ).stdout
            assert "pipe:" in said
            assert not any(name in said for name in names)
