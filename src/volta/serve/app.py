"""The HTTP service of a model: decisions, feedback, metrics and a live page."""

from __future__ import annotations

import asyncio
import hmac
import logging
import socket
import sys
import time
import traceback
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

from volta._version import __version__
from volta.core.errors import InputError, MissingDataError, StoreError, VoltaError, VoltaWarning
from volta.core.files import hash_file
from volta.decisions.decide import ACTIONS
from volta.decisions.online import VERDICTS
from volta.serve.feedback import NOT_A_CLASS
from volta.serve.models import Scores, ServedModel, load_served
from volta.serve.state import Batch, State, teller

if TYPE_CHECKING:
    from prometheus_client import Histogram
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from volta.estimators.row_classifier import RowClassifier

log = logging.getLogger("volta.serve")

Endpoint: TypeAlias = "Callable[[Request], Awaitable[Response]]"

MOST_TOGETHER = 1024
"""Rows of concurrent requests that are decided in one call of the model."""
FEW_ROWS, INLINE_SECONDS = 64, 0.005
"""So few rows are decided in the event loop, where that takes less processor time than this."""
SMALL_BODY = 1 << 15
"""A longer body is parsed outside the event loop."""
LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Settings:
    """How a service is reached and what it takes.

    ``token``: what ``Authorization: Bearer`` has to hold, None for no check; ``body_seconds``: how long a body may take
    to arrive.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    max_rows: int = 10_000
    max_bytes: int = 1 << 24
    body_seconds: float = 20.0


class Refused(Exception):  # noqa: N818
    """A request that gets a 4xx or 503 with a sentence."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status, self.problem = status, problem


