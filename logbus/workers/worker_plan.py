"""
The plan of each worker of a machine: its number, directories and ports.

Workers are brokers with the numbers from ``broker.id`` on. The first has the log directories themselves, as a broker
without workers would, so that such a broker's data opens with workers; another has ``workers/N`` below each of them, on
the same device, so that a partition moves between workers by a rename.

Clients may begin at any worker by the ports of the listeners, which all workers share; each has ports of its own,
which it advertises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from attrs import asdict, evolve, frozen

from logbus.config import ConfigView, keys
from logbus.errors import ConfigError
from logbus.ilogbus import Listener
from logbus.listener_config import KAFKA, interface_of

_TCP = re.compile(r"((?:tcp|tcp4|tcp6|ssl):)(\d+)((?::.*)?)")
LAST_PORT = 65535
WORKERS_DIRECTORY = "workers"
"""Below each log directory; no partition's directory has this name."""


@frozen
class WorkerPlan:
    """
    One worker.

    :ivar index: counts the workers of a machine from 0.
    :ivar settings: its configuration, by Kafka's names.
    :ivar listeners: its own and those that it shares.
    :ivar socket: the socket of the supervisor's metadata store; None: the store is ZooKeeper.
    :ivar release: advertise this Kafka release's versions; None: the default table.
    :ivar siblings: the broker ids of all workers of the machine.
    """

    index: int
    settings: Mapping[str, str]
    listeners: tuple[Listener, ...]
    socket: str | None = None
    release: str | None = None
    siblings: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The reverse of :meth:`encode`."""
        fields: dict[str, Any] = json.loads(data)
        listeners = [
            Listener(**{**each, "advertised": each["advertised"] and tuple(each["advertised"])})
            for each in fields.pop("listeners")
        ]
        return cls(listeners=tuple(listeners), siblings=tuple(fields.pop("siblings")), **fields)


def log_directories(directories: Iterable[str], index: int) -> list[str]:
    """The log directories of a worker, below those of the machine."""
    return [each if index == 0 else f"{each.rstrip('/')}/{WORKERS_DIRECTORY}/{index}" for each in directories]


def address(listener: Listener) -> tuple[str, int]:
    """
    The interface and the port of a listener; an empty one is every interface.

    :raise ConfigError: it has none, so that workers cannot share it.
    """
    found = _TCP.fullmatch(listener.endpoint)
    if found is None:
        raise ConfigError(
            f"listener {listener.name}: {listener.endpoint!r} cannot be shared by workers: with workers > 1 endpoints "
            "begin with tcp:, tcp6: or ssl:"
        )
    return interface_of(found[3]), int(found[2])


def at_port(listener: Listener, port: int) -> Listener:
    """The listener at another port."""
    return evolve(listener, endpoint=_TCP.sub(rf"\g<1>{port}\g<3>", listener.endpoint))


def own_ports(listeners: Iterable[Listener], count: int, first: int = -1) -> dict[str, list[int]]:
    """
    The ports of the workers' own, by listener, without those of other listeners.

    :param listeners: as configured. Where the shared port is any free one, 0, they are 0, too: what follows the free
        one may be taken.
    :param first: where they begin (``workers.first.port``); −1: after the shared one; 0: they are 0, any free ports.
    :raise ConfigError: there are none left.
    """
    listeners, key = list(listeners), keys.WORKERS_FIRST_PORT.name
    taken = {address(listener)[1] for listener in listeners}
    found: dict[str, list[int]] = {}
    for listener in listeners:
        if listener.protocol != KAFKA:
            continue
        port = address(listener)[1] if first < 0 else max(first - 1, 0)
        ports = found[listener.name] = []
        while len(ports) < count:
            if port or first > 0:
                port += 1
                if port > LAST_PORT:
                    begin = f"after {address(listener)[1]}" if first < 0 else f"from {key}={first} on"
                    raise ConfigError(
                        f"listener {listener.name}: {begin} there are no ports left for {count} workers; "
                        f"set {key} to a port with enough free ones up to {LAST_PORT}, or to 0 for any free ports"
                    )
                if port in taken:
                    continue
                taken.add(port)
            ports.append(port)
    return found


def plan_workers(
    config: ConfigView,
    listeners: Sequence[Listener],
    count: int,
    own: Mapping[str, Sequence[int]],
    *,
    host_name: str,
    socket: str | None,
    release: str | None = None,
) -> list[WorkerPlan]:
    """
    Plan the workers of a machine.

    :param listeners: those of the machine, with their ports.
    :param own: the ports of the workers, by listener.
    :param host_name: the workers' rack, so that replicas are on several machines, unless the configuration has another.
    :param socket: of the metadata store; None: it is ZooKeeper.
    """
    directories, first = config.get(keys.LOG_DIRS), config.get(keys.BROKER_ID)
    if socket is None:
        more = {} if config.get(keys.BROKER_RACK) else {keys.BROKER_RACK.name: host_name}
    else:
        # Another replica on the same disks keeps nothing that the first does not.
        alone = (
            keys.OFFSETS_TOPIC_REPLICATION_FACTOR,
            keys.TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
            keys.SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR,
        )
        more = {key.name: "1" for key in alone if not config.is_set(key)}
        for least in (keys.TRANSACTION_STATE_LOG_MIN_ISR, keys.SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR):
            if not config.is_set(least):
                more[least.name] = "1"
    inherited = {
        name: text
        for name, text in config.static.items()
        if name not in (keys.NODE_ID.name, keys.LOG_DIR.name, keys.WORKERS.name)
    }
    return [
        WorkerPlan(
            index,
            {
                **inherited,
                **more,
                keys.BROKER_ID.name: str(first + index),
                keys.LOG_DIRS.name: ",".join(log_directories(directories, index)),
            },
            tuple(_listeners(listeners, own, index)),
            socket,
            release,
            tuple(range(first, first + count)),
        )
        for index in range(count)
    ]


def _listeners(listeners: Iterable[Listener], own: Mapping[str, Sequence[int]], index: int) -> Iterable[Listener]:
    for listener in listeners:
        if listener.protocol == KAFKA:
            port = own[listener.name][index]
            advertised = listener.advertised
            if advertised is not None and advertised[1]:
                # Where ports are forwarded, they are so in the same order.
                advertised = (advertised[0], advertised[1] + port - address(listener)[1])
            yield evolve(at_port(listener, port), advertised=advertised, reuse_port=True)
        yield evolve(listener, shared=True)


def with_changes(settings: Mapping[str, str], changed: Mapping[str, str | None]) -> dict[str, str]:
    """Return settings of which some are others, or, where they are None, not set."""
    kept = {name: text for name, text in settings.items() if name not in changed}
    return kept | {name: text for name, text in changed.items() if text is not None}
