"""A web server as bad as they come: it cuts connections, serves wrong bytes, answers 503, stalls, ignores ranges."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote


class Server:
    """`faults`: path -> what goes wrong with it, one a request, then nothing more."""

    def __init__(self, root: Path, faults: dict[str, list[str]] | None = None) -> None:
        self.root, self.faults = root, faults or {}
        self.requests: list[tuple[str, str | None]] = []  # path and range
        self.sent: Counter[str] = Counter()  # bytes of each path
        self.pause = 0.0  # seconds, in the midst of each file
        self.lock = threading.Lock()
        self.url = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        name = unquote(handler.path.lstrip("/"))
        wanted = handler.headers.get("Range")
        with self.lock:
            self.requests.append((name, wanted))
            fault = self.faults[name].pop(0) if self.faults.get(name) else ""
        path = self.root / name
        if fault == "503":
            handler.send_response(503)
            handler.send_header("Retry-After", "0")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        if not path.is_file():
            handler.send_error(404)
            return
        data = path.read_bytes()
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and fault != "no ranges" else 0
        if start >= len(data) > 0:
            handler.send_error(416)
            return
        body = data[start:]
        if fault == "wrong byte":
            body = body[:-1] + bytes([body[-1] ^ 1])
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        part = body[: len(body) // 2]
        self._send(handler, name, part)
        if fault == "cut":
            handler.close_connection = True
            return
        if fault == "stall":
            time.sleep(2)
        time.sleep(self.pause)
        self._send(handler, name, body[len(part) :])

    def _send(self, handler: BaseHTTPRequestHandler, name: str, data: bytes) -> None:
        try:
            handler.wfile.write(data)
            with self.lock:
                self.sent[name] += len(data)
        except OSError:  # who asked has gone
            handler.close_connection = True


@contextmanager
def serving(root: Path, faults: dict[str, list[str]] | None = None) -> Iterator[Server]:
    server = Server(root, faults)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.answer(self)

        def log_message(self, *arguments: Any) -> None:
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.daemon_threads = True
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{web.server_address[1]}"
    try:
        yield server
    finally:
        web.shutdown()
        web.server_close()