class Decider:
    """Decides rows; what waits at the same time is decided together.

    Few rows of a fast model are decided in the event loop, where they take less time than handing them to a thread and
    back; all else is decided in one thread, while the loop reads further requests.
    """

    def __init__(self, model: ServedModel, state: State) -> None:
        self._model, self._state = model, state
        self._waiting: list[tuple[list[Any], bool, asyncio.Future[bytes]]] = []
        self._thread = ThreadPoolExecutor(1, "volta decider")
        self._busy = False
        # What a call with few rows took of the processor lately; not known yet.
        self._seconds = 1.0

    async def decide(self, rows: list[Any], with_probs: bool) -> bytes:
        """Return the answer to a request with rows."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()
        self._waiting.append((rows, with_probs, future))
        if not self._busy:
            self._busy = True
            # Other requests that have arrived are read first.
            loop.call_soon(self._start, loop)
        return await future

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        together, n_rows = 0, 0
        for rows, _, _ in self._waiting:
            if together and n_rows + len(rows) > MOST_TOGETHER:
                break
            together, n_rows = together + 1, n_rows + len(rows)
        requests, self._waiting = self._waiting[:together], self._waiting[together:]
        asked = [(rows, probs) for rows, probs, _ in requests]
        if n_rows <= FEW_ROWS and self._seconds < INLINE_SECONDS:
            self._finish(loop, requests, self._timed(asked))
            return
        work = loop.run_in_executor(self._thread, self._timed, asked)
        work.add_done_callback(lambda done: self._finish(loop, requests, done.result()))

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        requests: Sequence[tuple[list[Any], bool, asyncio.Future[bytes]]],
        answers: Sequence[bytes | BaseException],
    ) -> None:
        self._busy = bool(self._waiting)
        if self._waiting:
            loop.call_soon(self._start, loop)
        for (_, _, future), answer in zip(requests, answers, strict=True):
            if future.cancelled():
                continue
            if isinstance(answer, bytes):
                future.set_result(answer)
            else:
                future.set_exception(answer)

    def _timed(self, requests: Sequence[tuple[list[Any], bool]]) -> list[bytes | BaseException]:
        # Processor time: on a busy machine the clock would send every call to the thread, which makes it slower still.
        started = time.thread_time()
        answers = self._answer(requests)
        if sum(len(rows) for rows, _ in requests) <= FEW_ROWS:
            self._seconds += 0.2 * (time.thread_time() - started - self._seconds)
        return answers

    def _answer(self, requests: Sequence[tuple[list[Any], bool]]) -> list[bytes | BaseException]:
        try:
            found = self._decisions([row for rows, _ in requests for row in rows], any(probs for _, probs in requests))
        except Exception as error:
            if len(requests) == 1:
                return [error]
            # One request's rows must not cost the others their answers.
            return [answer for request in requests for answer in self._answer([request])]
        answers: list[bytes | BaseException] = []
        start = 0
        for rows, with_probs in requests:
            own = found[start : start + len(rows)]
            start += len(rows)
            if not with_probs:
                for decision in own:
                    decision.pop("probabilities", None)
            answers.append(msgspec.json.encode({"decisions": own}))
        return answers

    def _decisions(self, rows: list[Any], with_probs: bool) -> list[dict[str, Any]]:
        """Return the decision of each row as plain values; a bad row abstains with its reason."""
        model, ids = self._model, self._state.ids
        values, problems = model.parse(rows)
        pieces = [values] if model.batches else [values[place : place + 1] for place in range(len(values))]
        try:
            scored = [model.score(piece) for piece in pieces if len(piece)]
        except VoltaError as error:
            # A row that the model itself refuses, such as logits beyond all measure.
            if len(rows) > 1:
                return [decision for row in rows for decision in self._decisions([row], with_probs)]
            scored, problems = [], [str(error)]
        found = [decision for scores in scored for decision in self._as_json(scores, with_probs)]
        if n_bad := len(rows) - len(found):
            self._state.note(None, n_bad)
            good, bad = iter(found), iter(ids.issue_unusable(n_bad))
            found = [next(good) if why is None else _unusable(next(bad), why) for why in problems]
        return found

    def _as_json(self, scores: Scores, with_probs: bool) -> list[dict[str, Any]]:
        """Return decisions as plain values, and note them."""
        decided, classes = scores.decisions, self._model.classes
        n = len(decided)
        actions = decided.action.tolist()
        pvalues = np.ones(n) if decided.pvalue is None else decided.pvalue
        self._state.note(Batch(decided.action, decided.uncertainty, pvalues, scores.monitor, scores.numbers))
        reasons = [decided.reasons[action] for action in actions]
        columns = {
            "id": self._state.ids.issue(decided.action, scores.probs.argmax(axis=1), decided.sets),
            "action": [ACTIONS[action] for action in actions],
            "label": decided.label.tolist(),
            "probability": decided.probability.tolist(),
            "uncertainty": decided.uncertainty.tolist(),
            "pvalue": [None] * n if decided.pvalue is None else decided.pvalue.tolist(),
            "set": [None] * n if decided.sets is None else [classes[held].tolist() for held in decided.sets],
            "reason": reasons if decided.notes is None else decided.row_reasons().tolist(),
        }
        if with_probs:
            names = [str(name) for name in classes.tolist()]
            columns["probabilities"] = [dict(zip(names, row, strict=True)) for row in scores.probs.tolist()]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def close(self) -> None:
        """Wait for the call that runs."""
        self._thread.shutdown()


def _unusable(name: str, why: str) -> dict[str, Any]:
    nothing = dict.fromkeys(("label", "probability", "uncertainty", "pvalue", "set"))
    return {"id": name, "action": "abstain"} | nothing | {"reason": f"row cannot be used: {why}"}


class Collector:
    """What Prometheus reads: counts of the state, which outlive the process, and the time that requests took."""

    def __init__(self, state: State) -> None:
        self._state = state

    def collect(self) -> Iterator[Any]:
        """Yield the metrics as they are now."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, StateSetMetricFamily

        state = self._state
        counts = dict(state.counts) | {"feedback": state.feedback.n, "answer_errors": state.feedback.n_errors}
        for name, words in (
            ("rows", "Rows decided, unusable ones included"),
            ("answers", "Rows answered"),
            ("abstentions", "Rows abstained on, unusable ones included"),
            ("ood", "Rows flagged as out of distribution"),
            ("invalid", "Rows that could not be used"),
            ("requests", "Requests"),
            ("refused", "Requests refused with a 4xx or 5xx"),
            ("feedback", "Labels that came later"),
            ("answer_errors", "Labelled answers that were wrong"),
        ):
            yield CounterMetricFamily(f"volta_{name}", words, value=counts[name])
        monitor = state.monitor.state
        yield CounterMetricFamily("volta_alarms", "Alarms of the monitor", value=int(monitor.alarm))
        log10 = monitor.log_martingale / np.log(10)
        yield GaugeMetricFamily("volta_martingale_log10", "Logarithm of the monitor's martingale", value=log10)
        yield GaugeMetricFamily("volta_monitor_pvalue", "Anytime-valid p-value of no change", value=monitor.pvalue)
        verdicts = StateSetMetricFamily("volta_guarantee", "What labels say of a guarantee", labels=["guarantee"])
        for name, watch in state.feedback.watches.items():
            found = watch.state.verdict
            verdicts.add_metric([name], {each: each == found for each in VERDICTS})
        yield verdicts
        yield GaugeMetricFamily("volta_state_writable", "Whether the state is written", value=float(not state.problem))


