"""The memory of one connection's frame buffer, reserved in the budget of all."""

from __future__ import annotations

from typing import Protocol

from attrs import define, field

from logbus.net.flow_control import MEMORY, UNSENT, FlowControl
from logbus.net.request_budget import RequestBudget
from logbus.net.request_dispatcher import RequestDispatcher
from logbus.wire.buffer_pool import KEEPERS, BufferPool
from logbus.wire.frame_buffer import FLOOR, LARGE, FrameBuffer

_MOST_KEPT = 4 << 20
"""Bytes that a connection keeps for its next frame."""


class MemoryUser(Protocol):
    """The connection, as its memory sees it."""

    def out_of_memory(self, error: Exception) -> None:
        """The system has no memory for a frame that the budget admits."""

    def evict(self, why: str) -> None:
        """Close the connection: others need the memory of its incomplete frame."""


@define(eq=False)
class FrameMemory:
    """
    Enlarges a connection's buffer for frames that are larger than its first memory, and shrinks it afterwards (a
    :class:`.MemoryHolder`).

    :ivar reserved: bytes beyond the buffer's first memory.
    """

    _frames: FrameBuffer
    _budget: RequestBudget
    _flow: FlowControl
    _dispatcher: RequestDispatcher
    _user: MemoryUser
    _pool: BufferPool
    reserved: int = field(default=0, init=False)
    # Whether it keeps a large buffer for the next frame.
    _keeps: bool = field(default=False, init=False)

    @property
    def host(self) -> str:
        """The peer's address; empty on a UNIX socket."""
        return self._dispatcher.context.host

    def count_received(self) -> bool:
        """Count memory that the buffer took because a transport has received more already; returns whether it did."""
        size = self._frames.capacity - FLOOR - self.reserved
        if size <= 0:
            return False
        self.reserved += size
        self._budget.charge(self, size)
        return True

    def double(self) -> None:
        """Double the buffer, if there is memory."""
        size = self._frames.capacity
        if self._budget.try_reserve(self, size):
            self.reserved += self._frames.grow(2 * size)

    def wait_for(self, size: int) -> None:
        """Enlarge the buffer for the next frame, once the budget allows it; nothing is received until then."""
        flow = self._flow
        flow.stops |= MEMORY
        self._budget.reserve(self, size, self._frames.missing)
        if flow.stops & MEMORY:
            flow.stop_reading(MEMORY)

    def release_spare(self) -> None:
        """Release much memory, or memory that others need, after a frame is complete."""
        if not self.reserved or self._dispatcher.frame_in_use:
            return
        if self.reserved > _MOST_KEPT or self._budget.short:
            self.give_back_memory()
            self._budget.release(self, 0)
        elif self.reserved > LARGE and not self._keeps:
            self._keep_or_share()

    def _keep_or_share(self) -> None:
        """Keep a large buffer, if few do, or let others use it until the next frame."""
        pool = self._pool
        if pool.keepers < KEEPERS:
            self._keeps = True
            pool.keepers += 1
        elif shared := self._frames.give_back():
            self.reserved -= shared
            self._budget.release(self, shared)

    def connection_lost(self) -> None:
        """Release everything."""
        self._keep_no_more()
        self._budget.forget(self)
        # The connection's objects refer to each other: as garbage they may be collected much later.
        self._frames.clear()
        # What is still called for the connection keeps nothing.
        self.reserved = 0

    # Called by the budget.

    def memory_granted(self, size: int) -> None:
        """More memory was reserved for the next frame."""
        self.reserved += size
        self._flow.stops &= ~MEMORY
        try:
            self._frames.grow(self._frames.capacity + size)
        except (OSError, MemoryError) as e:
            self._user.out_of_memory(e)
            return
        if not self._flow.stops:
            self._flow.read_on()

    def give_back_memory(self) -> None:
        """Shrink the buffer to its content, if that is worth it."""
        if self._dispatcher.frame_in_use:
            return
        self._frames.shrink()
        if self._frames.capacity < LARGE:
            self._keep_no_more()
        spare = self.reserved - (self._frames.capacity - FLOOR)
        if spare > 0:
            self.reserved -= spare
            self._budget.release(self, spare)

    def _keep_no_more(self) -> None:
        if self._keeps:
            self._keeps = False
            self._pool.keepers -= 1

    def progress(self) -> tuple[int, int] | None:
        """Frames received, and bytes of the unfinished one; None if the peer is not expected to send."""
        frames = self._frames
        if self._flow.stops & ~UNSENT or not frames.partial:
            return None
        return self._dispatcher.requests, frames.held

    def evict(self, why: str) -> None:
        """Close the connection: others need the memory of its incomplete frame."""
        self._user.evict(why)
