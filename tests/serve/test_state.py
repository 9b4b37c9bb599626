"""What survives: counts, the monitor, events; and who may have the folder."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
import pytest

from volta.core.errors import StoreError
from volta.serve import state as module
from volta.serve.state import Batch, teller

from .conftest import make_rows, open_state


def take(state, model, rows):
    scores = model.score(rows)
    found = scores.decisions
    state.note(Batch(found.action, found.uncertainty, found.pvalue, scores.monitor, rows))
    return state.ids.issue(found.action, scores.probs.argmax(axis=1), found.sets)


def test_all_is_there_after_a_kill(model, tmp_path):
    rows, labels = make_rows(300, 1)
    state = open_state(tmp_path / "a", model)
    names = []
    for piece in np.split(rows, 10):
        names += take(state, model, piece)
        state.tick()
    given = [(name, int(np.searchsorted(model.classes, label))) for name, label in zip(names, labels, strict=True)]
    assert state.label(given).result(10) == ["accepted"] * 300
    expected = state.summary()
    # What a kill leaves is what is on disk now; the copy's lock is free.
    copy = tmp_path / "b"
    copy.mkdir()
    for path in (tmp_path / "a").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    state.close()
    again = open_state(copy, model)
    assert again.summary() == expected
    assert again.label(given[:3]).result(10) == ["known"] * 3
    assert take(again, model, rows[:1])[0] not in names
    again.close()
    closed = open_state(tmp_path / "a", model)
    assert closed.summary() == expected
    single = model.monitor(alpha=0.01, block=1)
    single.update(model.score(rows).monitor)
    more = model.score(make_rows(50, 2)[0]).monitor
    assert closed.monitor.update(more).log_martingale == single.update(more).log_martingale
    closed.close()


def test_long_logs_are_written_anew(model, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LONGEST_LOG", 5000)
    rows, _ = make_rows(400, 2)
    state = open_state(tmp_path / "state", model)
    for piece in np.split(rows, 20):
        take(state, model, piece)
        state.tick()
        assert state._ticks.n_bytes < 8000
    expected = state.summary()
    # A kill between the monitor's file and the line that follows it: the lines' scores are in the monitor already.
    state.monitor.save(tmp_path / "state" / "monitor.safetensors")
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in (tmp_path / "state").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    state.close()
    again = open_state(copy, model)
    assert again.summary() == expected
    again.close()


def test_a_folder_has_one_service_one_model_and_one_guarantee(model, tmp_path):
    state = open_state(tmp_path / "state", model)
    with pytest.raises(StoreError, match="in use by another service"):
        open_state(tmp_path / "state", model)
    state.close()
    with pytest.raises(StoreError, match="belongs to another model"):
        open_state(tmp_path / "state", model, digest="b" * 64)
    with pytest.raises(StoreError, match=r"begun with alpha 0.1, not alpha 0.2"):
        open_state(tmp_path / "state", model, settings={"alpha": 0.2})
    open_state(tmp_path / "state", model).close()


def test_a_clock_that_jumps_and_is_set_back_loses_nothing(model, tmp_path, monkeypatch):
    state = open_state(tmp_path / "state", model)
    rows, _ = make_rows(30, 3)

    def minutes():
        return [(minute, sum(counts[:3])) for minute, counts in state.minutes.items()]

    for clock in (5_999_940.0, 6_000_000.0, 9_000_000.0):
        monkeypatch.setattr(module.time, "time", lambda clock=clock: clock)
        take(state, model, rows)
        state.tick()
    assert minutes() == [(99_999, 30), (100_000, 30), (150_000, 30)]
    for clock in (6_000_001.0, 6_000_061.0):
        monkeypatch.setattr(module.time, "time", lambda clock=clock: clock)
        take(state, model, rows)
        state.tick()
    assert minutes() == [(99_999, 30), (100_000, 90), (100_001, 30)]
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in (tmp_path / "state").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    state.close()
    for folder in (copy, tmp_path / "state"):
        state = open_state(folder, model)
        assert minutes() == [(99_999, 30), (100_000, 90), (100_001, 30)]
        state.close()


def test_a_tick_that_fails_is_told_and_the_next_one_comes(model, tmp_path, monkeypatch):
    state = open_state(tmp_path / "state", model)
    monkeypatch.setattr(state, "tick", lambda: 1 / 0)
    time.sleep(2 * module.TICK_SECONDS)
    assert "division by zero" in state.problem
    monkeypatch.undo()
    take(state, model, make_rows(30, 3)[0])
    time.sleep(2 * module.TICK_SECONDS)
    assert (state.problem, state.monitor.state.n) == ("", 30)
    state.close()


def test_an_alarm_is_told_once_also_after_a_restart(model, tmp_path):
    told = []
    rows, _ = make_rows(200, 4)
    for _ in range(2):
        state = open_state(tmp_path / "state", model, tell=told.append)
        for piece in np.split(rows + np.array([5.0, 0.0, 0.0]), 4):
            names = take(state, model, piece)
            state.tick()
        state.label([(name, -1) for name in names]).result(10)
        state.close()
    kinds = [event.kind for event in told]
    assert sorted(kinds) == ["guarantee broken: answers", "guarantee broken: sets", "monitor alarm"]
    evidence = next(event.evidence for event in told if event.kind == "monitor alarm")
    assert evidence["columns"][0]["column"] == "length"
    assert evidence["pvalue"] <= 0.01


def test_an_alarm_that_was_not_told_is_told_after_a_restart(model, tmp_path):
    state = open_state(tmp_path / "state", model)
    take(state, model, make_rows(200, 4)[0] + np.array([5.0, 0.0, 0.0]))
    state.tick()
    state.close()
    (tmp_path / "state" / "events.json").unlink()
    told = []
    open_state(tmp_path / "state", model, tell=told.append).close()
    assert [event.kind for event in told] == ["monitor alarm"]


def test_alerts_reach_a_webhook_and_a_command(tmp_path):
    from http.server import BaseHTTPRequestHandler, HTTPServer

    got = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200 if len(got) > 1 else 500)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    said = []
    address = f"http://127.0.0.1:{server.server_port}/?key=geheim"
    event = module.Event("monitor alarm", 1.0, {"pvalue": 0.001})
    teller(address, f"cat > {tmp_path / 'told.json'}", said.append)(event)
    server.shutdown()
    server.server_close()
    thread.join()
    # The first try fails, the second does not; the address is in no log.
    assert [one["kind"] for one in got] == ["monitor alarm"] * 2
    assert said == ["alert by webhook failed, try 1 of 3: HTTPError"]
    assert json.loads((tmp_path / "told.json").read_text())["id"] == event.id


def test_counts_of_a_folder_that_cannot_be_written_come_later(model, tmp_path):
    state = open_state(tmp_path / "state", model)
    take(state, model, make_rows(30, 5)[0])
    state._ticks.close()
    state.tick()
    assert "closed" in state.summary()["problem"]
    list(state._ticks.read())
    state.tick()
    assert state.summary()["problem"] == ""
    expected = state.summary()
    state.close()
    again = open_state(tmp_path / "state", model)
    assert again.summary() == expected
    again.close()
