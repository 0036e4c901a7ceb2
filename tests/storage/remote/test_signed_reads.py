"""Ranges of objects by signed URLs, from a server that answers as it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import pytest

from logbus.storage.remote.signed_reads import LEAST_BYTES, MOST_FAILURES, PAUSE, SIGNED_SECONDS, SignedReads, are_usual

OBJECT = bytes(range(256)) * (LEAST_BYTES // 64)


class Store:
    """An HTTP server with one object, and the signatures made for it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.signed: list[str] = []
        self.asked: list[tuple[str, str]] = []
        self.peers: set[int] = set()
        self.status = 206
        self.headers: dict[str, str] = {}
        self.cut = 0
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                store.asked.append((self.path, self.headers["Range"]))
                store.peers.add(self.client_address[1])
                start, end = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
                data = OBJECT[start : end + 1]
                self.send_response(store.status)
                self.send_header("Content-Length", str(len(data)))
                for name, value in store.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data[: len(data) - store.cut])
                self.close_connection = store.cut > 0

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Clients hang up on answers that they do not want."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.reads = SignedReads(self.sign, lambda: self.now)

    def sign(self, path: str, expiration: int) -> str:
        """As a file system does."""
        assert expiration == SIGNED_SECONDS
        self.signed.append(path)
        return f"http://127.0.0.1:{self.server.server_port}/{quote(path)}?signature={len(self.signed)}"

    def read(self, path: str = "b/a 1.log", start: int = 5, size: int = LEAST_BYTES) -> bytes | None:
        """Read some of it."""
        return self.reads.read(path, start, start + size)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The store, which serves, without a proxy."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    store = Store()
    thread = threading.Thread(target=store.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield store
    store.server.shutdown()
    store.server.server_close()
    thread.join()


def test_ranges(store: Store) -> None:
    """One connection and one signature serve many reads, until it is time for another signature."""
    for start in (0, 5, 1000):
        assert store.read(start=start) == OBJECT[start : start + LEAST_BYTES]
    assert store.asked[1] == ("/b/a%201.log?signature=1", f"bytes=5-{LEAST_BYTES + 4}")
    assert (len(store.peers), store.signed) == (1, ["b/a 1.log"])
    store.now += SIGNED_SECONDS / 3
    assert store.read() is not None
    assert store.asked[-1][0].endswith("signature=2")


def test_each_thread_has_its_own_connection(store: Store) -> None:
    """Readers do not wait for each other, and share signatures."""
    found: list[bytes | None] = []
    both = threading.Barrier(2)

    def run() -> None:
        both.wait(60)
        found.extend(store.read() for _ in range(3))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [OBJECT[5 : 5 + LEAST_BYTES]] * 6
    assert len(store.peers) == 2


def test_small_ranges(store: Store) -> None:
    """They are the file system's."""
    assert store.read(size=LEAST_BYTES - 1) is None
    assert store.asked == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": 403},
        {"status": 200},
        {"headers": {"Content-Encoding": "gzip"}},
        {"cut": 7},
    ],
)
def test_other_answers(store: Store, wrong: dict[str, Any]) -> None:
    """The file system is asked for what was not answered with the range, and the next read begins anew."""
    usual = {name: getattr(store, name) for name in wrong}
    assert store.read() is not None
    vars(store).update(wrong)
    assert store.read() is None
    vars(store).update(usual)
    assert store.read() == OBJECT[5 : 5 + LEAST_BYTES]
    assert len(store.signed) == 2


def test_behind_the_end(store: Store) -> None:
    """A range that the object does not have is the file system's."""
    assert store.read(start=len(OBJECT) - LEAST_BYTES + 1) is None


def test_one_that_never_works(store: Store) -> None:
    """After some failures in a row nothing is tried for a while."""
    store.status = 403
    for _ in range(MOST_FAILURES + 2):
        assert store.read() is None
    assert len(store.asked) == MOST_FAILURES
    store.status = 206
    store.now += PAUSE
    assert store.read() is not None


def test_file_systems_that_do_not_sign() -> None:
    """They raise what they like."""

    def sign(path: str, expiration: int) -> str:
        raise NotImplementedError

    assert SignedReads(sign).read("b/a.log", 0, LEAST_BYTES) is None


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/a", "http:///a", ""])
def test_other_urls(url: str) -> None:
    """Nothing else is tried with them."""
    assert SignedReads(lambda path, expiration: url).read("b/a.log", 0, LEAST_BYTES) is None


def test_where_the_file_system_connects_in_its_own_way(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies and certificates are its business."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    assert store.read() is None
    assert store.asked == []
    monkeypatch.setenv("AWS_CA_BUNDLE", "/etc/ca.pem")
    monkeypatch.delenv("https_proxy", raising=False)
    assert SignedReads(lambda path, expiration: "https://127.0.0.1:1/a").read("b/a.log", 0, LEAST_BYTES) is None


def test_options() -> None:
    """What a store is told of its connections is not for others to do."""
    assert are_usual(
        {"key": "a", "client_kwargs": {"region_name": "eu-1"}, "config_kwargs": {"signature_version": "v4"}}
    )
    assert not are_usual({"client_kwargs": {"verify": "/etc/ca.pem"}})
    assert not are_usual({"config_kwargs": {"proxies": {}}})
