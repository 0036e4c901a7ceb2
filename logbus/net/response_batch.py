"""
Sends small responses of many connections by one system call, if a C compiler was available for that.

The kernel wakes a peer for each response, and on a busy machine lets it run at once, in place of us: that costs two
changes of processes for each response. Those of a batch are all sent before any peer runs in our place. The environment
variable ``LOGBUS_PURE`` disables this.
"""

from __future__ import annotations

from typing import Protocol

from attrs import define, field

from logbus.extension_modules import extension_module

MOST = 128
"""Responses of a batch."""

LARGEST = 1 << 12
"""Bytes of a response that may wait for others."""

_REVISION = 2
"""Of the compiled module."""


class BatchedSend(Protocol):
    """The class of the compiled module; see ``_batched_send.pyx``."""

    has_ring: bool

    def __init__(self, with_ring: bool = True) -> None: ...

    def send(self, sockets: list[int], data: list[bytes]) -> list[int]: ...


class Sender(Protocol):
    """
    A connection whose response is part of a batch.

    :ivar is_in_batch: set by the batch.
    """

    is_in_batch: bool

    def fileno(self) -> int:
        """The socket; -1 if it was closed."""

    def batch_sent(self, data: bytes, sent: int) -> None:
        """So many bytes were sent; fewer than there are, or an error's number as a negative number."""


def compiled_send() -> type[BatchedSend] | None:
    """The compiled class; None without it, or if it is not wanted."""
    compiled = extension_module("logbus.net._batched_send", _REVISION)
    return None if compiled is None else compiled.BatchedSend


@define(eq=False)
class ResponseBatch:
    """
    Responses that are sent together.

    Usage::

        if batch.open():
            try:
                ...  # Connections are served, and add what they answer.
            finally:
                batch.close()

    :ivar is_open: whether connections may add responses.
    """

    is_open: bool = field(default=False, init=False)
    _batched: BatchedSend | None = field(default=None, init=False)
    _is_known: bool = field(default=False, init=False)
    _senders: list[Sender] = field(factory=list, init=False)
    _data: list[bytes] = field(factory=list, init=False)

    def open(self) -> bool:
        """Have responses wait until :meth:`close`; False: they do not, or do already."""
        if not self._is_known:
            self._is_known = True
            kind = compiled_send()
            self._batched = kind() if kind is not None else None
        if self.is_open or self._batched is None:
            return False
        self.is_open = True
        return True

    def add(self, sender: Sender, data: bytes) -> None:
        """Leave a response to be sent with others, but before anything else of this connection."""
        sender.is_in_batch = True
        self._senders.append(sender)
        self._data.append(data)
        if len(self._senders) == MOST:
            self.send()

    def send(self) -> None:
        """Send what was added."""
        senders, self._senders = self._senders, []
        data, self._data = self._data, []
        if not senders:
            return
        assert self._batched is not None
        taken = self._batched.send([sender.fileno() for sender in senders], data)
        for sender, one, sent in zip(senders, data, taken, strict=True):
            sender.is_in_batch = False
            if sent != len(one):
                sender.batch_sent(one, sent)

    def close(self) -> None:
        """Send what was added; nothing waits from now on."""
        self.is_open = False
        self.send()
