"""
A Google Cloud Storage server on the loopback interface, which can fail, and tells of each request.

A Python library, unlike the program of :mod:`tests.pipeline.gcs_server`, which takes Go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from http.server import ThreadingHTTPServer
from typing import Any

from attrs import define, field
from gcp_storage_emulator.handlers import buckets
from gcp_storage_emulator.server import RequestHandler
from gcp_storage_emulator.storage import Storage


class _Handler(RequestHandler):  # type: ignore[misc]
    """Answers one request, unless the server fails now."""

    def __init__(self, owner: GcsEmulator, storage: Storage, *args: Any) -> None:
        self._owner, self._has_turn = owner, False
        super().__init__(storage, *args)

    def handle_one_request(self) -> None:
        """One at a time, from its first line on: the store's files are not for several threads."""
        try:
            super().handle_one_request()
        finally:
            if self._has_turn:
                self._has_turn = False
                self._owner.turn.release()

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        self._owner.turn.acquire()
        self._has_turn = True
        self._owner.before()
        if self._owner.failing:
            self.send_error(503)
        return not self._owner.failing


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client was killed in the middle of a request."""


@define(eq=False)
class GcsEmulator:
    """
    A server with one bucket, in memory; a context manager.

    :ivar failing: whether requests are answered with 503.
    :ivar before: called before each answer.
    """

    bucket: str
    failing: float = 0.0
    before: Callable[[], None] = lambda: None
    turn: threading.Lock = field(factory=threading.Lock, init=False)
    _server: _Server = field(init=False)
    _thread: threading.Thread = field(init=False)

    def __enter__(self) -> GcsEmulator:
        storage = Storage(use_memory_fs=True)
        buckets.create_bucket(self.bucket, storage)
        self._server = _Server(("127.0.0.1", 0), partial(_Handler, self, storage))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def options(self) -> dict[str, str]:
        """Of a store, as fsspec takes them."""
        return {"endpoint_url": f"http://127.0.0.1:{self._server.server_port}", "token": "anon", "project": "test"}
