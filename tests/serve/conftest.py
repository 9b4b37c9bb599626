"""A model of three classes and its service, in this process, at a free port of 127.0.0.1."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import uvicorn

from volta import VoltaClassifier
from volta.serve.app import Settings, build_app
from volta.serve.models import ServedModel, load_served
from volta.serve.state import State

COLUMNS = ["length", "width", "weight"]
CLASSES = np.array(["ash", "birch", "oak"])


def make_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    numbers = draw.integers(3, size=n_rows)
    centres = np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 1000.0], [0.0, 3.0, -1000.0]])
    return centres[numbers] + draw.normal(size=(n_rows, 3)) * (1.0, 1.0, 500.0), CLASSES[numbers]


@pytest.fixture(scope="session")
def model_path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "trees.safetensors"
    rows, labels = make_rows(400, 0)
    classifier = VoltaClassifier("linear").fit(pd.DataFrame(rows, columns=COLUMNS), labels)
    classifier.fit_policy(max_error=0.1)
    classifier.save(path)
    return path


@pytest.fixture(scope="session")
def model(model_path) -> ServedModel:
    return load_served(model_path)


def open_state(folder: Path, model: ServedModel, *, digest: str = "a" * 64, **options) -> State:
    settings = {
        "model": digest,
        "settings": {"alpha": 0.1},
        "edges": model.edges,
        "ranges": model.ranges,
        "monitor": lambda: model.monitor(alpha=0.01, block=1),
        "max_error": 0.1,
        "alpha": 0.1,
        "n_classes": len(model.classes),
    }
    return State(folder, **settings | options)


@dataclass(frozen=True)
class Client:
    """Requests to a service; answers are a status and JSON."""

    port: int
    state: State

    def post(self, path: str, body: object, **headers: str):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", path, data, {"Content-Type": "application/json"} | headers)

    def get(self, path: str, **headers: str):
        return self.request("GET", path, None, headers)

    def request(self, method, path, data, headers):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        line.request(method, path, data, headers)
        answer = line.getresponse()
        text = answer.read().decode()
        line.close()
        is_json = answer.headers["content-type"].startswith("application/json")
        return answer.status, json.loads(text) if is_json else text

    def decide(self, rows) -> list[dict]:
        status, answer = self.post("/decide", {"rows": rows})
        assert status == 200, answer
        return answer["decisions"]

    def summary(self) -> dict:
        self.state.tick()
        return self.get("/state")[1]


@contextmanager
def served(model: ServedModel, path: Path, folder: Path, settings: Settings = Settings(), **options):  # noqa: B008
    """Give a client of a service that runs in a thread; it ends with the block."""
    state = open_state(folder, model, **options)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(build_app(model, state, settings, path), log_level="error"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.005)
        yield Client(listener.getsockname()[1], state)
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()
        state.close()


@pytest.fixture(scope="module")
def client(model, model_path, tmp_path_factory):
    with served(
        model, model_path, tmp_path_factory.mktemp("state"), Settings(max_rows=500, max_bytes=200_000)
    ) as found:
        yield found
