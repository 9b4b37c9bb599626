"""`volta serve` under load and under faults, and folders at scale.

Run with: python benchmarks/serve.py rate|faults|kills|memory|folder [options]; `--help` of each lists them.

rate    one-row requests, next to a minimal FastAPI service of scikit-learn's `predict_proba`, in turns; cpu_ms is a
        service's processor time a request, which says most on a busy machine. The other service runs with uvicorn's
        parser in Python (h11: what `pip install fastapi uvicorn` gives) and in C (httptools, which `[serve]` has)
faults  64 clients, slow clients, half-sent bodies, fuzzed requests: tracebacks and counts that do not add up
kills   kill -9 during load with feedback: acknowledged labels that are gone, counts that are behind
memory  resident memory over a million rows
folder  `volta decide MODEL FOLDER` on files of random rows: rate, memory, and the cost on 16 nodes from it
FastAPI is no dependency of VOLTA: without it the peer is Starlette alone, which is faster, and is said to be.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification

Service = tuple[int, "subprocess.Popen[bytes]"]

N_COLUMNS, N_CLASSES, N_NEW, N_TRAIN = 20, 3, 1000, 600


def data(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(
        n_rows, N_COLUMNS, n_informative=8, n_classes=N_CLASSES, class_sep=1.5, shuffle=True, random_state=0
    )


def train_rows(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rows, labels = data(n_rows + N_NEW)
    return rows[N_NEW:], labels[N_NEW:]


def new_rows(n_train: int) -> np.ndarray:
    return data(n_train + N_NEW)[0][:N_NEW]


def fit_model(folder: Path, n_rows: int, method: str = "volta") -> Path:
    from volta import VoltaClassifier

    path = folder / "model.safetensors"
    VoltaClassifier(method).fit(*train_rows(n_rows)).save(path)
    return path


@contextlib.contextmanager
def service(model: Path, *options: str, log: Path | None = None) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Give the port and the process of a service."""
    command = [sys.executable, "-c", "from volta.cli import main; main()", "serve", str(model), "--port", "0", *options]
    with (log or model.with_suffix(".log")).open("ab") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            yield int(re.search(r":(\d+) ", line)[1]), process  # type: ignore[index]
        finally:
            process.terminate()
            process.wait(30)


