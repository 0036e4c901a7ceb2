"""
Seams of the cluster package: what the controller announces, who hears it, and who then holds the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twisted.internet.defer import Deferred
from zope.interface import Interface

from logbus.cluster.announcement import NO_OVERRIDES, Announcement, DeletedTopic, PartitionState
from logbus.errors import ApiError
from logbus.model import TopicPartition

__all__ = [
    "NO_OVERRIDES",
    "Announcement",
    "DeletedTopic",
    "IAnnouncementReceiver",
    "ILeadershipListener",
    "IReplicaHost",
    "PartitionErrors",
    "PartitionState",
]

PartitionErrors = Mapping[TopicPartition, ApiError]
"""What failed, by partition; empty when all went well."""


class IAnnouncementReceiver(Interface):
    """A broker, as the controller sees it: this very process, or one at the other end of a channel."""

    def apply(announcement: Announcement) -> Deferred[PartitionErrors]:
        """
        Make ``announcement`` true on the broker, after all earlier ones.

        :return: fires once the broker serves what it was told, with the partitions it could not bring up.
        :raise ApiError: STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH.
        """


class IReplicaHost(Interface):
    """
    Holds this broker's replicas: opens and creates their logs, and plays leader or follower for them.

    Calls come one after the other: the next only after the Deferred of the one before has fired.
    """

    def become(states: Sequence[PartitionState]) -> Deferred[PartitionErrors]:
        """
        Take the roles in ``states`` (this broker is among the replicas of each), creating or opening logs.

        A state with the leader epoch already held changes nothing but the ISR, the replicas and the configuration.
        A log on disk with another topic id belongs to a deleted predecessor and is replaced.

        :return: fires when all are usable. A partition whose log directory failed is in the answer with
            KAFKA_STORAGE_ERROR, and does not hold back the others.
        """

    def remove(topic_partitions: Sequence[TopicPartition]) -> Deferred[PartitionErrors]:
        """
        Give up these replicas and delete their logs; unknown ones are ignored.

        :return: fires when no client can reach them and their names are free to be created again.
        """

    def configure(topic: str, overrides: Mapping[str, str]) -> None:
        """The overrides of a topic changed: swap the configuration of its logs here."""


class ILeadershipListener(Interface):
    """
    Wants to know which partitions this broker leads: who coordinates something by them.

    Neither call may fail, or take long: the other partitions wait.
    """

    def leads(topic_partition: TopicPartition, leader_epoch: int) -> None:
        """This broker leads the partition from now on, in that epoch; the replica is up."""

    def leads_no_more(topic_partition: TopicPartition) -> None:
        """It does not, for whatever reason: another broker does, the partition was deleted, its disk failed."""
