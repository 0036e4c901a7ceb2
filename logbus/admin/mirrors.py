"""
Views of the mirrors that brokers run, which copy topics of other clusters into this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Any

from attrs import frozen
from twisted.internet.interfaces import IReactorTime

from logbus.admin.authorization import Right
from logbus.admin.cluster import BROKER_ID
from logbus.admin.json_schema import array, integer, nullable, number, object_schema, string
from logbus.admin.pagination import page, page_of, paged
from logbus.admin.problem_details import HttpProblem
from logbus.admin.relay import live
from logbus.admin.routing import ViewRequest, route
from logbus.admin.topics import TOPIC_NAME
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.errors import ApiError, ErrorCode
from logbus.security.acl.acls import AclOperation, ResourceType

if TYPE_CHECKING:
    from logbus.mirror.mirror_status import PartitionStatus
    from logbus.mirror.running_mirror import RunningMirror

MAX_PROBLEMS = 100
MIRROR_ID = string("Its name: the source and the target, as paris-to-rome.", minLength=1, maxLength=300)
PARTITION_ID = string("Topic and partition at the source, as orders-3.", minLength=1, maxLength=300)
LAG = integer("Offsets of the source that are not copied yet, as of the last fetch.")
MIRROR = object_schema(
    "A mirror.",
    id=MIRROR_ID,
    broker=BROKER_ID,
    source=string("Its name for the other cluster."),
    source_servers=array("Brokers of that one, as host:port.", string("A broker.")),
    target=string("Its name for this cluster."),
    naming=string("How copies are named: 'prefix', as paris.orders, or 'identity'.", enum=["prefix", "identity"]),
    topics=array("Regular expressions of the topics that it copies.", string("One, of whole names.")),
    state=string(
        "'restarting': it begins anew after an error; 'failed': it has ended with an error, and is started again.",
        enum=["starting", "running", "restarting", "failed", "stopped"],
    ),
    since=integer("When it was started, in ms since 1970."),
    records=integer("Records that it has copied since then."),
    skipped=integer("Records that it has left out since then, since they are larger than this cluster takes."),
    bytes=integer("Bytes of the batches that it has copied."),
    records_per_second=number("Over the last minute."),
    bytes_per_second=number("Over the last minute."),
    lag=LAG,
    topics_copied=integer("Topics that it copies."),
    partitions=integer("Their partitions."),
    restarts=integer("How often it has begun anew after an error."),
    aborted=integer("Transactions that were aborted, and copied again."),
    problems=array(
        "What is not copied now, and why; the others are copied.",
        object_schema("One.", subject=string("A topic, a partition or what else."), message=string("Why.")),
        maxItems=MAX_PROBLEMS,
    ),
    last_error=nullable(
        object_schema(
            "What went wrong last, though it may go well again; null: nothing did.",
            at=integer("When, in ms since 1970."),
            message=string("What."),
        )
    ),
)
PARTITION = object_schema(
    "A partition that is copied.",
    id=PARTITION_ID,
    topic=TOPIC_NAME,
    partition=integer("Number of the partition, on both sides."),
    copy=string("The topic of this cluster into which it is copied."),
    offset=nullable(integer("Up to which offset of the source it is copied; null: not known yet.")),
    end_offset=nullable(integer("Where the source ends, as of the last fetch; null: not known yet.")),
    lag=nullable(LAG),
    records_per_second=number("Over the last minute."),
    problem=nullable(string("Why it is not copied; null: it is.")),
)


@frozen
class MirrorViews:
    """
    Tells of mirrors, which run at the controller.

    :ivar mirrors: returns those that this broker runs.
    """

    metadata: ClusterMetadata
    broker_id: int
    clock: IReactorTime
    mirrors: Callable[[], Sequence[RunningMirror]]

    def _controller(self) -> int | None:
        if self.metadata.controller_id < 0:
            raise ApiError(
                ErrorCode.LEADER_NOT_AVAILABLE, "There is no controller at present, where mirrors run; try again."
            )
        return live(self.metadata, self.metadata.controller_id)

    @route(
        "GET",
        "/api/v1/mirrors",
        "The mirrors that brokers run",
        answer=page("mirrors", MIRROR, MIRROR_ID),
        parameters=paged(MIRROR_ID),
        right=Right(AclOperation.DESCRIBE),
        served_by=lambda self, call: self._controller(),
    )
    def list(self, call: ViewRequest) -> dict[str, Any]:
        found = {each.options.flow: each for each in self.mirrors()}
        shown, after = page_of(found, call, None)
        return {"items": [self._row(found[name]) for name in shown], "next": after}

    @route(
        "GET",
        "/api/v1/mirrors/{mirror}",
        "One mirror",
        answer=MIRROR,
        parameters={"mirror": MIRROR_ID},
        right=Right(AclOperation.DESCRIBE),
        served_by=lambda self, call: self._controller(),
        errors=(HTTPStatus.NOT_FOUND,),
    )
    def describe(self, call: ViewRequest) -> dict[str, Any]:
        return self._row(self._find(call.path["mirror"]))

    @route(
        "GET",
        "/api/v1/mirrors/{mirror}/partitions",
        "How far the partitions of a mirror are copied",
        answer=page("partitions", PARTITION, PARTITION_ID),
        parameters=paged(
            PARTITION_ID,
            mirror=MIRROR_ID,
            order={
                **string(
                    "'id': in pages; 'lag': one page, first what is not copied, then the largest lag.",
                    enum=["id", "lag"],
                ),
                "default": "id",
            },
        ),
        right=Right(AclOperation.DESCRIBE),
        rights="Needs Describe on the Cluster; partitions of copies without Describe on them are left out.",
        served_by=lambda self, call: self._controller(),
        errors=(HTTPStatus.NOT_FOUND,),
    )
    def partitions(self, call: ViewRequest) -> dict[str, Any]:
        status = self._find(call.path["mirror"]).status
        is_visible = call.access.filter(AclOperation.DESCRIBE, ResourceType.TOPIC)
        found = {
            str(each.partition): each
            for each in status.partitions(self.clock.seconds())
            if is_visible is None or is_visible(each.copy)
        }
        if call.query["order"] == "lag":
            shown = nlargest(call.query["limit"], found, key=lambda name: _urgency(found[name]))
            after = None
        else:
            shown, after = page_of(found, call, None)
        return {"items": [_partition_row(name, found[name]) for name in shown], "next": after}

    def _find(self, name: str) -> RunningMirror:
        for each in self.mirrors():
            if each.options.flow == name:
                return each
        raise HttpProblem(HTTPStatus.NOT_FOUND, f"No mirror {name!r} runs at broker {self.broker_id}.")

    def _row(self, mirror: RunningMirror) -> dict[str, Any]:
        options, status, now = mirror.options, mirror.status, self.clock.seconds()
        error = status.last_error
        return {
            "id": options.flow,
            "broker": self.broker_id,
            "source": options.source,
            "source_servers": list(mirror.source_servers),
            "target": options.target,
            "naming": options.naming.value,
            "topics": [each.pattern for each in options.topics.include],
            "state": status.state.value,
            "since": int(mirror.since * 1000),
            "records": status.records,
            "skipped": status.skipped,
            "bytes": status.size,
            "records_per_second": _short(sum(status.rates.records(now).values())),
            "bytes_per_second": _short(status.rates.bytes(now)),
            "lag": status.lag,
            "topics_copied": len(status.topics),
            "partitions": sum(count for _, count in status.topics.values()),
            "restarts": status.restarts,
            "aborted": status.aborted,
            "problems": _problems(status.problems.items()),
            "last_error": None if error is None else {"at": int(error.at * 1000), "message": error.message},
        }


def _problems(problems: Iterable[tuple[str, str]]) -> Sequence[dict[str, str]]:
    return [{"subject": subject, "message": message} for subject, message in islice(sorted(problems), MAX_PROBLEMS)]


def _urgency(each: PartitionStatus) -> tuple[bool, int]:
    return each.problem is not None, each.lag or 0


def _partition_row(name: str, each: PartitionStatus) -> dict[str, Any]:
    return {
        "id": name,
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "copy": each.copy,
        "offset": each.offset,
        "end_offset": each.end,
        "lag": each.lag,
        "records_per_second": _short(each.rate),
        "problem": each.problem,
    }


def _short(rate: float) -> float:
    """Return a rate with as many digits as it is worth."""
    return float(f"{rate:.4g}")
