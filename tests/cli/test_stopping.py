"""Ctrl-C as a person presses it, wherever it arrives."""

from __future__ import annotations

import os
import signal

import pytest
import typer

from volta.cli.terminal import EXIT_INTERRUPTED, stoppable


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_ends_in_a_sentence(capsys):
    with pytest.raises(typer.Exit) as left, stoppable():
        press()
    assert left.value.exit_code == EXIT_INTERRUPTED
    assert "finished work is kept" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_swallows_is_remembered():
    class Swallows:
        def __del__(self):
            press()

    before = signal.getsignal(signal.SIGINT)
    with stoppable() as should_stop:
        assert not should_stop()
        thing = Swallows()
        del thing
        assert should_stop()
    assert signal.getsignal(signal.SIGINT) is before
