"""
Seams of the cluster package: what the controller announces, who hears it, and who then holds the data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from twisted.internet.defer import Deferred
from zope.interface import Interface

from logbus.cluster.images import BrokerImage
from logbus.cluster.metadata_update import NO_OVERRIDES, DeletedTopic, MetadataUpdate, PartitionState
from logbus.errors import ApiError
from logbus.model import IsrChange, LeaderAndIsr, LogEndReport, ReplicaReport, TopicPartition

__all__ = [
    "NO_OVERRIDES",
    "MetadataUpdate",
    "DeletedTopic",
    "FullUpdate",
    "IMetadataUpdateReceiver",
    "IControllerChannel",
    "ILeadershipListener",
    "IReplicaHost",
    "IsrChange",
    "PartitionErrors",
    "PartitionState",
    "ReceiverFor",
]

PartitionErrors = Mapping[TopicPartition, ApiError]
"""What failed, by partition; empty when all went well."""


class IMetadataUpdateReceiver(Interface):
    """A broker, as the controller sees it: this very process, or one at the other end of a channel."""

    def apply(announcement: MetadataUpdate) -> Deferred[PartitionErrors]:
        """
        Make ``announcement`` true on the broker, after all earlier ones.

        :return: fires once the broker serves what it was told, with the partitions it could not bring up.
        :raise ApiError: STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH.
        """


FullUpdate = Callable[[], MetadataUpdate | None]
"""
All that one broker is to know now, for one that may have missed something; None when nothing is to be said to it any
more: the tenure is over, or the broker gone.
"""

ReceiverFor = Callable[[BrokerImage, FullUpdate], IMetadataUpdateReceiver]
"""How to reach a broker of that image (itself included)."""


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

    def retain(topic_partitions: Collection[TopicPartition], unreadable: Collection[str]) -> Deferred[PartitionErrors]:
        """
        These are all that this broker holds: give up any other replica, and delete any other log.

        :param unreadable: topics of which nothing is known: what is there of them stays.
        :return: as :meth:`remove`.
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


class IControllerChannel(Interface):
    """
    The controller as a broker sees it, wherever it is: this very process, or another broker.

    Every call may fail with ApiError NOT_CONTROLLER (who it is changes, or nobody knows), STALE_BROKER_EPOCH, or
    REQUEST_TIMED_OUT and NETWORK_EXCEPTION, after which it is not known whether the call was carried out.
    """

    def alter_partitions(changes: Sequence[IsrChange]) -> Deferred[Mapping[TopicPartition, LeaderAndIsr | ApiError]]:
        """
        Change in-sync replicas.

        :return: fires with the state that is in the metadata store now, for each partition, or why it was refused:
            FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA, UNKNOWN_TOPIC_OR_PARTITION.
        """

    def report_failed(topic_partitions: Sequence[TopicPartition]) -> Deferred[None]:
        """Replicas here went offline with their log directory: have what they led moved elsewhere."""

    def report_replicas(reports: Sequence[ReplicaReport]) -> Deferred[Mapping[TopicPartition, LeaderAndIsr | ApiError]]:
        """
        Replicas lack committed records, or hold damaged ones: have others lead, where they can.

        :return: fires with the state after it, for each partition, or why the report does not count:
            FENCED_LEADER_EPOCH (there is another leader), INELIGIBLE_REPLICA (this broker may lack records itself),
            UNKNOWN_TOPIC_OR_PARTITION. A replica that leads in that state all the same has nobody to take its place.
        """

    def report_log_ends(ends: Mapping[TopicPartition, LogEndReport]) -> Deferred[None]:
        """This is how far logs here go, of partitions without a leader: who has most may be elected."""

    def shut_down() -> Deferred[Sequence[TopicPartition]]:
        """
        This broker is about to stop: have its leaderships moved to others and its replicas taken out of the ISRs.

        :return: fires with the partitions that it leads all the same, since nobody else could.
        """
