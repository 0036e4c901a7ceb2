"""
Reads ranges of objects by URLs that a file system of fsspec has signed, with the standard library's HTTP client.

The file systems run in one thread, an event loop that holds the interpreter's lock for much of the time that a body
takes: it comes in small pieces, and is put together again. Here the reader's own thread waits for the body without the
lock, and gets it in one piece.

Nothing depends on it. What does not go well is read by the file system, which knows of retries, of tokens that expire,
and what to say of an error.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from attrs import define, field

LEAST_BYTES = 1 << 18
"""Of a range: the file system does less well only with many bytes."""

SIGNED_SECONDS = 900
"""For so long a URL is valid; it is used for a third of that, since clocks differ."""

MOST_URLS = 256

TIMEOUT = 20.0
"""Seconds without a byte, after which the file system is asked."""

MOST_FAILURES = 3
"""In a row; then nothing is tried for :data:`PAUSE` seconds."""
PAUSE = 60.0

_USUAL = frozenset({"region_name", "endpoint_url"})
_FOR_TLS = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

Sign = Callable[..., str]
"""``sign(path, expiration=seconds)``: the URL of an object (:meth:`fsspec.AbstractFileSystem.sign`)."""


@define(eq=False)
class SignedReads:
    """
    The objects of a file system. Used by several threads, each of which has its own connections.

    :ivar seconds: the time.
    """

    _sign: Sign
    seconds: Callable[[], float] = time.monotonic
    _urls: OrderedDict[str, tuple[SplitResult, float]] = field(factory=OrderedDict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _of_thread: threading.local = field(factory=threading.local, init=False)
    _failures: int = field(default=0, init=False)
    _off_until: float = field(default=0.0, init=False)

    def read(self, path: str, start: int, end: int) -> bytes | None:
        """Read a range; None: the file system should."""
        if end - start < LEAST_BYTES or self.seconds() < self._off_until:
            return None
        try:
            data = self._read(self._url(path), start, end)
        except Exception:
            # Each library has its own root of errors. The file system will have the same trouble, or not.
            data = None
        if data is not None:
            self._failures = 0
            return data
        with self._lock:
            self._urls.pop(path, None)
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            self._failures, self._off_until = 0, self.seconds() + PAUSE
        return None

    def _url(self, path: str) -> SplitResult:
        now = self.seconds()
        with self._lock:
            url, until = self._urls.get(path, (None, 0.0))
        if url is None or now >= until:
            url = urlsplit(self._sign(path, expiration=SIGNED_SECONDS))
            with self._lock:
                self._urls[path] = url, now + SIGNED_SECONDS / 3
                while len(self._urls) > MOST_URLS:
                    self._urls.popitem(last=False)
        return url

    def _read(self, url: SplitResult, start: int, end: int) -> bytes | None:
        connections: dict[str, HTTPConnection] = self._of_thread.__dict__
        where = f"{url.scheme}://{url.netloc}"
        connection = connections.pop(where, None) or _connection(url)
        if connection is None:
            return None
        try:
            connection.request("GET", f"{url.path}?{url.query}", headers={"Range": f"bytes={start}-{end - 1}"})
            with connection.getresponse() as response:
                data = _body(response, end - start)
        except BaseException:
            connection.close()
            raise
        if data is None:
            connection.close()
        else:
            connections[where] = connection
        return data


def _connection(url: SplitResult) -> HTTPConnection | None:
    """A connection, which is made with its first request; None: not in this way."""
    host, proxies = url.hostname, getproxies()
    if not host or (url.scheme in proxies and not proxy_bypass(host)):
        return None
    if url.scheme == "https":
        return None if any(os.environ.get(each) for each in _FOR_TLS) else HTTPSConnection(url.netloc, timeout=TIMEOUT)
    return HTTPConnection(url.netloc, timeout=TIMEOUT) if url.scheme == "http" else None


def _body(response: HTTPResponse, size: int) -> bytes | None:
    """The bytes of a range; None: the answer is something else."""
    if response.status != 206 or response.length != size or response.getheader("Content-Encoding"):
        return None
    data = response.read(size)
    return data if len(data) == size else None


def are_usual(options: Mapping[str, Any]) -> bool:
    """Whether a file system's options say nothing of how it connects, which would have to be done here as well."""
    client, config = options.get("client_kwargs") or {}, options.get("config_kwargs") or {}
    return set(client) <= _USUAL and not {"proxies", "client_cert"} & set(config)
