"""What the command line of ``logbus test-server`` asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen


@frozen
class ServerOptions:
    """
    :ivar port_file: where the addresses are written; None: on standard output.
    :ivar brokers: 1 is a single broker; more are a cluster.
    :ivar config: settings of all brokers, by Kafka's names.
    :ivar own_process: a single broker runs in a process of its own, and can be killed and frozen.
    :ivar detached: the server does not end with its parent.
    :ivar host: the address that a single broker and the control interface listen on.
    :ivar port: of a single broker for Kafka clients; 0: any free one.
    :ivar admin_port: of a single broker for HTTP; 0: any free one.
    :ivar control_port: of the control interface; 0: any free one.
    :ivar advertised: host and port that a single broker tells its clients; None: where it listens.
    :ivar token: of the control interface; None: a random one.
    :ivar log_file: where the server logs; None: nowhere.
    :ivar timeout: seconds to wait for a start and a stop.
    """

    port_file: Path | None = None
    brokers: int = 1
    config: Mapping[str, str] = field(factory=dict)
    own_process: bool = False
    detached: bool = False
    host: str = "127.0.0.1"
    port: int = 0
    admin_port: int = 0
    control_port: int = 0
    advertised: tuple[str, int] | None = None
    token: str | None = field(default=None, repr=False)
    log_file: Path | None = None
    timeout: float = 120.0
