"""An HTTP server on 127.0.0.1 that serves bytes with Range support and can misbehave as told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Route:
    """What is served at a path: ``cut_after`` closes the connection after so many bytes, ``cuts`` times.

    ``length`` is announced in place of the true one.
    """

    body: bytes = b""
    status: int = 200
    ranges: bool = True
    cut_after: int | None = None
    cuts: int = 0
    announce_length: bool = True
    failures: int = 0
    wrong_range: bool = False
    length: str | None = None


@dataclass
class FileServer:
    address: str
    routes: dict[str, Route] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)

    def add(self, path: str, route: Route | bytes) -> str:
        self.routes[path] = route if isinstance(route, Route) else Route(route)
        return f"{self.address}{path}"

    def ranges_asked(self, path: str) -> list[str | None]:
        return [asked for where, asked in self.requests if where == path]


@contextmanager
def serve() -> Iterator[FileServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            files.requests.append((self.path, asked))
            route = files.routes.get(self.path, Route(status=404))
            if route.failures:
                route.failures -= 1
                self._answer(503, b"", {})
                return
            if route.status != 200:
                self._answer(route.status, b"no", {})
                return
            start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and route.ranges else 0
            if start and start >= len(route.body):
                self._answer(416, b"", {})
                return
            body = route.body[start:]
            headers = {}
            if start:
                first = start + route.wrong_range
                headers["Content-Range"] = f"bytes {first}-{len(route.body) - 1}/{len(route.body)}"
            cut = route.cut_after if route.cuts else None
            if cut is not None:
                route.cuts -= 1
            if route.length is not None:
                headers["Content-Length"] = route.length
            self._answer(206 if start else 200, body, headers, cut, route.announce_length and route.length is None)

        def _answer(
            self, status: int, body: bytes, headers: dict[str, str], cut: int | None = None, announce: bool = True
        ) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if announce:
                self.send_header("Content-Length", str(len(body)))
            if cut is not None or not announce:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            self.wfile.write(body if cut is None else body[:cut])

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 the base class names it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    files = FileServer(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield files
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
