"""
What a thread needs to answer a consumer's next fetches, while it reads on.

A consumer that has much to catch up with sends the same Fetch again and again, with the offset at which the last
response ended. What it will get is known beforehand, but for where each response ends. So, for a moment, its connection
goes to a thread that knows no Python (:mod:`logbus.net.native_fetches`), and comes back with the first request that is
another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field, frozen

from logbus.net.request_context import RequestContext
from logbus.records.file_slice import BatchRange
from logbus.wire.fetch_template import RepeatedFetch

MOST_RANGES = 8
"""Segments that the thread reads from: two files of each stay open meanwhile."""

ENOUGH_BYTES = 64 * 1024 * 1024
"""Bytes that lie ahead with which no further segment is added."""

SMALL = 64 * 1024
"""Bytes of records up to which the last response is left to the handler: it has what has come meanwhile, too."""

LEAST_PREPARED = 4
"""Fewer are not worth a change of threads."""

SECONDS = 0.5
"""For so long a thread answers: what would change the responses (rights, quotas, a new leader) waits no longer."""

_MOST_WAITED_FOR = 256


@frozen(eq=False)
class AnsweredFetches:
    """
    The fetches that a thread has answered for a connection.

    :ivar requests: answered; ``offset``: what the last of them asked for, if there was one.
    :ivar bytes_in: of these requests; ``bytes_out``: sent.
    :ivar record_bytes: of batches in the responses.
    :ivar received: bytes that came behind these requests.
    :ivar error: why the connection is of no more use; None: it is.
    :ivar counts: how many of the requests took how long, by :data:`.LATENCY_BUCKETS`; ``seconds``: they took together.
    """

    requests: int
    offset: int
    bytes_in: int
    bytes_out: int
    record_bytes: int
    received: bytes
    error: OSError | None
    counts: Sequence[int]
    seconds: float


@frozen(eq=False)
class PreparedFetches:
    """
    The responses to a connection's next requests.

    :ivar request: its last request, with its length.
    :ivar epoch_at: where in it the session's epoch is, which each request increases; 0: there is no session.
    :ivar offset_at: where the offset is.
    :ivar head: a response, up to the length of its records; ``tail``: what follows its records.
    :ivar compact: whether their length is a compact one (KIP-482).
    :ivar ranges: the batches that they read; all but the first begin with their segment.
    :ivar first_offset: the least one that may be read, also by a consumer that goes back.
    :ivar most: how many bytes of these go into one response, as whole batches; the first one in any case.
    :ivar least: how many the response must have that has the last of them; otherwise it is left to the handler.
    :ivar answered: called with what was done.
    """

    request: bytes
    epoch_at: int
    offset_at: int
    head: bytes
    tail: bytes
    compact: bool
    ranges: Sequence[BatchRange]
    first_offset: int
    most: int
    least: int
    answered: Callable[[AnsweredFetches], None]


FetchPreparer = Callable[[RequestContext, RepeatedFetch], "PreparedFetches | None"]
"""Prepares the responses to those that follow a request that was just answered; None: they cannot be."""


@define(eq=False)
class FetchSequence:
    """
    Says when a connection's next fetches are to be prepared: after some that read on, and later again after each time
    that few were answered.

    :ivar last: the last fetch, if it is time.
    """

    last: RepeatedFetch | None = field(default=None, init=False)
    _count: int = field(default=0, init=False)
    _wanted: int = field(default=LEAST_PREPARED, init=False)

    def served(self, request: RepeatedFetch) -> None:
        """A fetch was answered."""
        if request.read_to < 0:
            self.ended()
            return
        self._count += 1
        if self._count >= self._wanted:
            self.last = request

    def ended(self) -> None:
        """It does not read on."""
        self.last, self._count = None, 0

    def answered(self, count: int) -> None:
        """So many were answered by a thread."""
        self.ended()
        self._wanted = 1 if count >= LEAST_PREPARED else min(2 * self._wanted + 2, _MOST_WAITED_FOR)
