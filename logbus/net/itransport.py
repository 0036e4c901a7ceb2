"""The interface between a server connection and its transport: our own TCP transport, or an adapter of another one."""

from __future__ import annotations

from zope.interface import Attribute, Interface

from logbus.net.prepared_fetches import PreparedFetches
from logbus.records.file_slice import Part


class IFrameTransport(Interface):
    """
    Sends a connection's replies, and controls its reading.

    It fills the protocol's ``frames`` and calls its ``frames_ready``; when fewer bytes are unsent than before, it calls
    ``sent``.
    """

    unsent: int = Attribute("Bytes of replies accepted and not yet handed to the kernel or the transport below.")

    receives_in_place: bool = Attribute("Whether it fills ``frames`` only while reading is not paused.")

    may_answer_fetches: bool = Attribute("Whether a thread can answer the next requests; see :meth:`answer_fetches`.")

    def send(parts: list[Part]) -> None:
        """Send these after everything before them; unsent parts are queued. Takes over the list."""

    def set_send_buffer(size: int) -> None:
        """Limit the bytes on their way to the peer to about so many, if possible."""

    def pause_reading() -> None:
        """Stop receiving until :meth:`resume_reading`."""

    def resume_reading() -> None:
        """Receive again."""

    def answer_fetches(prepared: PreparedFetches) -> bool:
        """
        Have a thread answer the next requests, until the protocol's ``fetches_answered`` is called; returns whether it
        does. Reading must be paused until then.
        """

    def recall_fetches() -> None:
        """Have it called soon, if a thread answers."""

    def loseConnection() -> None:
        """Close when everything is sent."""

    def abortConnection() -> None:
        """Close now."""


class IFrameFactory(Interface):
    """
    A protocol factory whose protocols have their frame buffers filled by the transport.

    Its ports use :class:`logbus.net.transport.ServerTransport`; the protocols have ``frames`` (a
    :class:`logbus.wire.frame_buffer.FrameBuffer`), ``frames_ready()``, ``enlarge()`` and ``sent()``.
    """
