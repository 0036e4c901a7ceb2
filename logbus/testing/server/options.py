"""The options of ``logbus test-server``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from logbus.testing.placement import Placement


@frozen
class ServerOptions:
    """
    :ivar port_file: where the addresses are written; None: on standard output.
    :ivar brokers: 1 is a single broker; more are a cluster.
    :ivar config: settings of all brokers, by Kafka's names.
    :ivar as_version: the Kafka release whose API versions the brokers have; None: the newest.
    :ivar own_process: a single broker runs in a process of its own, and can be killed and frozen.
    :ivar detached: the server does not end with its parent.
    :ivar placement: where a single broker listens; the control interface has its host.
    :ivar control_port: of the control interface; 0: any free one.
    :ivar token: of the control interface; None: a random one.
    :ivar log_file: where the server logs; None: nowhere.
    :ivar timeout: seconds to wait for a start and a stop.
    """

    port_file: Path | None = None
    brokers: int = 1
    config: Mapping[str, str] = field(factory=dict)
    as_version: str | None = None
    own_process: bool = False
    detached: bool = False
    placement: Placement = field(factory=Placement)
    control_port: int = 0
    token: str | None = field(default=None, repr=False)
    log_file: Path | None = None
    timeout: float = 120.0