@contextlib.contextmanager
def peer(n_rows: int, http: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Give the port and the process of the other service."""
    process = subprocess.Popen([sys.executable, __file__, "peer", str(n_rows), http], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process
    finally:
        process.terminate()
        process.wait(30)


def run_peer(n_rows: int, http: str) -> None:
    import socket

    import uvicorn
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    model = LogisticRegression(max_iter=1000).fit(*train_rows(n_rows))
    try:
        from fastapi import FastAPI
        from pydantic import create_model

        body_type = create_model("Body", rows=(list[list[float]], ...))
        app = FastAPI()

        async def predict(body):
            return {"probs": model.predict_proba(np.array(body.rows)).tolist()}

        predict.__annotations__["body"] = body_type
        app.post("/decide")(predict)
    except ImportError:
        from starlette.applications import Starlette
        from starlette.responses import JSONResponse
        from starlette.routing import Route

        async def plain(request):
            rows = np.array((await request.json())["rows"])
            return JSONResponse({"probs": model.predict_proba(rows).tolist()})

        app = Starlette(routes=[Route("/decide", plain, methods=["POST"])])
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(listener.getsockname()[1], flush=True)
    with threadpool_limits(1):
        uvicorn.Server(uvicorn.Config(app, http=http, log_level="warning", access_log=False)).run([listener])


def message(path: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head.lower())[1])  # type: ignore[index]
    return int(head[9:12]), await reader.readexactly(length)


async def load(port: int, messages: list[bytes], n_clients: int, seconds: float) -> tuple[np.ndarray, float]:
    """Return the times of all requests of clients that each ask again as soon as they are answered, and the time taken.

    Connections are made before the clock starts.
    """
    times: list[float] = []
    lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(n_clients)]
    begun = time.perf_counter()

    async def client(place: int) -> None:
        reader, writer = lines[place]
        k = place
        while (started := time.perf_counter()) < begun + seconds:
            writer.write(messages[k % len(messages)])
            status, _ = await answer_of(reader)
            assert status == 200, status
            times.append(time.perf_counter() - started)
            k += n_clients
        writer.close()

    await asyncio.gather(*(client(place) for place in range(n_clients)))
    return np.array(times), time.perf_counter() - begun


def rate(options: argparse.Namespace) -> None:
    """Ask both services in short windows, in turns: V P P V V P ...; load on the machine falls on neighbours alike."""
    rows = []
    for n_train in options.train:
        bodies = [json.dumps({"rows": [row]}).encode() for row in new_rows(n_train).tolist()]
        messages = [message("/decide", body) for body in bodies]
        with contextlib.ExitStack() as running:
            model = fit_model(Path(running.enter_context(tempfile.TemporaryDirectory())), n_train)
            ours = running.enter_context(service(model))
            for http in options.peer_http:
                with peer(n_train, http) as theirs:
                    for port, _ in (ours, theirs):
                        asyncio.run(load(port, messages, 4, 2.0))
                    for n_clients in options.clients:
                        found = turns(ours, theirs, messages, n_clients, options)
                        rows.append({"train_rows": n_train, "peer_http": http, "clients": n_clients} | found)
                        print(rows[-1], flush=True)
    if options.output:
        write_csv(options.output, rows)


def turns(
    ours: Service, theirs: Service, messages: list[bytes], n_clients: int, options: argparse.Namespace
) -> dict[str, object]:
    """Return medians over windows, and of the ratios of neighbouring windows medians and quartiles."""
    windows: list[list[tuple[float, float]]] = [[], []]
    times: list[list[np.ndarray]] = [[], []]
    for k in range(options.windows):
        for which in (0, 1) if k % 2 == 0 else (1, 0):
            port, process = (ours, theirs)[which]
            before = cpu_seconds(process.pid)
            found, seconds = asyncio.run(load(port, messages, n_clients, options.seconds))
            windows[which].append((len(found) / seconds, 1e3 * (cpu_seconds(process.pid) - before) / len(found)))
            times[which].append(found)
    both = np.array(windows)
    late = 1e3 * np.array([np.quantile(np.concatenate(one), [0.5, 0.99]) for one in times])
    rate_ratios, cpu_ratios = np.quantile(both[0] / both[1], [0.5, 0.25, 0.75], axis=0).T
    row = {"windows": options.windows}
    for place, name in enumerate(("volta", "peer")):
        per_second, cpu = np.median(both[place], axis=0)
        row |= {f"{name}_per_s": per_second, f"{name}_cpu_ms": cpu}
        row |= {f"{name}_p50_ms": late[place, 0], f"{name}_p99_ms": late[place, 1]}
    for name, (middle, low, high) in (("rate", rate_ratios), ("cpu", cpu_ratios)):
        row |= {f"{name}_ratio": middle, f"{name}_ratio_low": low, f"{name}_ratio_high": high}
    row["p99_ratio"] = late[0, 1] / late[1, 1]
    return {name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in row.items()}


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def cpu_seconds(process: int) -> float:
    """Return the processor time of all threads of a process."""
    total = 0
    for path in Path(f"/proc/{process}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            total += int(path.read_text().split()[0])
    return total / 1e9


def get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.read()


def counts_of(port: int) -> dict[str, int]:
    return json.loads(get(port, "/state"))["counts"]


def fuzzed(draw: random.Random, rows: list[list[float]]) -> bytes:
    """Return a request, most of which are damaged in some way."""
    row: list[object] = list(draw.choice(rows))
    values = ["x", None, True, 1e308, -1e308, 10**400, [], {}, "NaN", "\x00", "é" * 50, 3, -0.0]
    for _ in range(draw.randint(0, 3)):
        row[draw.randrange(len(row))] = draw.choice(values)
    entry = draw.choice([row, row, row, row[:-1], [*row, 1], {"a": 1}, dict(enumerate(row)), "x", None, 7, [], [row]])
    body: object = draw.choice(
        [{"rows": [entry] * draw.randint(0, 5)}] * 8 + [{"rows": entry}, [entry], entry, {}, None]
    )
    path = draw.choice(
        ["/decide"] * 5 + ["/predict", "/predict", "/feedback", "/nothing", "/", "/health", "//", "/%00"]
    )
    if path == "/feedback":
        names = ["", "A" * 40, "é", 5, None, "A" * 39 + "="]
        body = {"feedback": [{"id": draw.choice(names), "label": draw.choice(values)}] * draw.randint(0, 3)}
    data = json.dumps(body).encode()
    if draw.random() < 0.3:
        place = draw.randrange(len(data) + 1)
        noise = bytes(draw.randrange(256) for _ in range(draw.randint(0, 6)))
        data = data[:place] + noise + data[place + draw.randint(0, 6) :]
    kind = draw.choice(["application/json"] * 9 + ["text/plain", "", "application/json; charset=utf-16"])
    return message(path, data, kind)


async def fuzz(port: int, n_requests: int, rows: list[list[float]], n_clients: int = 16) -> dict[str, int]:
    """Send damaged requests; return how many had each status, and the rows in answers."""
    found: dict[str, int] = {}
    left = iter(range(n_requests))

    async def client() -> None:
        for k in left:
            draw = random.Random(k)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            sent = fuzzed(draw, rows)
            if draw.random() < 0.05:  # the line is cut within the request
                writer.write(sent[: draw.randrange(len(sent))])
                await writer.drain()
                found["cut off"] = found.get("cut off", 0) + 1
            else:
                writer.write(sent)
                status, body = await answer_of(reader)
                found[str(status)] = found.get(str(status), 0) + 1
                if status == 200 and b'{"decisions"' in body[:14]:
                    found["rows"] = found.get("rows", 0) + len(json.loads(body)["decisions"])
            writer.close()

    await asyncio.gather(*(client() for _ in range(n_clients)))
    return found


async def slow_clients(port: int, body: bytes, n_slow: int, n_silent: int) -> int:
    """Send a request a byte at a time from some clients, and half a body from others; return how many were answered."""
    whole = message("/decide", body)

    async def slow() -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for byte in whole:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.005)
        status, _ = await answer_of(reader)
        writer.close()
        return status == 200

    async def silent() -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(whole[:-10])
        status, _ = await answer_of(reader)
        writer.close()
        return status == 408

    return sum(await asyncio.gather(*[slow() for _ in range(n_slow)], *[silent() for _ in range(n_silent)]))


def faults(options: argparse.Namespace) -> None:
    rows = new_rows(N_TRAIN).tolist()
    messages = [message("/decide", json.dumps({"rows": [row]}).encode()) for row in rows]
    with tempfile.TemporaryDirectory() as name:
        model = fit_model(Path(name), N_TRAIN)
        with service(model) as (port, _):
            times, _ = asyncio.run(load(port, messages, 64, options.seconds))
            rows_sent = len(times)
            print(f"64 clients: {rows_sent} requests, all answered, p99 {1e3 * np.quantile(times, 0.99):.1f} ms")
            body = json.dumps({"rows": [rows[0]]}).encode()

            async def both() -> tuple[int, tuple[np.ndarray, float]]:
                return await asyncio.gather(slow_clients(port, body, 32, 32), load(port, messages, 8, 10.0))

            n_right, (times, _) = asyncio.run(both())
            rows_sent += len(times) + 32
            print(
                f"32 slow and 32 silent clients: {n_right} of 64 as they should be, "
                f"8 others meanwhile: {len(times)} requests, p99 {1e3 * np.quantile(times, 0.99):.1f} ms"
            )
            found = asyncio.run(fuzz(port, options.requests, rows))
            rows_sent += found.pop("rows")
            time.sleep(1)
            counted = counts_of(port)
        text = model.with_suffix(".log").read_text()
        print(
            f"fuzz: {found}; tracebacks: {text.count('Traceback')}; "
            f"rows answered {rows_sent}, counted {counted['rows']}"
        )


def kills(options: argparse.Namespace) -> None:
    """Kill the service during load with feedback, again and again; then compare."""
    rows = new_rows(N_TRAIN).tolist()
    acknowledged = answered = behind = 0
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        model = fit_model(Path(name), N_TRAIN)
        for k in range(options.kills + 1):
            with service(model) as (port, process):
                counted = counts_of(port)
                lost = acknowledged - counted["feedback"]
                # What was written and not yet acknowledged when the kill came is there too.
                if lost > 0 or (k and counted["rows"] < answered - behind):
                    print(
                        f"kill {k}: acknowledged {acknowledged}, kept {counted['feedback']}; "
                        f"rows {answered}, of the last second {behind}, kept {counted['rows']}"
                    )
                worst = max(worst, answered - counted["rows"])
                if k == options.kills:
                    break
                acknowledged, answered = counted["feedback"], counted["rows"]
                log: list[tuple[float, int]] = []
                stop = threading.Event()
                threads = [threading.Thread(target=_labels, args=(port, rows, stop, log)) for _ in range(4)]
                for thread in threads:
                    thread.start()
                time.sleep(random.Random(k).uniform(0.5, 2.5))
                killed = time.monotonic()
                process.send_signal(signal.SIGKILL)
                process.wait()
                stop.set()
                for thread in threads:
                    thread.join()
                acknowledged += sum(n for _, n in log)
                answered += sum(10 for _, n in log if n == 0)
                behind = sum(10 for at, n in log if n == 0 and at > killed - 1.0)
        print(
            f"{options.kills} kills: {acknowledged} labels acknowledged, {counted['feedback']} kept; "
            f"rows behind after a kill, at most: {worst:.0f}"
        )


def _labels(port: int, rows: list[list[float]], stop: threading.Event, log: list[tuple[float, int]]) -> None:
    import http.client

    draw = random.Random()
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def post(path: str, body: object) -> dict:
        line.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return json.loads(line.getresponse().read())

    with contextlib.suppress(OSError, http.client.HTTPException):
        while not stop.is_set():
            decided = post("/decide", {"rows": draw.sample(rows, 10)})["decisions"]
            log.append((time.monotonic(), 0))
            sent = post("/feedback", {"feedback": [{"id": one["id"], "label": 0} for one in decided]})
            log.append((time.monotonic(), sent["accepted"]))


def resident_mb(process: int) -> float:
    with contextlib.suppress(OSError):
        if found := re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text()):
            return int(found[1]) / 1024
    return 0.0


def memory(options: argparse.Namespace) -> None:
    rows = new_rows(N_TRAIN).tolist()
    body = json.dumps({"rows": rows}).encode()
    with tempfile.TemporaryDirectory() as name:
        model = fit_model(Path(name), N_TRAIN)
        with service(model) as (port, process):
            print("rows,resident_mb,seconds")
            started = time.perf_counter()
            for done in range(options.rows // 1000 + 1):
                if done % max(1, options.rows // 10_000) == 0:
                    print(
                        f"{1000 * done},{resident_mb(process.pid):.1f},{time.perf_counter() - started:.0f}", flush=True
                    )
                asyncio.run(_once(port, message("/decide", body)))
            sizes = {path.name: path.stat().st_size for path in Path(f"{model}.state").iterdir()}
            print(f"files: {sizes}")


async def _once(port: int, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    status, _ = await answer_of(reader)
    assert status == 200
    writer.close()


NODES, NODE_CORES = 16, 16


def folder(options: argparse.Namespace) -> None:
    """Decide files of random rows, and watch the memory of the command and its workers."""
    rows = []
    for method in options.method:
        with tempfile.TemporaryDirectory(dir=options.place) as name:
            rows.append(decide_files(Path(name), method, options))
            print(rows[-1], flush=True)
    if options.output:
        write_csv(options.output, rows)


def decide_files(place: Path, method: str, options: argparse.Namespace) -> dict[str, object]:
    """Return rate and memory of one method; the cost on other machines is computed from the rate, not measured."""
    import pyarrow
    from pyarrow import parquet

    n_files = max(1, options.rows // options.file_rows)
    model, given, out = fit_model(place, options.train, method), place / "data", place / "out"
    given.mkdir()
    draw = np.random.default_rng(0)
    names = [f"x{column}" for column in range(N_COLUMNS)]
    centres = new_rows(options.train)
    for k in range(n_files):
        rows = centres[draw.integers(len(centres), size=options.file_rows)]
        rows = rows + 0.05 * draw.normal(size=rows.shape)
        parquet.write_table(pyarrow.table(dict(zip(names, rows.T, strict=True))), given / f"{k:05d}.parquet")
    command = [sys.executable, "-c", "from volta.cli import main; main()", "decide", str(model), str(given)]
    command += ["--out", str(out), "--workers", str(options.workers)]
    started, before = time.perf_counter(), os.times()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    seen: list[tuple[int, float]] = []
    while process.poll() is None:
        time.sleep(1)
        largest = max((resident_mb(child) for child in family(process.pid)), default=0.0)
        seen.append((len(list(out.glob("*.parquet"))), largest))
    seconds, after = time.perf_counter() - started, os.times()
    cores = after.children_user + after.children_system - before.children_user - before.children_system
    assert process.stdout is not None
    assert process.returncode == 0
    print(process.stdout.read())
    n_rows = n_files * options.file_rows
    node_hours = 1e8 * cores / n_rows / NODE_CORES / 3600
    return {
        "method": method,
        "rows": n_rows,
        "columns": N_COLUMNS,
        "files": n_files,
        "workers": options.workers,
        "rows_per_s": round(n_rows / seconds),
        "core_us_a_row": round(1e6 * cores / n_rows, 2),
        "largest_mb_first_half": round(max(mb for done, mb in seen if done <= n_files // 2)),
        "largest_mb_second_half": round(max(mb for done, mb in seen if done > n_files // 2)),
        "estimate_100m_node_hours": round(node_hours, 4),
        "estimate_100m_minutes_16_nodes": round(60 * node_hours / NODES, 3),
    }


def family(process: int) -> Iterator[int]:
    """Walk the processes that one has started, itself first."""
    yield process
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from family(int(child))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("rate")
    command.add_argument("--train", type=int, nargs="+", default=[2000, 5000])
    command.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    command.add_argument("--peer-http", nargs="+", default=["h11", "httptools"], help="parsers of the other service")
    command.add_argument("--seconds", type=float, default=0.25, help="of a window")
    command.add_argument("--windows", type=int, default=40, help="of each service")
    command.add_argument("--output", type=Path, help="CSV file")
    command.set_defaults(run=rate)
    command = commands.add_parser("faults")
    command.add_argument("--requests", type=int, default=10_000)
    command.add_argument("--seconds", type=float, default=10.0)
    command.set_defaults(run=faults)
    command = commands.add_parser("kills")
    command.add_argument("--kills", type=int, default=50)
    command.set_defaults(run=kills)
    command = commands.add_parser("memory")
    command.add_argument("--rows", type=int, default=1_000_000)
    command.set_defaults(run=memory)
    command = commands.add_parser("folder")
    command.add_argument("--rows", type=int, default=10_000_000)
    command.add_argument("--file-rows", type=int, default=500_000)
    command.add_argument("--train", type=int, default=20_000)
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--method", nargs="+", default=["volta", "linear"])
    command.add_argument("--output", type=Path, help="CSV file")
    command.add_argument("--place", type=Path, help="where files are made; a few gigabytes")
    command.set_defaults(run=folder)
    command = commands.add_parser("peer")
    command.add_argument("train", type=int)
    command.add_argument("http")
    command.set_defaults(run=lambda options: run_peer(options.train, options.http))
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
