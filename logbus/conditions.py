"""
The conditions that a broker is in, such as a full disk: each begins and ends, and says what to do (Kubernetes calls
them so, too).

A subsystem says at any time what it finds; :class:`Conditions` compares that with what was found before, so each
condition has a time since when it holds, and is told once when it begins and once when it ends. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType

from attrs import define, field, frozen

MAX_SUBJECTS = 100
"""Subjects of one kind that are told one by one; the others are counted."""

OTHERS = "others"
"""Stands for the subjects beyond :data:`MAX_SUBJECTS`."""


class Severity(Enum):
    """The severity of a condition."""

    CRITICAL = "critical"
    """Clients are refused, or records are in danger."""
    WARNING = "warning"
    """It becomes worse if nobody does anything."""


@frozen
class ConditionKind:
    """
    A kind of condition.

    :ivar name: words with hyphens.
    :ivar summary: what it means, a sentence; ``advice``: what to do, a sentence.
    :ivar subject: what its subjects are.
    :ivar is_logged: whether its beginnings and ends are logged; else its subsystem has its own lines.
    """

    name: str
    severity: Severity
    summary: str
    advice: str
    subject: str
    is_logged: bool = True


@frozen
class Finding:
    """
    Something that is wrong now.

    :ivar subject: what it is wrong with, such as the path of a directory.
    :ivar message: what is wrong, a sentence without its end.
    :ivar advice: what to do about this one, a sentence; None: that of its kind.
    """

    subject: str
    message: str
    advice: str | None = None


@frozen
class Condition:
    """
    Something that is wrong.

    :ivar since: seconds since 1970.
    :ivar advice: what to do, a sentence.
    """

    kind: ConditionKind
    subject: str
    message: str
    since: float
    advice: str

    @property
    def key(self) -> tuple[str, str]:
        """Identifies it among those of a broker."""
        return self.kind.name, self.subject


@frozen
class Changes:
    """The conditions that began and ended with one check."""

    began: tuple[Condition, ...] = ()
    ended: tuple[Condition, ...] = ()


@define(eq=False)
class Conditions:
    """The conditions of a broker."""

    _current: dict[tuple[str, str], Condition] = field(factory=dict, init=False)

    def __iter__(self) -> Iterator[Condition]:
        """Iterate over them: the worst first, then the oldest."""
        return iter(
            sorted(
                self._current.values(),
                key=lambda each: (each.kind.severity is not Severity.CRITICAL, each.since, each.key),
            )
        )

    def counts(self) -> Mapping[str, int]:
        """Return how many there are of each kind that there are some of."""
        found: dict[str, int] = {}
        for name, _ in self._current:
            found[name] = found.get(name, 0) + 1
        return MappingProxyType(found)

    def found(self, kind: ConditionKind, findings: Iterable[Finding], now: float) -> Changes:
        """
        Take in all that is wrong of one kind now.

        A condition whose message changes goes on: it does not begin anew.

        :param now: seconds since 1970.
        """
        before = {key: each for key, each in self._current.items() if key[0] == kind.name}
        after: dict[tuple[str, str], Condition] = {}
        others = 0
        for finding in findings:
            key = kind.name, finding.subject
            if key not in after and len(after) >= MAX_SUBJECTS:
                others += 1
                continue
            advice = kind.advice if finding.advice is None else finding.advice
            after[key] = Condition(kind, finding.subject, finding.message, _since(before, key, now), advice)
        if others:
            key = kind.name, OTHERS
            message = f"{others} more, which are not told one by one"
            after[key] = Condition(kind, OTHERS, message, _since(before, key, now), kind.advice)
        for key in before.keys() - after.keys():
            del self._current[key]
        self._current |= after
        return Changes(
            tuple(after[key] for key in sorted(after.keys() - before.keys())),
            tuple(before[key] for key in sorted(before.keys() - after.keys())),
        )


def _since(before: Mapping[tuple[str, str], Condition], key: tuple[str, str], now: float) -> float:
    known = before.get(key)
    return now if known is None else known.since


_CRITICAL, _WARNING = Severity.CRITICAL, Severity.WARNING

LOG_DIRECTORY_OFFLINE = ConditionKind(
    "log-directory-offline",
    _CRITICAL,
    "A log directory failed: its partitions are not served by this broker.",
    "Look at the disk and the system's log; start the broker again when it is mended, or replace the directory.",
    "the directory",
    is_logged=False,
)
LOG_DIRECTORY_FULL = ConditionKind(
    "log-directory-full",
    _CRITICAL,
    "There is no space: producers to partitions in this directory are refused until there is.",
    "Delete topics or files, lower log.retention.bytes or log.retention.ms, or give the file system more space.",
    "the directory",
    is_logged=False,
)
LOG_DIRECTORY_NEARLY_FULL = ConditionKind(
    "log-directory-nearly-full",
    _WARNING,
    "More than log.dir.usage.warn.ratio of the space is used.",
    "Lower log.retention.bytes or log.retention.ms, or give the file system more space, before writes are refused.",
    "the directory",
    is_logged=False,
)
LOG_DIRECTORY_SLOW = ConditionKind(
    "log-directory-slow",
    _WARNING,
    "A sync took five seconds or more: producers and transactions wait for it, and followers fall out of sync.",
    "Look at the disk and the system's log. If it stays slow, stop this broker, so that others lead, and replace the "
    "disk, or move partitions to another one with `logbus log-dirs move`.",
    "the directory",
)
PARTITIONS_OFFLINE = ConditionKind(
    "partitions-offline",
    _CRITICAL,
    "Partitions have no leader: nobody reads or writes them.",
    "Start the brokers that have their replicas; `logbus topics describe --unavailable` names the partitions.",
    "the topic",
)
PARTITIONS_UNDER_MIN_ISR = ConditionKind(
    "partitions-under-min-isr",
    _CRITICAL,
    "Fewer replicas than min.insync.replicas are in sync: producers with acks=all are refused.",
    "Start the brokers that are down, or see why they are slow; `logbus topics describe --under-min-isr` names them.",
    "the topic",
)
METADATA_STORE_AWAY = ConditionKind(
    "metadata-store-away",
    _CRITICAL,
    "The metadata store does not answer: leaders stay as they are, and nothing can be created or changed.",
    "Look at the ZooKeeper servers and the network to them, or, if workers have no ZooKeeper, at the log of their "
    "supervisor, which has the store; the broker connects again by itself.",
    "the store",
)
REMOTE_STORAGE_AWAY = ConditionKind(
    "remote-storage-away",
    _WARNING,
    "The object store of tiered storage fails: what only it has cannot be read, and local disks fill up.",
    "The message has the store's answer: look at the store, the network, the credentials and the bucket; the broker "
    "tries again by itself, at least once a minute.",
    "the store",
    is_logged=False,
)
MIRROR_STOPPED = ConditionKind(
    "mirror-stopped",
    _WARNING,
    "The mirror that this cluster runs does not copy something, or nothing at all: copies are behind.",
    "The message has the reason, and what would be right; the mirror tries again by itself.",
    "a topic or partition of the source, or the mirror",
    is_logged=False,
)
CERTIFICATE_ENDS = ConditionKind(
    "certificate-ends",
    _WARNING,
    "A certificate has ended, or does so within 30 days: clients and brokers refuse one that has.",
    "Put a new certificate in its place, and send the broker SIGHUP, or alter the listener's configuration.",
    "the listener",
)
CLOCK_JUMPED = ConditionKind(
    "clock-jumped",
    _WARNING,
    "The machine's clock was set by more than some seconds: timestamps, retention by time and lookup by time are off.",
    "See that the machine's time is kept by NTP or chrony, which slew the clock; compare it with other machines.",
    "the clock",
)
REACTOR_LATE = ConditionKind(
    "reactor-late",
    _WARNING,
    "The broker's reactor was blocked: every client waited for so long.",
    "See what else the machine does, whether it swaps, and whether the broker has a processor to itself.",
    "the reactor",
)
LOG_UNCLEANABLE = ConditionKind(
    "log-uncleanable",
    _WARNING,
    "A compacted partition cannot be cleaned, and only grows.",
    "The message names the cause; damage is repaired from another replica, or by `logbus dump-log` and a new topic.",
    "the partition",
    is_logged=False,
)
LOG_DAMAGED = ConditionKind(
    "log-damaged",
    _CRITICAL,
    "A segment has other bytes than were written, and no replica in sync has replaced it yet.",
    "Look at the disk; with other replicas in sync the broker repairs it by itself.",
    "the partition",
    is_logged=False,
)
CONNECTIONS_REFUSED = ConditionKind(
    "connections-refused",
    _WARNING,
    "New connections are closed, since there are as many as max.connections or max.connections.per.ip allow.",
    "See which clients open so many; raise the limit if they are right.",
    "the broker",
)
GROUP_FLOOD = ConditionKind(
    "group-flood",
    _WARNING,
    "Clients create groups by the thousand: each takes memory, records and series of metrics until it is deleted.",
    "Have the client keep its group id, instead of one of its own at each start, and delete the others; "
    "group.flood.count says how many are too many.",
    "the clients",
)
PRODUCER_FLOOD = ConditionKind(
    "producer-flood",
    _WARNING,
    "Clients start producers by the thousand: each partition remembers them for producer.id.expiration.ms.",
    "Have the client keep a producer instead of one for each record, or switch idempotence off there; "
    "producer.id.flood.count says how many are too many.",
    "the clients",
)
CONNECTION_FLOOD = ConditionKind(
    "connection-flood",
    _WARNING,
    "Clients open connections again and again: each costs more than the requests on it, most of all with TLS.",
    "Have the client keep its connection; max.connection.creation.rate and quotas by address slow it down; "
    "connection.flood.count says how many are too many.",
    "the clients",
)

KINDS = (
    LOG_DIRECTORY_OFFLINE,
    LOG_DIRECTORY_FULL,
    LOG_DIRECTORY_NEARLY_FULL,
    LOG_DIRECTORY_SLOW,
    PARTITIONS_OFFLINE,
    PARTITIONS_UNDER_MIN_ISR,
    METADATA_STORE_AWAY,
    REMOTE_STORAGE_AWAY,
    MIRROR_STOPPED,
    CERTIFICATE_ENDS,
    CLOCK_JUMPED,
    REACTOR_LATE,
    LOG_UNCLEANABLE,
    LOG_DAMAGED,
    CONNECTIONS_REFUSED,
    GROUP_FLOOD,
    PRODUCER_FLOOD,
    CONNECTION_FLOOD,
)
"""All kinds, in the order in which they are looked for."""
