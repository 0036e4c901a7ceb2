"""A mirror that a broker runs, for those who show it."""

from __future__ import annotations

from attrs import frozen

from logbus.mirror.mirror_options import MirrorOptions
from logbus.mirror.mirror_status import MirrorStatus


@frozen
class RunningMirror:
    """
    A mirror, as far as it is shown.

    :ivar source_servers: addresses of the source.
    :ivar since: seconds since 1970.
    """

    source_servers: tuple[str, ...]
    options: MirrorOptions
    status: MirrorStatus
    since: float
