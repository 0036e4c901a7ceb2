"""
Limits the memory of requests over all connections of a broker (``queued.max.request.bytes``; Kafka: MemoryPool).

Memory is reserved as the bytes of a frame arrive, so an announced length costs nothing. A connection may hold as much
as is still free after it: the dynamic thresholds of shared-memory switches (Choudhury and Hahne, 1998). An address may
hold three times as much, and its connections share that in the same way. All shares shrink as memory fills up, so a
small frame always finds room beside large ones, however many there are, also from the same address.

Connections above their share wait; those whose frames lack the least are served first. Some of them get the missing
bytes beyond the total, so that incomplete frames cannot block each other. While a connection waits, connections whose
frames make hardly any progress are closed.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from itertools import count

from attrs import define, field
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from logbus.net.memory_holder import MemoryHolder
from logbus.net.memory_overdraft import MemoryOverdraft
from logbus.net.metrics import NetMetrics
from logbus.net.slow_frames import PATIENCE, SlowFrames

HOST_SHARE = 3
"""An address may hold this many times the free bytes: at most three quarters of all memory."""

SLOWEST = 16 * 1024
"""Bytes a second that a frame must receive while others wait for memory."""

SLOWEST_BEYOND = 64 * 1024
"""The same for a frame with memory beyond the total."""

# Waiting connections examined for one that fits, if the first in line are above the share of their address.
_MAX_EXAMINED = 64


@define(eq=False, order=False)
class _Waiter:
    """A connection that waits for ``size`` more bytes, of ``missing`` that its frame lacks."""

    holder: MemoryHolder
    size: int
    missing: int


@define(eq=False)
class RequestBudget:
    """
    Limits the bytes of all frames being received.

    The total is exceeded at most by a sixteenth and one frame, and by bytes that transports with memory of their own
    had received already.

    :ivar total: bytes (``queued.max.request.bytes``).
    :ivar clock: measures the progress of frames while a connection waits; without it no connection is closed.
    """

    total: int
    metrics: NetMetrics = field(factory=NetMetrics)
    clock: IReactorTime | None = None
    _used: int = field(default=0, init=False)
    _held: dict[MemoryHolder, int] = field(factory=dict, init=False)
    _by_host: Counter[str] = field(factory=Counter, init=False)
    # Ordered by the bytes that the frame lacks, then by arrival.
    _line: list[tuple[int, int, _Waiter]] = field(factory=list, init=False)
    _entries: dict[MemoryHolder, tuple[int, int, _Waiter]] = field(factory=dict, init=False)
    _numbers: count[int] = field(factory=count, init=False)
    _overdraft: MemoryOverdraft = field(factory=MemoryOverdraft, init=False)
    _granting: bool = field(default=False, init=False)
    _timer: IDelayedCall | None = field(default=None, init=False)
    _slow_frames: SlowFrames = field(factory=SlowFrames, init=False)

    @property
    def used(self) -> int:
        """Bytes reserved."""
        return self._used

    @property
    def short(self) -> bool:
        """Whether a connection waits; then others keep no unneeded memory."""
        return bool(self._line)

    def reserve(self, holder: MemoryHolder, size: int, missing: int) -> None:
        """
        Reserve ``size`` more bytes; calls ``holder.memory_granted``, at once if they are free.

        :param size: 0: wait until the memory already held is within the connection's share.
        :param missing: bytes of memory that the frame lacks to be complete, ``size`` included.
        """
        if self._fits(holder, size):
            self._put(holder, size)
        elif holder in self._overdraft:
            self._put_beyond(holder, size)
        else:
            self._wait(_Waiter(holder, size, max(size, missing)))
            return
        holder.memory_granted(size)

    def _wait(self, waiter: _Waiter) -> None:
        was_short = self.short
        entry = (waiter.missing, next(self._numbers), waiter)
        insort(self._line, entry)
        self._entries[waiter.holder] = entry
        if not was_short:
            self._schedule_check()
            # Memory that connections keep for their next frame may be enough. From now on none keeps any.
            for other in list(self._held):
                other.give_back_memory()
        self._grant()

    def try_reserve(self, holder: MemoryHolder, size: int) -> bool:
        """Reserve ``size`` more bytes if they are free; do not wait."""
        if self.short or not self._fits(holder, size):
            return False
        self._put(holder, size)
        return True

    def charge(self, holder: MemoryHolder, size: int) -> None:
        """Count ``size`` bytes that a transport with memory of its own has received already."""
        self._put(holder, size)

    def release(self, holder: MemoryHolder, size: int | None = None) -> None:
        """
        Release ``size`` bytes that ``holder`` reserved, or all, and serve waiting connections.

        :param size: 0: only end the privilege to exceed its share, which lasts for one frame.
        """
        held = self._held.get(holder, 0)
        size = held if size is None else min(size, held)
        if not size and holder not in self._overdraft:
            return
        self._end_privilege(holder)
        if size == held:
            self._held.pop(holder, None)
        else:
            self._held[holder] = held - size
        self._count(holder, -size)
        self._grant()

    def forget(self, holder: MemoryHolder) -> None:
        """Forget a closed connection: release its memory, and take it out of the queue."""
        self._dequeue(holder)
        self._end_privilege(holder)
        self.release(holder)
        self._grant()

    def _fits(self, holder: MemoryHolder, size: int) -> bool:
        share = self._held.get(holder, 0) + size
        free = self.total - (self._used - self._overdraft.used) - size
        if share > free:
            return False
        host = holder.host
        if not host:
            return True
        return share <= HOST_SHARE * free - (self._by_host[host] + size)

    def _put(self, holder: MemoryHolder, size: int) -> None:
        if size:
            self._held[holder] = self._held.get(holder, 0) + size
            self._count(holder, size)

    def _put_beyond(self, holder: MemoryHolder, size: int) -> None:
        self._overdraft.take(holder, size)
        self._put(holder, size)
        self._count_for_host(holder, -size)

    def _end_privilege(self, holder: MemoryHolder) -> None:
        self._count_for_host(holder, self._overdraft.end(holder))

    def _count(self, holder: MemoryHolder, size: int) -> None:
        self._used += size
        self.metrics.request_memory = self._used
        self._count_for_host(holder, size)

    def _count_for_host(self, holder: MemoryHolder, size: int) -> None:
        host = holder.host
        if host and size:
            self._by_host[host] += size
            if not self._by_host[host]:
                del self._by_host[host]

    def _dequeue(self, holder: MemoryHolder) -> None:
        entry = self._entries.pop(holder, None)
        if entry is not None:
            self._line.remove(entry)

    def _grant(self) -> None:
        # A grant may make its holder release memory, which calls this again; the outer loop handles that.
        if self._granting:
            return
        self._granting = True
        try:
            while self._line:
                waiter = self._next()
                if waiter is not None:
                    self._put(waiter.holder, waiter.size)
                else:
                    waiter = self._line[0][2]
                    if not self._overdraft.admit(waiter.holder, waiter.missing, self.total):
                        return
                    self._put_beyond(waiter.holder, waiter.size)
                self._dequeue(waiter.holder)
                waiter.holder.memory_granted(waiter.size)
        finally:
            self._granting = False
        self._cancel_check()

    def _next(self) -> _Waiter | None:
        """The first waiting connection whose share allows its request."""
        waiters = (waiter for _, _, waiter in self._line[:_MAX_EXAMINED])
        return next((waiter for waiter in waiters if self._fits(waiter.holder, waiter.size)), None)

    # Closing slow connections while others wait.

    def _schedule_check(self) -> None:
        if self.clock is not None and self._timer is None:
            self._timer = self.clock.callLater(1.0, self._close_slow_frames)

    def _cancel_check(self) -> None:
        self._slow_frames.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_slow_frames(self) -> None:
        self._timer = None
        frames = [
            (holder, SLOWEST_BEYOND if holder in self._overdraft else SLOWEST)
            for holder in self._held
            if holder not in self._entries
        ]
        for holder in self._slow_frames.find_slow(frames):
            holder.evict(
                "memory for requests is short (queued.max.request.bytes), and its frame brought too few bytes for "
                f"{PATIENCE} s"
            )
            self.forget(holder)
        if self._line:
            self._schedule_check()
