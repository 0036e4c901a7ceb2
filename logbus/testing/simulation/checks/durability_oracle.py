"""
Decides which records may be lost: those of partitions whose members have all lost power, or synced data, at a time.

By the metadata store a partition's members are its in-sync replicas and its eligible leaders: each has all acknowledged
records. A member that lost power may lack unsynced records, until it left the ISR and rejoined by fetching. Records may
be missing only if that is true of all members at the same time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from attrs import define, field

from logbus.metastore.tree import Applied, Tree
from logbus.metastore.znodes import StateZnode


@define(eq=False)
class DurabilityOracle:
    """
    Watches the states of a topic's partitions, and machines that lose power.

    :ivar at: by partition: the times, in seconds, at which the last intact member lost power.
    :ivar only_damaged: called with a partition when all its members are damaged.
    """

    topic: str
    tree: Tree
    now: Callable[[], float]
    at: dict[int, list[float]] = field(factory=dict, init=False)
    _members: dict[int, frozenset[int]] = field(factory=dict, init=False)
    _dark: dict[int, frozenset[int]] = field(factory=dict, init=False)
    _lied: dict[int, frozenset[int]] = field(factory=dict, init=False)
    _damaged: dict[int, frozenset[int]] = field(factory=dict, init=False)
    only_damaged: Callable[[int], object] = field(default=lambda partition: None, init=False)
    _path: re.Pattern[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._path = re.compile(re.escape(StateZnode.path(self.topic, 0)).replace("/0/", r"/(\d+)/"))

    def hear(self, applied: Applied) -> None:
        """The metadata store changed."""
        self.changed(event.path for event in applied.events)

    def changed(self, paths: Iterable[str]) -> None:
        """Nodes were created, changed or deleted."""
        for path in paths:
            found = self._path.fullmatch(path)
            if found is not None and self.tree.exists(path) is not None:
                partition = int(found[1])
                data, stat = self.tree.get(path)
                state = StateZnode.decode(self.topic, partition, data, stat.version)
                members = self._members[partition] = frozenset(state.isr) | frozenset(state.eligible)
                # A replica that rejoins the ISR has fetched the missing records.
                self._dark[partition] = self._dark.get(partition, frozenset()) & members
                self._lied[partition] = self._lied.get(partition, frozenset()) & members
                self._note_loss(partition)
                if members and members <= self._damaged.get(partition, frozenset()):
                    self.only_damaged(partition)

    def all_but(self, broker_id: int) -> bool:
        """
        Whether every partition that a broker is a member of has another intact member. No other replica may be damaged:
        the broker may have the only intact copy, even if it is no member.
        """
        return all(
            not self._damaged.get(partition, frozenset()) - {broker_id}
            and (broker_id not in members or self._whole(partition) - {broker_id})
            for partition, members in self._members.items()
        )

    def may_damage(self, broker_id: int, partition: int) -> bool:
        """Whether no replica of a partition is damaged or lacks synced data, and another member is intact."""
        others = self._members.get(partition, frozenset()) - {broker_id}
        hit = self._lied.get(partition, frozenset()) | self._damaged.get(partition, frozenset())
        return not hit and bool(others & self._whole(partition))

    def damaged(self, broker_id: int, partition: int) -> None:
        """A replica's bytes were damaged, whether it is in sync or not."""
        self._damaged[partition] = self._damaged.get(partition, frozenset()) | {broker_id}

    def repaired(self, broker_id: int, partition: int) -> None:
        """The damage was repaired, or truncated."""
        self._damaged[partition] = self._damaged.get(partition, frozenset()) - {broker_id}

    def lacks(self, broker_id: int, partition: int) -> None:
        """It truncated its log at the damage: it lacks records until it has left the ISR, and rejoined by fetching."""
        self._lied[partition] = self._lied.get(partition, frozenset()) | (
            {broker_id} & self._members.get(partition, frozenset())
        )

    def _whole(self, partition: int) -> frozenset[int]:
        members = self._members[partition]
        damaged = self._damaged.get(partition, frozenset())
        return members - self._dark[partition] - self._lied[partition] - damaged

    def power_lost(self, broker_id: int) -> None:
        """A machine lost power."""
        for partition, members in self._members.items():
            if broker_id in members:
                self._dark[partition] |= {broker_id}
                self._note_loss(partition)

    def synced_data_lost(self, broker_id: int) -> None:
        """A disk lost synced data: its broker lacks records until it has left the ISR, and rejoined by fetching."""
        for partition, members in self._members.items():
            self._lied[partition] |= {broker_id} & members
        self.power_lost(broker_id)

    def _note_loss(self, partition: int) -> None:
        if self._dark[partition] == self._members[partition]:
            # Later records count as intact again: a loss is allowed once only.
            self._dark[partition] = frozenset()
            self.at.setdefault(partition, []).append(self.now())
