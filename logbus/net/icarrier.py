"""What carries a server connection's frames: our own TCP transport, or any Twisted transport behind an adapter."""

from __future__ import annotations

from zope.interface import Attribute, Interface

from logbus.records.slices import Part


class ICarrier(Interface):
    """
    The way out, and the tap of the way in.

    The carrier fills the protocol's ``frames`` and calls its ``frames_ready``; when less is unsent than before, it
    calls ``sent``.
    """

    unsent: int = Attribute("Bytes of replies accepted and not yet handed to the kernel or the transport below.")

    def send(parts: list[Part]) -> None:
        """Send these after everything before them; what cannot be sent now is kept. Takes over the list."""

    def set_send_buffer(size: int) -> None:
        """Have about so many bytes under way to the peer at a time, where that can be said."""

    def pause_reading() -> None:
        """Receive nothing until :meth:`resume_reading`."""

    def resume_reading() -> None:
        """Receive again."""

    def loseConnection() -> None:
        """Close when everything is sent."""

    def abortConnection() -> None:
        """Close now."""


class IFrameFactory(Interface):
    """
    A protocol factory whose protocols have their frames filled by the transport.

    Its ports use :class:`logbus.net.transport.ServerTransport`; the protocols have ``frames`` (a
    :class:`logbus.wire.framing.FrameBuffer`), ``frames_ready()``, ``widen()`` and ``sent()``.
    """
