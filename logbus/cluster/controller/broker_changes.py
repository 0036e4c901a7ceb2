"""
Requests and reports of brokers, as steps of the active controller. They run on its event queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve
from twisted.logger import Logger

from logbus.cluster.controller.active_controller import ActiveController
from logbus.cluster.controller.alter_partition import altered_state
from logbus.cluster.controller.controller_context import NO_LEADER, PartitionRecord
from logbus.cluster.controller.leader_election import ElectionResult
from logbus.cluster.controller.topic_rules import ReplicaAvailability
from logbus.cluster.controller.update_batch import UpdateBatch
from logbus.cluster.images import BrokerImage
from logbus.errors import ApiError, ErrorCode
from logbus.model import IsrChange, LeaderAndIsr, LogEndReport, ReplicaReport, TopicPartition

_log = Logger(namespace="logbus.cluster.controller")


async def alter_partitions(
    active: ActiveController, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange]
) -> Mapping[TopicPartition, LeaderAndIsr | ApiError]:
    """
    Change ISRs at a leader's request, where the rules allow it: see :func:`.altered_state`.

    :raise ApiError: STALE_BROKER_EPOCH: the sender is not registered, or has an earlier epoch.
    """
    await active.check_broker(broker_id, broker_epoch)
    answers: dict[TopicPartition, LeaderAndIsr | ApiError] = {}
    changed: dict[TopicPartition, ElectionResult] = {}
    for change in changes:
        name = change.topic_partition

        def joins(number: int, epoch: int, name: TopicPartition = name) -> bool:
            return (
                active.state.availability(number, name) is ReplicaAvailability.UP
                and active.state.brokers[number].epoch == epoch
            )

        try:
            topic, record = active.existing(name)
            rules = active.rules_for(topic.overrides)
            answers[name] = state = altered_state(change, record, broker_id, joins, rules, active.epoch)
        except ApiError as error:
            answers[name] = error
            continue
        if state is not record.state:
            changed[name] = ElectionResult(state)
    if changed:
        await active.write(changed)
        await active.send(UpdateBatch(partitions=frozenset(changed)))
        await _replace_incomplete(active, changed)
        await active.finish_moves(changed)
    return answers


async def _replace_incomplete(active: ActiveController, names: Iterable[TopicPartition]) -> None:
    """Elect other leaders where the leader is incomplete, now that another replica has joined the ISR."""
    state, incomplete = active.state, active.state.reports.incomplete
    led = [name for name in names if name in incomplete.get(state.leader(name), ())]
    if led:
        await active.settle(led)


async def shut_down(active: ActiveController, broker_id: int, broker_epoch: int) -> Sequence[TopicPartition]:
    """
    Controlled shutdown of a broker (KIP-143): elect other leaders for the partitions that it leads, and take it out
    of the in-sync replicas where it is not the last. It becomes leader of nothing until it registers again. A
    repeated call continues the work.

    :return: the partitions that it still leads, since no other replica could, in order.
    :raise ApiError: STALE_BROKER_EPOCH.
    """
    await active.check_broker(broker_id, broker_epoch)
    if broker_id not in active.state.reports.shutting_down:
        _log.info("broker {broker} is shutting down", broker=broker_id)
        active.state.reports.shutting_down.add(broker_id)
        active.state.brokers[broker_id] = evolve(active.state.brokers[broker_id], in_controlled_shutdown=True)
    concerned = []
    async for name in active.time_slice().over(active.state.partitions()):
        record = active.state.partition(name)
        if record.state is not None and broker_id in record.state.isr:
            concerned.append(name)
    await active.settle(concerned, UpdateBatch(brokers=True))
    return [name for name in concerned if active.state.leader(name) == broker_id]


async def report_failed(
    active: ActiveController, broker_id: int, broker_epoch: int, names: Iterable[TopicPartition]
) -> None:
    """
    Handle a broker's report that replicas went offline with their log directory.

    :raise ApiError: STALE_BROKER_EPOCH.
    """
    image = active.state.brokers.get(broker_id)
    if image is None or image.epoch != broker_epoch:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered with epoch {broker_epoch}")
    await take_offline(active, image, frozenset(names))


async def take_offline(active: ActiveController, broker: BrokerImage, names: frozenset[TopicPartition]) -> None:
    """Take replicas of a live broker offline until it registers again, and move their leaders elsewhere."""
    known = active.state.brokers.get(broker.broker_id)
    if known is None or known.epoch != broker.epoch:
        return
    failed = active.state.reports.failed.setdefault(broker.broker_id, set())
    news = {name for name in names - failed if name.topic in active.state.topics}
    failed |= news
    if news:
        await active.settle(name for name in news if not active.state.topics[name.topic].deleting)


async def report_replicas(
    active: ActiveController, broker_id: int, broker_epoch: int, reports: Sequence[ReplicaReport]
) -> Mapping[TopicPartition, LeaderAndIsr | ApiError]:
    """
    Handle a broker's reports of replicas that lack committed records, or hold damaged ones: other replicas lead,
    where they can.

    A broker's own replica counts as incomplete until the broker reports it complete, or registers again. A report
    about its leader counts if the broker itself is known to have every committed record; the leader is then not
    elected again until it has fetched the records it lacks.

    :return: the states afterwards. FENCED_LEADER_EPOCH, INELIGIBLE_REPLICA, UNKNOWN_TOPIC_OR_PARTITION.
    :raise ApiError: STALE_BROKER_EPOCH.
    """
    await active.check_broker(broker_id, broker_epoch)
    answers: dict[TopicPartition, LeaderAndIsr | ApiError] = {}
    taken: list[ReplicaReport] = []
    for report in reports:
        name = report.topic_partition
        try:
            _, record = active.existing(name)
            _check_report(report, record, active.state.availability(broker_id, name), broker_id)
        except ApiError as error:
            answers[name] = error
            continue
        taken.append(report)
        marked = active.state.reports.incomplete.setdefault(report.replica, set())
        if report.complete:
            marked.discard(name)
        else:
            _log.error(
                "{partition}: the replica on broker {replica} is incomplete, says broker {broker}: {reason}",
                partition=name, replica=report.replica, broker=broker_id, reason=report.reason,
            )  # fmt: skip
            active.metrics.incomplete_replicas += name not in marked
            marked.add(name)
    try:
        await active.settle([report.topic_partition for report in taken])
    finally:
        for report in taken:
            if report.replica != broker_id:
                # It has left the in-sync replicas, and rejoins once it has fetched the records it lacks.
                active.state.reports.incomplete[report.replica].discard(report.topic_partition)
    for report in taken:
        state = active.state.partition(report.topic_partition).state
        assert state is not None
        answers[report.topic_partition] = state
    return answers


def _check_report(
    report: ReplicaReport, record: PartitionRecord, availability: ReplicaAvailability, broker_id: int
) -> None:
    """
    Check whether a report counts.

    A broker's report about its own replica always does.  A follower that reports its leader must have every committed
    record by the stored state (in the ISR, or eligible), and report the present leader: then the leader has no
    committed record that the follower lacks, and the follower, or another in sync, can take its place.

    :param availability: of the reporter, ``broker_id``, to the partition.
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
    if broker_id not in (*current.isr, *current.eligible) or availability is not ReplicaAvailability.UP:
        raise ApiError(
            ErrorCode.INELIGIBLE_REPLICA,
            f"broker {broker_id} is neither in sync nor eligible to lead {name}, and may lack committed records "
            f"itself: the leader, broker {current.leader}, stays until an operator decides",
        )


async def report_log_ends(
    active: ActiveController, broker_id: int, broker_epoch: int, ends: Mapping[TopicPartition, LogEndReport]
) -> None:
    """
    Note where a broker's logs end, for partitions without a leader: the replica with the longest log may be elected.

    :raise ApiError: STALE_BROKER_EPOCH.
    """
    await active.check_broker(broker_id, broker_epoch)
    told = []
    for name, (leader_epoch, end) in ends.items():
        topic = active.state.topics.get(name.topic)
        if topic is None or topic.deleting or not 0 <= name.partition < len(topic.partitions):
            continue
        record = topic.partitions[name.partition]
        now = record.state
        if now is None or broker_id not in record.replicas:
            continue
        if (now.leader, now.leader_epoch) == (NO_LEADER, leader_epoch):
            active.state.reports.log_ends.setdefault(name, {})[broker_id] = end
            told.append(name)
    if told:
        await active.settle(told)
