"""
Decides which reports of incomplete replicas the controller accepts: pure.
"""

from __future__ import annotations

from logbus.cluster.controller.controller_context import PartitionRecord
from logbus.cluster.controller.topic_rules import ReplicaAvailability
from logbus.errors import ApiError, ErrorCode
from logbus.model import ReplicaReport


def check_report(report: ReplicaReport, record: PartitionRecord, standing: ReplicaAvailability, broker_id: int) -> None:
    """
    Check whether a report counts.

    A broker's report about its own replica always does.  A follower that reports its leader must have every committed
    record by the stored state (in the ISR, or eligible), and report the present leader: then the leader has no
    committed record that the follower lacks, and the follower, or another in sync, can take its place.

    :param standing: of the reporter, ``broker_id``, to the partition.
    :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, INELIGIBLE_REPLICA.
    """
    name, current = report.topic_partition, record.state
    if current is None or broker_id not in record.replicas:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"broker {broker_id} has no replica of {name}")
    if report.replica == broker_id:
        return
    if report.leader_epoch != current.leader_epoch or report.replica != current.leader:
        raise ApiError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"{name} is led by broker {current.leader} in epoch {current.leader_epoch}, not by broker "
            f"{report.replica} in epoch {report.leader_epoch}",
        )
    if broker_id not in (*current.isr, *current.eligible) or standing is not ReplicaAvailability.UP:
        raise ApiError(
            ErrorCode.INELIGIBLE_REPLICA,
            f"broker {broker_id} is neither in sync nor eligible to lead {name}, and may lack committed records "
            f"itself: the leader, broker {current.leader}, stays until an operator decides",
        )
