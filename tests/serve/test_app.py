"""The service over real sockets: answers, feedback, refusals, metrics, the page."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tests.report.browser import run_page
from volta import VoltaClassifier
from volta.cli.main import app
from volta.serve.app import Settings

from .conftest import COLUMNS, Client, make_rows, served


def as_objects(rows):
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows.tolist()]


def test_decisions_are_those_of_the_classifier(client, model_path):
    rows, _ = make_rows(40, 1)
    found = client.decide(as_objects(rows))
    expected = VoltaClassifier.load(model_path).decide(pd.DataFrame(rows, columns=COLUMNS))
    assert [one["action"] for one in found] == [expected[k].action for k in range(40)]
    assert [one["label"] for one in found] == expected.label.tolist()
    assert [one["pvalue"] for one in found] == expected.pvalue.tolist()
    assert [tuple(one["set"]) for one in found] == [expected[k].classes for k in range(40)]
    assert len({one["id"] for one in found}) == 40
    assert client.decide(rows.tolist()) != found
    assert [one["pvalue"] for one in client.decide(rows.tolist())] == expected.pvalue.tolist()


def test_requests_that_come_together_get_the_answers_of_single_ones(client):
    rows, _ = make_rows(60, 2)
    alone = [client.decide([row])[0] for row in rows.tolist()]
    together = [None] * len(rows)

    def ask(k):
        together[k] = client.decide([rows[k].tolist()])[0]

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(len(rows))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in (*alone, *together):
        del one["id"]
    assert together == alone


def test_predict_adds_probabilities(client):
    row = make_rows(1, 3)[0].tolist()
    status, answer = client.post("/predict", {"rows": row})
    assert status == 200
    assert sum(answer["decisions"][0]["probabilities"].values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"length": 1.0, "width": 2.0}, "column 'weight' is missing"),
        ({"length": None, "width": 2.0, "weight": 3}, "column 'length' is missing"),
        ({"length": "tall", "width": 2.0, "weight": 3}, "column 'length' holds \"tall\", which is no number"),
        ([1.0, 2.0], "the row has 2 values, the model 3"),
        ([1.0, 2.0, 10**400], "column 'weight' is too large for a number"),
        ("oak", "a row is an object"),
    ],
)
def test_a_bad_row_abstains_and_the_others_are_answered(client, row, reason):
    good = make_rows(2, 4)[0].tolist()
    before = client.summary()["counts"]
    found = client.decide([good[0], row, good[1]])
    assert found[1]["action"] == "abstain"
    assert reason in found[1]["reason"]
    assert [one["label"] for one in (found[0], found[2])] == [client.decide([each])[0]["label"] for each in good]
    after = client.summary()["counts"]
    assert (after["rows"] - before["rows"], after["invalid"] - before["invalid"]) == (5, 1)


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "problem"),
    [
        ("/decide", b"{", {}, 400, "no JSON"),
        ("/decide", b"\xff\xfe", {}, 400, "no JSON"),
        ("/decide", b"[" * 100_000, {}, 400, "no JSON"),
        ("/decide", [], {}, 400, "send an object"),
        ("/decide", {"row": []}, {}, 400, "rows is missing"),
        ("/decide", {"rows": [[0]] * 501}, {}, 413, "at most 500"),
        ("/decide", b" " * 200_001, {}, 413, "larger than 200,000 bytes"),
        ("/decide", {"rows": []}, {"Content-Type": "text/plain"}, 415, "application/json"),
        ("/feedback", {"labels": {}}, {}, 400, "feedback is missing"),
        ("/nothing", {}, {}, 404, "Not Found"),
        ("/card", {}, {}, 405, "Method Not Allowed"),
    ],
)
def test_what_is_refused_says_why(client, path, body, headers, status, problem):
    found, answer = client.post(path, body, **headers)
    assert (found, problem in answer["error"]) == (status, True), answer


def test_feedback_is_kept_once(client):
    rows, labels = make_rows(5, 5)
    found = client.decide(rows.tolist())
    before = client.summary()["counts"]
    entries = [{"id": one["id"], "label": label} for one, label in zip(found, labels.tolist(), strict=True)]
    odd = [{"id": "AAAA", "label": "oak"}, {"id": found[0]["id"], "label": "elm"}, 7]
    status, answer = client.post("/feedback", {"feedback": [*entries, entries[0], *odd]})
    assert status == 200
    assert answer["accepted"] == 5
    assert answer["status"][:7] == ["accepted"] * 5 + ["known", "unknown id"]
    assert answer["status"][7].startswith("unknown label")
    assert client.post("/feedback", {"feedback": entries})[1]["accepted"] == 0
    after = client.summary()
    assert after["counts"]["feedback"] - before["feedback"] == 5
    assert after["guarantees"]["sets"]["n"] >= 5


def test_metrics_are_those_of_prometheus(client):
    client.decide(make_rows(3, 6)[0].tolist())
    from prometheus_client.parser import text_string_to_metric_families

    text = client.get("/metrics")[1]
    found = {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}
    assert found["volta_rows_total"] == client.summary()["counts"]["rows"]
    assert found["volta_rows_total"] == sum(found[f"volta_{name}_total"] for name in ("answers", "abstentions", "ood"))
    assert 'volta_request_seconds_bucket{le="0.001",path="decide"}' in text
    assert all(name.startswith("volta_") for name in found)
    assert 'volta_guarantee{guarantee="answers",volta_guarantee="holds"}' in text


def test_the_description_names_columns_and_classes(client):
    _, found = client.get("/openapi.json")
    rows = found["paths"]["/decide"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert rows["rows"]["items"]["anyOf"][1]["required"] == COLUMNS
    assert set(found["paths"]) >= {"/decide", "/predict", "/feedback", "/health", "/metrics", "/card", "/"}


def test_health_and_card(client):
    assert client.get("/health")[1]["status"] == "ok"
    status, page = client.get("/card")
    assert (status, "Model card: trees.safetensors" in page) == (200, True)


def test_a_token_is_asked_for_and_never_logged(model, model_path, tmp_path, caplog):
    with served(model, model_path, tmp_path / "state", Settings(token="geheim-7")) as client:
        assert client.get("/health")[0] == 200
        assert client.get("/")[0] == 200
        for headers in ({}, {"Authorization": "Bearer geheim-8"}, {"Authorization": "geheim-7"}):
            assert client.get("/state", **headers)[0] == 401
            assert client.post("/decide", {"rows": []}, **headers)[0] == 401
        assert client.post("/decide", {"rows": []}, Authorization="Bearer geheim-7") == (200, {"decisions": []})
        assert client.get("/openapi.json", Authorization="Bearer geheim-7")[1]["security"] == [{"token": []}]
    assert "geheim" not in caplog.text
    assert all(b"geheim" not in path.read_bytes() for path in (tmp_path / "state").iterdir())


def test_a_failure_is_logged_without_what_was_sent(model, model_path, tmp_path, caplog, monkeypatch):
    def fail(rows):
        raise ValueError(f"could not convert {rows!r}")

    with served(model, model_path, tmp_path / "state") as client:
        monkeypatch.setattr(model, "score", fail)
        status, answer = client.post("/decide", {"rows": [[1, 2, 31415926]]})
    assert (status, answer["error"]) == (500, "the service failed (ValueError); its log says more")
    assert "decide failed: ValueError" in caplog.text
    assert "31415926" not in caplog.text


def test_slow_and_half_sent_bodies_hold_nobody_up(model, model_path, tmp_path):
    with served(model, model_path, tmp_path / "state", Settings(body_seconds=0.3)) as client:
        silent = socket.create_connection(("127.0.0.1", client.port))
        head = b"POST /decide HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
        silent.sendall(head + b'{"rows": ')
        cut = socket.create_connection(("127.0.0.1", client.port))
        cut.sendall(head + b"{")
        cut.close()
        started = time.perf_counter()
        assert len(client.decide(make_rows(3, 7)[0].tolist())) == 3
        assert time.perf_counter() - started < 0.3
        assert silent.recv(100).startswith(b"HTTP/1.1 408")
        silent.close()
        assert client.summary()["counts"]["rows"] == 3


def test_a_disk_that_is_full_acknowledges_nothing(model, model_path, tmp_path):
    with served(model, model_path, tmp_path / "state") as client:
        found = client.decide(make_rows(1, 8)[0].tolist())
        feedback = {"feedback": [{"id": found[0]["id"], "label": "oak"}]}
        client.state.feedback._log.close()
        status, answer = client.post("/feedback", feedback)
        assert (status, "send it again" in answer["error"]) == (503, True)
        assert client.summary()["counts"]["feedback"] == 0
        list(client.state.feedback._log.read())
        assert client.post("/feedback", feedback)[1]["accepted"] == 1


@pytest.mark.parametrize(("width", "scheme"), [(390, 0), (1280, 1)])
def test_the_live_page_in_a_browser(client, tmp_path, width, scheme):
    rows, labels = make_rows(200, 9)
    found = client.decide((rows + np.array([3.0, 0.0, 0.0])).tolist())
    answers = [{"id": one["id"], "label": label} for one, label in zip(found, labels.tolist(), strict=True)]
    client.post("/feedback", {"feedback": answers})
    client.state.tick()
    address = f"http://127.0.0.1:{client.port}/"
    page = tmp_path / "page.html"
    page.write_text(client.get("/")[1].replace("<head>", f'<head><base href="{address}">', 1), encoding="utf-8")
    flags = ("--disable-web-security", f"--blink-settings=preferredColorScheme={scheme}")
    script = """
      while (!document.querySelector("#minutes rect")) await pause(50);
      return {
        wide: document.documentElement.scrollWidth, width: innerWidth, text: document.body.innerText,
        bars: document.querySelectorAll("#pvalues rect, #uncertainty rect").length,
        paper: getComputedStyle(document.body).backgroundColor,
        broken: [...document.querySelectorAll("svg *")].filter((node) =>
          [...node.attributes].some((a) => /NaN|undefined|Infinity/.test(a.value))).length,
      };
    """
    answer = run_page(page, script, tmp_path, width=width, flags=flags)
    assert answer["problems"] == []
    assert set(answer["requests"]) <= {f"{address}state"}
    value = answer["value"]
    assert value["wide"] <= value["width"] == width
    assert (value["bars"], value["broken"]) == (20, 0)
    assert value["paper"] == ("rgb(20, 23, 26)" if scheme == 0 else "rgb(255, 255, 255)")
    assert re.search(r"length\s+\+[\d.]+ SD", value["text"])
    assert "Alarm: the samples no longer look like the calibration set." in value["text"]


def test_the_live_page_asks_for_the_token_and_sends_it(model, model_path, tmp_path):
    with served(model, model_path, tmp_path / "state", Settings(token="geheim-7")) as client:
        address = f"http://127.0.0.1:{client.port}/"
        page = tmp_path / "page.html"
        page.write_text(client.get("/")[1].replace("<head>", f'<head><base href="{address}">', 1), encoding="utf-8")
        script = """
          while (!at("problem").textContent) await pause(50);
          const before = at("problem").textContent;
          at("token").value = "geheim-7";
          at("ask").requestSubmit();
          while (!document.querySelector("#counts dd")) await pause(50);
          return { before, asked: !at("ask").hidden, card: (await (await ask("card")).text()).includes("Model card") };
        """
        value = run_page(page, script, tmp_path, flags=("--disable-web-security",))["value"]
    assert "send Authorization" in value.pop("before")
    assert value == {"asked": False, "card": True}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["missing.safetensors"], "missing.safetensors, which does not exist; make one: volta fit"),
        (["MODEL", "--alpha", "2"], "--alpha is 2"),
        (["MODEL", "--webhook", "ftp://x"], "--webhook is no address"),
        (["MODEL", "--token-file", "none"], "--token-file is none, which does not exist"),
        (["MODEL", "--port", "TAKEN"], "cannot be listened on"),
    ],
)
def test_the_command_says_what_is_wrong(client, model_path, options, problem):
    words = [{"MODEL": str(model_path), "TAKEN": str(client.port)}.get(word, word) for word in options]
    done = CliRunner().invoke(app, ["serve", *words, *([] if "--port" in words else ["--port", "0"])])
    assert problem in str(done.exception)


@pytest.mark.slow  # starts the command in a process of its own, twice
def test_the_command_serves_and_survives_a_kill(model_path, tmp_path):
    rows, labels = make_rows(50, 10)
    command = [sys.executable, "-c", "from volta.cli import main; main()", "serve", model_path, "--port", "0"]
    counts = None
    for _ in range(2):
        process = subprocess.Popen([*command, "--state", tmp_path / "state"], stdout=subprocess.PIPE, text=True)
        client = Client(int(re.search(r"http://127.0.0.1:(\d+) ", process.stdout.readline())[1]), None)
        if counts is not None:
            assert client.get("/state")[1]["counts"] == counts
        found = client.decide(rows.tolist())
        entries = [{"id": one["id"], "label": label} for one, label in zip(found, labels.tolist(), strict=True)]
        assert client.post("/feedback", {"feedback": entries})[1]["accepted"] == 50
        time.sleep(1)
        counts = client.get("/state")[1]["counts"]
        process.kill()
        process.communicate()
