"""Makes a connection wait while cold data of its replies is read into the page cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logbus.net.metrics import NetMetrics
from logbus.records.file_slice import FileSlice


class ColdReadGate:
    """
    Tells how much of the first slice in a connection's send queue is cached, and may be sent now.

    :param loaded: called when a wait is over, successful or not: ask again.
    """

    __slots__ = ("_error", "_loaded", "_loading", "_metrics", "_until")

    def __init__(self, loaded: Callable[[], None], metrics: NetMetrics) -> None:
        self._loaded = loaded
        self._metrics = metrics
        # The slice may be sent up to this position of its file.
        self._until = -1
        self._loading: Deferred[None] | None = None
        self._error: Exception | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent until ``loaded`` is called."""
        return self._loading is not None

    def allowed(self, part: FileSlice, most: int) -> int:
        """
        The number of the first ``most`` bytes of ``part``, the first one in the queue, that may be sent; 0: wait.

        :raises StorageError: they cannot be read.
        """
        if self._loading is not None:
            return 0
        if self._error is not None:
            raise self._error
        position = part.position
        if position < self._until:
            return min(most, self._until - position)
        # Files outside of log directories are sent without a check.
        read_ahead: Callable[[int, int], Deferred[None] | None] | None = getattr(part.file, "read_ahead", None)
        loading = read_ahead(position, most) if read_ahead is not None else None
        self._until = position + most
        if loading is None:
            return most
        self._metrics.cold_reads += 1
        self._loading = loading
        loading.addCallbacks(self._open, self._fail)
        return self.allowed(part, most)

    def next_part(self) -> None:
        """The first part in the queue is another one now."""
        self._until = -1

    def clear(self) -> None:
        """The connection is closed: stop waiting."""
        loading, self._loading = self._loading, None
        self._until, self._error = -1, None
        if loading is not None:
            loading.cancel()

    def _open(self, _: object) -> None:
        if self._loading is not None:
            self._loading = None
            self._loaded()

    def _fail(self, failure: Failure) -> Any:
        if self._loading is not None:
            self._loading, self._error = None, failure.value  # type: ignore[assignment]
            self._loaded()
