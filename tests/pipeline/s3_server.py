"""An S3 server on the loopback interface, of which some requests fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from attrs import define, field
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.server import MotoRequestHandler
from werkzeug.serving import BaseWSGIServer, make_server

_BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


@define(eq=False)
class S3Server:
    """
    A server with one bucket; a context manager.

    :param failing: the share of requests that fail with 503, chosen at random.

    :ivar failed: how many have failed.
    """

    bucket: str
    failing: float = 0.0
    seed: int = 1
    failed: int = 0
    _server: BaseWSGIServer = field(init=False)
    _lock: Any = field(factory=threading.Lock, init=False)
    _random: Random = field(init=False)
    _app: Any = field(factory=lambda: DomainDispatcherApplication(create_backend_app), init=False)
    _thread: threading.Thread = field(init=False)

    def __enter__(self) -> S3Server:
        from pyarrow import fs

        self._random = Random(self.seed)
        share, self.failing = self.failing, 0.0
        self._server = make_server("127.0.0.1", 0, self._answer, True, request_handler=MotoRequestHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        host = self.url.partition("://")[2]
        fs.S3FileSystem(
            endpoint_override=host,
            scheme="http",
            access_key="test",
            secret_key="test",
            region="us-east-1",
            allow_bucket_creation=True,
        ).create_dir(self.bucket)
        self.failing = share
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Of the endpoint."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def options(self) -> dict[str, str]:
        """Of a store."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            fails = self._random.random() < self.failing
            self.failed += fails
        if not fails:
            answer: Iterable[bytes] = self._app(environ, start)
            return answer
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(_BUSY)))])
        return [_BUSY]
