"""
Interfaces between the controller and the brokers: metadata updates, replica hosts, leadership listeners, requests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from twisted.internet.defer import Deferred
from zope.interface import Interface

from logbus.cluster.images import BrokerImage
from logbus.cluster.metadata_update import MetadataUpdate, PartitionState
from logbus.errors import ApiError
from logbus.model import IsrChange, LeaderAndIsr, LogEndReport, ReplicaReport, TopicPartition

PartitionErrors = Mapping[TopicPartition, ApiError]
"""The errors, by partition; empty when all went well."""


class IMetadataUpdateReceiver(Interface):
    """A broker, as the controller sees it: this process, or one at the other end of a connection."""

    def apply(update: MetadataUpdate) -> Deferred[PartitionErrors]:
        """
        Apply ``update`` on the broker, after all earlier ones.

        :return: fires once the broker has applied it, with the partitions that it could not open.
        :raise ApiError: STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH.
        """


FullUpdate = Callable[[], MetadataUpdate | None]
"""
Builds the full state for a broker that may have missed updates; None when it is to get no more: the controller has
resigned, or the broker is gone.
"""

ReceiverFor = Callable[[BrokerImage, FullUpdate], IMetadataUpdateReceiver]
"""How to reach a broker of that image (itself included)."""


class IReplicaHost(Interface):
    """
    Holds this broker's replicas: opens and creates their logs, and makes them leaders or followers.

    Calls do not overlap: the next comes after the Deferred of the one before has fired.
    """

    def become(states: Sequence[PartitionState]) -> Deferred[PartitionErrors]:
        """
        Take the roles in ``states`` (this broker is among the replicas of each), creating or opening logs.

        A state with the leader epoch already held changes nothing but the ISR, the replicas and the configuration.
        A log on disk with another topic id belongs to a deleted predecessor: it is set aside, and replaced.

        :return: fires when all are usable. A partition whose log directory failed is in the result with
            KAFKA_STORAGE_ERROR, and does not hold up the others.
        """

    def remove(topic_partitions: Sequence[TopicPartition]) -> Deferred[PartitionErrors]:
        """
        Remove these replicas and delete their logs; unknown ones are ignored.

        :return: fires when no client can reach them and their names can be created again.
        """

    def retain(topic_partitions: Collection[TopicPartition], unreadable: Collection[str]) -> Deferred[PartitionErrors]:
        """
        Keep these replicas only: remove any other replica, and set any other log aside.

        :param unreadable: topics whose state the controller cannot read: their logs stay.
        :return: as :meth:`remove`.
        """

    def configure(topic: str, overrides: Mapping[str, str]) -> Deferred[None]:
        """Set the overrides of a topic on its logs here; fires when all have them."""


class ILeadershipListener(Interface):
    """
    Is called when this broker gains or loses the leadership of a partition, as coordinators need.

    Neither call may fail, or take long: other partitions wait.
    """

    def leads(topic_partition: TopicPartition, leader_epoch: int) -> None:
        """This broker leads the partition from now on, in that epoch; the replica is open."""

    def leads_no_more(topic_partition: TopicPartition) -> None:
        """It leads no more, for whatever reason: another broker does, the partition was deleted, its disk failed."""


class IControllerChannel(Interface):
    """
    The controller as a broker sees it, in this process or on another broker (Kafka: BrokerToControllerChannelManager).

    Every call may fail with ApiError NOT_CONTROLLER (it is changing, or not known), STALE_BROKER_EPOCH, or
    REQUEST_TIMED_OUT and NETWORK_EXCEPTION, after which the outcome of the call is unknown.
    """

    def alter_partitions(changes: Sequence[IsrChange]) -> Deferred[Mapping[TopicPartition, LeaderAndIsr | ApiError]]:
        """
        Change in-sync replicas (AlterPartition, KIP-497).

        :return: fires with the stored state of each partition, or the error:
            FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA, UNKNOWN_TOPIC_OR_PARTITION.
        """

    def report_failed(topic_partitions: Sequence[TopicPartition]) -> Deferred[None]:
        """Report replicas here that went offline with their log directory; their leaders move elsewhere."""

    def report_replicas(reports: Sequence[ReplicaReport]) -> Deferred[Mapping[TopicPartition, LeaderAndIsr | ApiError]]:
        """
        Report replicas that lack committed records, or hold damaged ones; others lead, where they can.

        :return: fires with the resulting state of each partition, or the reason why the report does not count:
            FENCED_LEADER_EPOCH (there is another leader), INELIGIBLE_REPLICA (this broker may lack records itself),
            UNKNOWN_TOPIC_OR_PARTITION. A reported replica that still leads in that state has no replacement.
        """

    def report_log_ends(ends: Mapping[TopicPartition, LogEndReport]) -> Deferred[None]:
        """Report the end offsets of logs here, of partitions without a leader: the longest log may be elected."""

    def shut_down() -> Deferred[Sequence[TopicPartition]]:
        """
        Controlled shutdown (KIP-143): have this broker's leaderships moved to others, and its replicas taken out of the
        ISRs.

        :return: fires with the partitions that it still leads, since no other replica could.
        """
