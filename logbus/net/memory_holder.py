"""The interface between a connection's memory and the budget of all."""

from __future__ import annotations

from typing import Protocol


class MemoryHolder(Protocol):
    """A connection's memory, as the budget sees it: :class:`logbus.net.frame_memory.FrameMemory`."""

    @property
    def host(self) -> str:
        """The peer's address; empty without one (UNIX sockets): no share by address then."""

    def memory_granted(self, size: int) -> None:
        """Called when ``size`` bytes that the connection waited for are reserved."""

    def give_back_memory(self) -> None:
        """Release unneeded memory."""

    def progress(self) -> tuple[int, int] | None:
        """Frames received, and bytes of the unfinished one; None if the peer is not expected to send."""

    def evict(self, why: str) -> None:
        """Close the connection, and forget the reservation."""