class Endpoints:
    """The answers of a service."""

    def __init__(self, model: ServedModel, state: State, settings: Settings, path: Path) -> None:
        from prometheus_client import CollectorRegistry, Histogram

        self.model, self.state, self.settings, self.path = model, state, settings, path
        self.decider = Decider(model, state)
        self.registry = CollectorRegistry()
        self.registry.register(Collector(state))
        self.seconds: Histogram = Histogram(
            "volta_request_seconds", "Time a request took", ["path"], registry=self.registry, buckets=LATENCIES
        )
        classes = model.classes.tolist()
        self._numbers: dict[Any, int] = {str(label): place for place, label in enumerate(classes)}
        self._numbers |= {label: place for place, label in enumerate(classes)}
        self._page = (files("volta.serve") / "page.html").read_bytes()

    async def decide(self, request: Request) -> Response:
        """Decide rows."""
        return _json(await self.decider.decide(await self._rows(request), with_probs=False))

    async def predict(self, request: Request) -> Response:
        """Decide rows, with the probability of each class."""
        return _json(await self.decider.decide(await self._rows(request), with_probs=True))

    async def _rows(self, request: Request) -> list[Any]:
        body = await self._body(request)
        rows = body.get("rows")
        if not isinstance(rows, list):
            raise Refused(400, 'rows is missing; send {"rows": [...]}, each an object by column name or a list')
        if len(rows) > self.settings.max_rows:
            raise Refused(413, f"rows has {len(rows):,} entries; send at most {self.settings.max_rows:,} a request")
        return rows

    async def _body(self, request: Request) -> dict[str, Any]:
        from starlette.requests import ClientDisconnect

        kind = request.headers.get("content-type", "")
        if kind.partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, f"Content-Type is {kind[:80]!r}; send application/json")
        limit = self.settings.max_bytes
        problem = f"the body is larger than {limit:,} bytes; send fewer rows a request"
        if (length := request.headers.get("content-length", "0")).isdigit() and int(length) > limit:
            raise Refused(413, problem)
        pieces, size = [], 0
        try:
            async with asyncio.timeout(self.settings.body_seconds):
                async for piece in request.stream():
                    size += len(piece)
                    if size > limit:
                        raise Refused(413, problem)
                    pieces.append(piece)
        except TimeoutError:
            raise Refused(408, f"the body took more than {self.settings.body_seconds:g} s; send it again") from None
        except ClientDisconnect:
            raise Refused(400, "the body ended early") from None
        data = b"".join(pieces)
        try:
            decode = msgspec.json.decode
            body = decode(data) if size <= SMALL_BODY else await asyncio.to_thread(decode, data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(400, f"the body is no JSON: {error}") from None
        if not isinstance(body, dict):
            raise Refused(400, f"the body is a JSON {type(body).__name__}; send an object")
        return body

    async def feedback(self, request: Request) -> Response:
        """Keep labels of earlier decisions; the answer comes when they are on disk."""
        entries = (await self._body(request)).get("feedback")
        if not isinstance(entries, list) or not entries:
            raise Refused(400, 'feedback is missing; send {"feedback": [{"id": ..., "label": ...}, ...]}')
        if len(entries) > self.settings.max_rows:
            raise Refused(413, f"feedback has {len(entries):,} entries; send at most {self.settings.max_rows:,}")
        words: list[str | None] = []
        labels: list[tuple[str, int]] = []
        for entry in entries:
            if not isinstance(entry, dict) or not isinstance(name := entry.get("id"), str) or "label" not in entry:
                words.append("not an object with id and label")
            elif (number := self._number(entry["label"])) is None:
                words.append("unknown label: send one of the model's classes, or null for a sample of none")
            else:
                words.append(None)
                labels.append((name, number))
        try:
            found: list[str] = await asyncio.wrap_future(self.state.label(labels))
        except StoreError as error:
            raise Refused(503, str(error)) from None
        kept = iter(found)
        status = [next(kept) if word is None else word for word in words]
        return _json(msgspec.json.encode({"accepted": status.count("accepted"), "status": status}))

    def _number(self, label: Any) -> int | None:
        if label is None:
            return NOT_A_CLASS
        return self._numbers.get(label) if isinstance(label, str | int | float | bool) else None

    async def health(self, request: Request) -> Response:
        """Tell whether the service works; 503 where its state cannot be written."""
        problem = self.state.problem
        found = {"status": "state cannot be written" if problem else "ok", "problem": problem, "version": __version__}
        return _json(msgspec.json.encode(found), 503 if problem else 200)

    async def metrics(self, request: Request) -> Response:
        """Give the metrics in Prometheus's text."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
        from starlette.responses import Response

        return Response(generate_latest(self.registry), headers={"content-type": CONTENT_TYPE_LATEST})

    async def card(self, request: Request) -> Response:
        """Give the model card."""
        from starlette.responses import HTMLResponse

        if (classifier := self.model.card_of) is None:
            raise Refused(404, f"a {self.model.title} has no model card: its file does not say what it was fitted on")
        return HTMLResponse(await asyncio.to_thread(_card, classifier, self.path))

    async def page(self, request: Request) -> Response:
        """Give the live page, which holds no data."""
        from starlette.responses import HTMLResponse

        return HTMLResponse(self._page)

    async def summary(self, request: Request) -> Response:
        """Give what the live page shows."""
        model = self.model
        told = {
            "model": {
                "name": self.path.name,
                "kind": model.title,
                "has_card": model.card_of is not None,
                "classes": [str(name) for name in model.classes.tolist()],
                "columns": model.columns,
                "n_values": model.n_values,
                "policy": model.policy,
                "alpha": model.alpha,
                "fpr": model.fpr,
            }
        }
        return _json(msgspec.json.encode(told | self.state.summary()))

    async def openapi(self, request: Request) -> Response:
        """Describe the service."""
        return _json(msgspec.json.encode(describe(self.model, self.settings)))

    def guarded(self, endpoint: Endpoint, *, is_open: bool = False) -> Endpoint:
        """Return an endpoint that asks for the token, counts, takes the time, and answers errors in JSON."""
        token = None if self.settings.token is None else f"Bearer {self.settings.token}".encode()
        seconds = self.seconds.labels(endpoint.__name__)

        async def answer(request: Request) -> Response:
            started = time.perf_counter()
            status, response = 500, None
            try:
                given = request.headers.get("authorization", "").encode()
                if token is not None and not is_open and not hmac.compare_digest(given, token):
                    raise Refused(401, "the token is missing or wrong; send Authorization: Bearer TOKEN")
                response = await endpoint(request)
                status = response.status_code
            except Refused as error:
                status, response = error.status, _error(error.status, error.problem)
            except Exception as error:
                # Without its message, which may hold what was sent.
                lines = "".join(traceback.format_tb(error.__traceback__))
                log.error("%s failed: %s\n%s", endpoint.__name__, type(error).__name__, lines)
                response = _error(500, f"the service failed ({type(error).__name__}); its log says more")
            finally:
                seconds.observe(time.perf_counter() - started)
                self.state.count_request(status >= 400)
            return response

        return answer


def _card(classifier: RowClassifier, path: Path) -> str:
    from volta.estimators.card import calibration_evidence, card_html, make_card

    return card_html(make_card(classifier, path, calibration_evidence(classifier)))


def _json(data: bytes, status: int = 200) -> Response:
    from starlette.responses import Response

    return Response(data, status, media_type="application/json")


def _error(status: int, problem: str) -> Response:
    response = _json(msgspec.json.encode({"error": problem}), status)
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if status in (408, 413, 415):
        # What of the body has not been read must not be taken for the next request.
        response.headers["Connection"] = "close"
    return response


def describe(model: ServedModel, settings: Settings) -> dict[str, Any]:
    """Return the service's OpenAPI description, with the model's columns and classes."""
    number = {"type": "number"}
    values: list[dict[str, Any]] = [{"type": "array", "items": number}]
    if model.n_values is not None:
        values[0] |= {"minItems": model.n_values, "maxItems": model.n_values}
    else:
        values = [{"type": "string", "description": "an image file in base64"}]
    if model.columns is not None:
        kind = number if model.n_values is not None else {"type": "string"}
        values.append(
            {"type": "object", "properties": dict.fromkeys(model.columns, kind), "required": list(model.columns)}
        )
    label = {"enum": [*model.classes.tolist(), None]}
    fields = {
        "id": {"type": "string", "description": "for feedback"},
        "action": {"enum": list(ACTIONS)},
        "label": label,
        "probability": {"type": ["number", "null"]},
        "uncertainty": {"type": ["number", "null"]},
        "pvalue": {"type": ["number", "null"], "description": "conformal: small where the row is unusual"},
        "set": {"type": ["array", "null"], "items": label, "description": f"prediction set, alpha {model.alpha:g}"},
        "reason": {"type": "string"},
    }
    probs = {"probabilities": {"type": ["object", "null"], "additionalProperties": number}}
    rows = {"rows": {"type": "array", "maxItems": settings.max_rows, "items": {"anyOf": values}}}
    entry = {"type": "object", "properties": {"id": {"type": "string"}, "label": label}, "required": ["id", "label"]}
    feedback = {"feedback": {"type": "array", "minItems": 1, "maxItems": settings.max_rows, "items": entry}}
    kept = {"accepted": {"type": "integer"}, "status": {"type": "array", "items": {"type": "string"}}}

    def body(properties: dict[str, Any]) -> dict[str, Any]:
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        return {"content": {"application/json": {"schema": schema}}}

    def decided(extra: dict[str, Any]) -> dict[str, Any]:
        return {"decisions": {"type": "array", "items": {"type": "object", "properties": fields | extra}}}

    error = {"description": "refused, and why"} | body({"error": {"type": "string"}})
    refusals = {str(status): error for status in (400, 401, 408, 413, 415)}

    def post(words: str, given: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        found = {"200": {"description": "in the order of the request"} | body(answer)} | refusals
        return {"post": {"summary": words, "requestBody": {"required": True} | body(given), "responses": found}}

    def get(words: str, kind: str) -> dict[str, Any]:
        return {"get": {"summary": words, "responses": {"200": {"description": words, "content": {kind: {}}}}}}

    return {
        "openapi": "3.1.0",
        "info": {"title": f"volta serve: {model.title}", "version": __version__},
        "paths": {
            "/decide": post("Decide rows: answer, abstain or ood", rows, decided({})),
            "/predict": post("Decide rows, with class probabilities", rows, decided(probs)),
            "/feedback": post("Labels of earlier decisions", feedback, kept),
            "/health": get("Whether the service works", "application/json"),
            "/metrics": get("Metrics for Prometheus", "text/plain"),
            "/card": get("The model card", "text/html"),
            "/state": get("What the live page shows", "application/json"),
            "/": get("The live page", "text/html"),
        },
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    } | ({"security": [{"token": []}]} if settings.token is not None else {})


def build_app(model: ServedModel, state: State, settings: Settings, path: Path) -> Starlette:
    """Return the ASGI application; closing it writes the state and lets go of its folder."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    ends = Endpoints(model, state, settings, path)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(ends.decider.close)
        await asyncio.to_thread(state.close)

    async def no_such(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        state.count_request(True)
        return _error(status, f"{request.method} {request.url.path[:80]}: {getattr(error, 'detail', 'failed')}")

    return Starlette(
        routes=[
            Route("/decide", ends.guarded(ends.decide), methods=["POST"]),
            Route("/predict", ends.guarded(ends.predict), methods=["POST"]),
            Route("/feedback", ends.guarded(ends.feedback), methods=["POST"]),
            Route("/health", ends.guarded(ends.health, is_open=True)),
            Route("/metrics", ends.guarded(ends.metrics)),
            Route("/card", ends.guarded(ends.card)),
            Route("/state", ends.guarded(ends.summary)),
            Route("/openapi.json", ends.guarded(ends.openapi)),
            Route("/", ends.guarded(ends.page, is_open=True)),
        ],
        exception_handlers={HTTPException: no_such},
        lifespan=lifespan,
    )


def serve(
    path: Path,
    settings: Settings,
    *,
    state: Path | None = None,
    alpha: float | None = None,
    fpr: float | None = None,
    max_error: float | None = None,
    monitor_alpha: float = 0.01,
    block: int = 1,
    webhook: str | None = None,
    command: str | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the model in a file until SIGTERM or Ctrl-C.

    ``state``: the folder of counts, monitor and feedback, next to the model unless set; ``max_error``: the error among
    answers that labels are compared with, the policy's unless set; ``monitor_alpha``, ``block``: see
    :class:`volta.decisions.Monitor`; ``webhook``, ``command``: who is told of alarms; ``ready`` is called with the
    address when the service listens.
    """
    try:
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise MissingDataError(
            f"volta serve needs {error.name}; install it with: pip install 'volta-uq[serve]'"
        ) from error
    from threadpoolctl import threadpool_limits

    if webhook is not None and not webhook.startswith(("http://", "https://")):
        raise InputError("--webhook is no address; pass one that begins with http:// or https://")
    with _listen(settings) as listener:
        model = load_served(path, alpha=alpha, fpr=fpr)
        watched = model.max_error if max_error is None else max_error
        levels = {"alpha": model.alpha, "fpr": model.fpr, "max_error": watched}
        memory = State(
            Path(f"{path}.state") if state is None else state,
            model=hash_file(path),
            settings=levels | {"monitor_alpha": monitor_alpha, "block": block},
            edges=model.edges,
            ranges=model.ranges,
            monitor=lambda: model.monitor(alpha=monitor_alpha, block=block),
            max_error=watched,
            alpha=model.alpha,
            n_classes=len(model.classes),
            tell=teller(webhook, command, log.warning),
        )
        app = build_app(model, memory, settings, path)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=10,
        )
        # What is to be known of the model is said by volta fit and on its card; not for each row.
        warnings.simplefilter("ignore", VoltaWarning)
        host, port = listener.getsockname()[:2]
        ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        # Rows come few at a time: more threads would wait for each other.
        if (torch := sys.modules.get("torch")) is not None:
            torch.set_num_threads(1)
        try:
            with threadpool_limits(1), suppress(KeyboardInterrupt):
                uvicorn.Server(config).run([listener])
        finally:
            memory.close()


def _listen(settings: Settings) -> socket.socket:
    """Return a socket that listens, so that a port in use is known before a model is loaded."""
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
        # asyncio sets it on sockets that it makes itself; without it an answer waits 40 ms for the client's.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        raise InputError(
            f"{settings.host}:{settings.port} cannot be listened on ({error.strerror or error}); pass another --port"
        ) from error
