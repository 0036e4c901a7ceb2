"""
The requests that a broker got, for a test to look at, wait for, and make assertions about. Safe in several threads.
Pure.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from threading import Condition

from attrs import define, field

from logbus.testing.errors import is_closed
from logbus.testing.requests.apis import WrongRequest
from logbus.testing.requests.recorded import MARK, RecordedRequest, Subject, Wanted, wanted

KEPT = 10_000
SHOWN = 30
"""The last requests that a failed assertion shows."""


def _nothing() -> None:
    """All is here already."""


@define(eq=False, slots=False)
class RequestHistory:
    """
    The last requests of a broker's clients, oldest first: at most 10,000.  When the broker is closed, it can still be
    read.

    The methods that look for requests take which ones are meant: ``api`` (Kafka's name or key, ``"*"`` for all),
    ``client_id`` and ``topic`` (with wildcards), ``partition``, and ``error``: the name of an error in the answer, or
    ``"NONE"`` for requests that were answered without any.

    :param now: seconds since 1970.
    :ivar settle: waits until all is here that a broker in a process of its own has recorded.
    :ivar forgotten: how many are not kept any more.
    """

    _now: Callable[[], float] = time.time
    settle: Callable[[], object] = field(default=_nothing, init=False)
    forgotten: int = field(default=0, init=False)
    _closed: bool = field(default=False, init=False)
    _kept: deque[RecordedRequest] = field(factory=lambda: deque(maxlen=KEPT), init=False)
    _numbers: int = field(default=0, init=False)
    _changed: Condition = field(factory=Condition, init=False)
    _waiters: int = field(default=0, init=False)

    # For the broker.

    def add(
        self,
        api_key: int,
        version: int,
        client_id: str | None,
        connection: int,
        subjects: tuple[Subject, ...] = (),
        text: str = "",
        received: float | None = None,
    ) -> RecordedRequest:
        """Record a request; ``received``: when it was, if that is not now."""
        with self._changed:
            self._numbers += 1
            at = self._now() if received is None else received
            made = RecordedRequest(self._numbers, api_key, version, client_id, connection, at, subjects, text)
            self.forgotten += len(self._kept) == KEPT
            self._kept.append(made)
            if self._waiters:
                self._changed.notify_all()
        return made

    def answered(
        self,
        request: RecordedRequest,
        codes: tuple[int, ...] = (),
        body: bytes | None = None,
        at: float | None = None,
    ) -> None:
        """Record that a request was answered; ``at``: when it was, if that is not now."""
        request.done(self._now() if at is None else at, codes, body)
        if self._waiters:
            with self._changed:
                self._changed.notify_all()

    def close(self) -> None:
        """Nothing comes any more: the broker is closed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # For the test.

    def find(
        self,
        api: str | int = "*",
        *,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        error: str | None = None,
    ) -> list[RecordedRequest]:
        """
        The requests that are meant, oldest first.

        :raise WrongRequest: there is no such API or error.
        """
        which = wanted(api, client_id=client_id, topic=topic, partition=partition, error=error)
        return [each for each in self._snapshot() if which.matches(each)]

    def wait(
        self,
        api: str | int = "*",
        n: int = 1,
        timeout: float = 30.0,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        error: str | None = None,
    ) -> list[RecordedRequest]:
        """
        Wait until there are ``n`` such requests; with ``error``, also for their answers.

        :returns: all of them.
        :raise AssertionError: there were not, within so many seconds.
        :raise BrokerFailed: there were not, and the broker is closed.
        """
        which = wanted(api, client_id=client_id, topic=topic, partition=partition, error=error)
        until = time.monotonic() + timeout
        with self._changed:
            self._waiters += 1
            try:
                while len(found := [each for each in self._kept if which.matches(each)]) < n:
                    if self._closed:
                        raise is_closed(f"requests: wait for {n} {which}, there are {len(found)}")
                    left = until - time.monotonic()
                    if left <= 0:
                        raise AssertionError(
                            self._shown(f"expected {n} {which} within {timeout:g} s, there are {len(found)}")
                        )
                    self._changed.wait(left)
            finally:
                self._waiters -= 1
        return found

    def assert_count(
        self,
        api: str | int,
        n: int,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        error: str | None = None,
    ) -> list[RecordedRequest]:
        """
        Assert that there were exactly ``n`` such requests.

        :returns: them.
        :raise AssertionError: there were more or fewer; it shows the last requests.
        """
        which = wanted(api, client_id=client_id, topic=topic, partition=partition, error=error)
        found = [each for each in self._snapshot() if which.matches(each)]
        if len(found) != n:
            raise AssertionError(self._shown(f"expected {n} {which}, there are {len(found)}"))
        return found

    def assert_order(self, *these: str | Wanted) -> None:
        """
        Assert that the first of each of these came after the first of the one before.

        :param these: names of APIs, or what :func:`~logbus.testing.requests.recorded.wanted` and :meth:`marked` give.
        :raise AssertionError: one came before, or not at all.
        """
        snapshot = self._snapshot()
        before: RecordedRequest | None = None
        for one in these:
            which = one if isinstance(one, Wanted) else wanted(one)
            first = next((each for each in snapshot if which.matches(each)), None)
            if first is None:
                raise AssertionError(self._shown(f"there is no {which}"))
            if before is not None and first.number < before.number:
                raise AssertionError(self._shown(f"{which} came first as {first.number}, before {before}"))
            before = first

    def mark(self, text: str) -> None:
        """
        Add a mark among the requests: something that the application did, at this time.

        :raise BrokerFailed: the broker is closed.
        """
        if not isinstance(text, str) or not text:
            raise WrongRequest(f"mark: {text!r} is no text")
        if self._closed:
            raise is_closed("requests: mark")
        self.settle()
        self.answered(self.add(MARK, 0, None, 0, text=text))

    @staticmethod
    def marked(text: str) -> Wanted:
        """Marks with a text, for :meth:`assert_order`; it may have wildcards."""
        return Wanted(text=text)

    def clear(self) -> None:
        """Forget all requests so far."""
        self.settle()
        with self._changed:
            self._kept.clear()
            self.forgotten = 0

    def __iter__(self) -> Iterator[RecordedRequest]:
        return iter(self._snapshot())

    def kept(self) -> Sequence[RecordedRequest]:
        """Those that are here now, even if the broker does not answer."""
        with self._changed:
            return list(self._kept)

    def __len__(self) -> int:
        self.settle()
        return len(self._kept)

    def __str__(self) -> str:
        return "\n".join(map(str, self._snapshot()))

    def _snapshot(self) -> Sequence[RecordedRequest]:
        self.settle()
        return self.kept()

    def _shown(self, problem: str) -> str:
        """A problem, and the last requests."""
        with self._changed:
            skipped = max(len(self._kept) - SHOWN, 0)
            lines = [str(each) for each in islice(self._kept, skipped, None)]
        earlier = [f"... {skipped + self.forgotten} before"] if skipped + self.forgotten else []
        return "\n".join([f"{problem}; the requests were:", *earlier, *(lines or ["none"])])
