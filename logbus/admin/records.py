"""
Views of records: read a partition, search a topic, produce.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from logbus.admin import strict_json
from logbus.admin.authorization import HttpAccess, Right
from logbus.admin.event_stream import EVENT_STREAM, LAST_EVENT_ID, EventStreams
from logbus.admin.json_schema import JsonSchema, array, boolean, integer, nullable, object_schema, string
from logbus.admin.partitions import OFFSET
from logbus.admin.problem_details import HttpProblem
from logbus.admin.record_json import MAX_SHOWN, NEW_RECORD, RECORD
from logbus.admin.record_reader import PageQuery, RecordPage, RecordReader
from logbus.admin.record_scan import RecordFilter
from logbus.admin.record_search import Cursor, search
from logbus.admin.record_tail import MAX_PARTITIONS, RecordTail, places_of
from logbus.admin.record_writer import RecordWriter
from logbus.admin.relay import leader_of
from logbus.admin.routing import JSON, LOCATION, ViewRequest, ViewResponse, route
from logbus.admin.topics import TOPIC_NAME, existing_topic
from logbus.cluster.cluster_metadata import ClusterMetadata
from logbus.cluster.replication.replica_manager import ReplicaManager
from logbus.errors import ApiError, ErrorCode
from logbus.model import TopicPartition
from logbus.security.acl.acls import AclOperation, ResourceType

MAX_RECORDS = 500
MAX_OFFSET = 2**63 - 1
PARTITION_NUMBER = integer("Number of the partition.", minimum=0, maximum=2**31 - 1)
READS = Right(AclOperation.READ, ResourceType.TOPIC, "topic")


def _optional(schema: JsonSchema) -> JsonSchema:
    return {**schema, "default": None}


CONTAINS: Mapping[str, JsonSchema] = {
    "key": _optional(string("Text that the keys of records must contain.", minLength=1, maxLength=1000)),
    "value": _optional(string("Text that the values of records must contain.", minLength=1, maxLength=1000)),
    "header": _optional(
        string(
            "Text that the name or the value of one of a record's headers must contain.", minLength=1, maxLength=1000
        )
    ),
}
READING: Mapping[str, JsonSchema] = {
    "timestamp": _optional(
        integer("Read from the first record on that is not older; ms since 1970.", minimum=0, maximum=MAX_OFFSET)
    ),
    "newest": _optional(integer("Read from this many offsets before the end on.", minimum=0, maximum=1_000_000_000)),
    "limit": integer("Records of an answer, at most.", minimum=1, maximum=MAX_RECORDS, default=100),
    "shown_bytes": integer(
        "Bytes of a key, a value or a header that are shown; the rest is cut.",
        minimum=0,
        maximum=MAX_SHOWN,
        default=16_384,
    ),
    "isolation": string(
        "read_committed: records of open and aborted transactions are left out.",
        enum=["read_uncommitted", "read_committed"],
        default="read_uncommitted",
    ),
}
PAGE = object_schema(
    "Records of a partition.",
    topic=TOPIC_NAME,
    partition=PARTITION_NUMBER,
    items=array("The records, by offset.", RECORD, maxItems=MAX_RECORDS),
    next_offset=integer("The offset to continue from; as end_offset, there are no more at present."),
    scanned=integer("How many records were gone through."),
    log_start_offset=integer("The offset of the first record."),
    high_watermark=integer("The first offset that readers do not see."),
    last_stable_offset=integer("The first offset that readers of committed records do not see."),
    end_offset=integer("The one of these two that counts for this request."),
)
FOUND = object_schema(
    "What a part of a search has found.",
    topic=TOPIC_NAME,
    items=array("Records, by partition and offset.", RECORD, maxItems=MAX_RECORDS),
    next=nullable(string("The cursor for the next part of the search; null: it is complete.")),
    scanned=integer("How many records this part went through."),
    partition=nullable(PARTITION_NUMBER),
    offset=nullable(OFFSET),
    end_offset=nullable(integer("The offset at which the search in this partition ends.")),
    partitions=integer("How many partitions the topic has."),
    done=boolean("Whether the search is complete."),
)


WRITES = Right(AclOperation.WRITE, ResourceType.TOPIC, "topic")
NEW_RECORDS = object_schema(
    "Records to produce.",
    records=array("The records, in order.", NEW_RECORD, minItems=1, maxItems=MAX_RECORDS),
    acks={
        **integer("-1: wait for all in-sync replicas; 1: only for the leader.", enum=[-1, 1]),
        "default": -1,
    },
    optional=("acks",),
)
WRITTEN = object_schema(
    "Where records were written.",
    topic=TOPIC_NAME,
    items=array(
        "For each record, in the order given.",
        object_schema(
            "A record.",
            partition=PARTITION_NUMBER,
            offset=nullable(integer("Its offset; null: it was not written, or may not have been.")),
            error=nullable(
                object_schema(
                    "Why not.",
                    error=string("The name of Kafka's error."),
                    detail=string("What is wrong."),
                    retriable=boolean("Whether the same request may succeed later."),
                )
            ),
        ),
    ),
)
RECORD_LOCATION = {
    "Location": _optional({**LOCATION["Location"], "description": "Where the record is, if there is one."}),
}


@frozen
class RecordViews:
    """
    Reads and writes records.

    :ivar reader: reads pages of partitions.
    :ivar writer: writes to partitions.
    :ivar replicas: those of this broker.
    :ivar streams: the streams of events.
    """

    metadata: ClusterMetadata
    reader: RecordReader
    writer: RecordWriter
    replicas: ReplicaManager
    streams: EventStreams

    @route(
        "GET",
        "/api/v1/topics/{topic}/partitions/{partition}/records",
        "Records of a partition, from an offset or a time on, or the newest ones",
        answer=PAGE,
        parameters={
            "topic": TOPIC_NAME,
            "partition": PARTITION_NUMBER,
            "offset": _optional(integer("Read from this offset on.", minimum=0, maximum=MAX_OFFSET)),
            **READING,
            "max_bytes": integer("Bytes that are fetched, at most.", minimum=1, maximum=4 << 20, default=1 << 20),
            **CONTAINS,
        },
        right=READS,
        served_by=lambda self, call: self.leader(call, call.path["partition"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def page(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        topic, partition = call.path["topic"], call.path["partition"]
        existing_partition(self.metadata, topic, partition)
        query = page_query(call.query)
        return Deferred.fromCoroutine(self._page(call.access, topic, partition, query))

    async def _page(self, access: HttpAccess, topic: str, partition: int, query: PageQuery) -> dict[str, Any]:
        return page_json(topic, partition, await self.reader.page(access, topic, partition, query))

    @route(
        "GET",
        "/api/v1/topics/{topic}/records",
        "Search the records of a topic, a part of them with each request",
        answer=FOUND,
        parameters={
            "topic": TOPIC_NAME,
            "cursor": _optional(string("The 'next' of the part before; none: begin.", maxLength=100)),
            **READING,
            **CONTAINS,
        },
        right=READS,
        served_by=lambda self, call: self.leader(call, self.cursor(call).partition),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def search(self, call: ViewRequest) -> Deferred[dict[str, Any]]:
        return Deferred.fromCoroutine(
            self._search(call.access, call.path["topic"], self.cursor(call), page_query(call.query))
        )

    @route(
        "POST",
        "/api/v1/topics/{topic}/records",
        "Produce records",
        answer=WRITTEN,
        body=NEW_RECORDS,
        parameters={"topic": TOPIC_NAME},
        status=HTTPStatus.CREATED,
        answer_headers=RECORD_LOCATION,
        right=WRITES,
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def produce(self, call: ViewRequest) -> Deferred[ViewResponse]:
        existing_topic(self.metadata, call.path["topic"])
        return Deferred.fromCoroutine(self._produce(call, call.body["records"]))

    @route(
        "POST",
        "/api/v1/topics/{topic}/partitions/{partition}/records",
        "Produce records to one partition",
        answer=WRITTEN,
        body=NEW_RECORDS,
        parameters={"topic": TOPIC_NAME, "partition": PARTITION_NUMBER},
        status=HTTPStatus.CREATED,
        answer_headers=RECORD_LOCATION,
        right=WRITES,
        served_by=lambda self, call: self.leader(call, call.path["partition"]),
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def produce_to(self, call: ViewRequest) -> Deferred[ViewResponse]:
        topic, partition = call.path["topic"], call.path["partition"]
        existing_partition(self.metadata, topic, partition)
        for number, one in enumerate(call.body["records"]):
            if one.get("partition", partition) != partition:
                raise HttpProblem(
                    HTTPStatus.BAD_REQUEST,
                    f"The body.records[{number}].partition is {one['partition']}, but the path says {partition}.",
                )
        return Deferred.fromCoroutine(self._produce_to(call, topic, partition))

    async def _produce(self, call: ViewRequest, given: Sequence[Mapping[str, Any]]) -> ViewResponse:
        topic = call.path["topic"]
        return _written(topic, await self.writer.write(call.access, topic, given, call.body.get("acks", -1)))

    async def _produce_to(self, call: ViewRequest, topic: str, partition: int) -> ViewResponse:
        records = self.writer.records(call.body["records"])
        base = await self.writer.append(call.access, topic, partition, records, call.body.get("acks", -1))
        rows = [{"partition": partition, "offset": base + place, "error": None} for place in range(len(records))]
        return _written(topic, rows)

    @route(
        "GET",
        "/api/v1/topics/{topic}/records/tail",
        "Follow the records of a topic, as a stream of events; its end is the client's",
        content_types=(EVENT_STREAM,),
        parameters={
            "topic": TOPIC_NAME,
            "partition": _optional(integer("Follow only this partition.", minimum=0, maximum=2**31 - 1)),
            **{name: schema for name, schema in READING.items() if name not in ("timestamp", "newest")},
            "newest": integer(
                "Begin this many offsets before the end of each partition.", minimum=0, maximum=1_000_000, default=0
            ),
            **CONTAINS,
        },
        right=READS,
        headers=LAST_EVENT_ID,
        rights="Needs Read on the Topic; asked again at every record.",
        errors=(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    def tail(self, call: ViewRequest) -> ViewResponse:
        topic, only = call.path["topic"], call.query["partition"]
        if only is not None:
            existing_partition(self.metadata, topic, only)
        partitions = range(len(existing_topic(self.metadata, topic).partitions)) if only is None else [only]
        if len(partitions) > MAX_PARTITIONS:
            raise HttpProblem(
                HTTPStatus.BAD_REQUEST,
                f"{topic} has {len(partitions)} partitions, and a stream follows at most {MAX_PARTITIONS}; "
                "name one with ?partition=.",
            )
        (last,) = call.headers.get("last-event-id", ("",))[:1]
        places = places_of(last, partitions) if last else {}
        query = page_query({"timestamp": None, **call.query})
        tail = RecordTail(
            self.reader, self.metadata, self.replicas, self.writer.relay, call.access, topic, partitions, query, places
        )
        return self.streams.respond(tail.events)

    def cursor(self, call: ViewRequest) -> Cursor:
        """
        Return where a search continues, or begins.

        :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION.
        :raise HttpProblem: the cursor is none of the topic.
        """
        partitions = len(existing_topic(self.metadata, call.path["topic"]).partitions)
        text = call.query["cursor"]
        return Cursor(0) if text is None else Cursor.decode(text, partitions)

    def leader(self, call: ViewRequest, partition: int) -> int | None:
        """
        Return the broker that leads a partition of the path's topic.

        :raise ApiError: LEADER_NOT_AVAILABLE.
        """
        return leader_of(self.metadata, TopicPartition(call.path["topic"], partition))

    async def _search(self, access: HttpAccess, topic: str, cursor: Cursor, query: PageQuery) -> dict[str, Any]:
        led_here = leader_of(self.metadata, TopicPartition(topic, cursor.partition))
        partitions = len(existing_topic(self.metadata, topic).partitions)

        def goes_on(partition: int) -> bool:
            known = self.metadata.partition(TopicPartition(topic, partition))
            return known is not None and known.leader == led_here

        part = await search(self.reader, access, topic, partitions, cursor, query, goes_on)
        at = part.cursor
        return {
            "topic": topic,
            "items": part.items,
            "next": None if at is None else at.encode(),
            "scanned": part.scanned,
            "partition": None if at is None else at.partition,
            "offset": None if at is None else at.offset,
            "end_offset": None if at is None else at.end,
            "partitions": partitions,
            "done": at is None,
        }


def _written(topic: str, rows: Sequence[Mapping[str, Any]]) -> ViewResponse:
    headers = {}
    if len(rows) == 1 and rows[0]["offset"] is not None:
        partition, offset = rows[0]["partition"], rows[0]["offset"]
        headers["Location"] = f"/api/v1/topics/{topic}/partitions/{partition}/records?offset={offset}&limit=1"
    return ViewResponse(HTTPStatus.CREATED, JSON, strict_json.dumps({"topic": topic, "items": rows}), headers)


def existing_partition(metadata: ClusterMetadata, topic: str, partition: int) -> None:
    """
    Check that there is a partition.

    :raise ApiError: UNKNOWN_TOPIC_OR_PARTITION.
    """
    count = len(existing_topic(metadata, topic).partitions)
    if partition >= count:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{topic} has no partition {partition}; it has {count}, numbered from 0.",
        )


def page_query(query: Mapping[str, Any]) -> PageQuery:
    """
    Return what the parameters of a request ask for.

    :raise HttpProblem: more than one says where to begin.
    """
    given = [name for name in ("offset", "timestamp", "newest") if query.get(name) is not None]
    if len(given) > 1:
        raise HttpProblem(
            HTTPStatus.BAD_REQUEST, f"The query parameters {' and '.join(given)} exclude each other; give one of them."
        )
    texts = {name: None if query[name] is None else query[name].encode("utf-8") for name in CONTAINS}
    return PageQuery(
        offset=query.get("offset"),
        timestamp=query["timestamp"],
        newest=query["newest"],
        limit=query["limit"],
        max_bytes=query.get("max_bytes", 1 << 20),
        shown=query["shown_bytes"],
        committed=query["isolation"] == "read_committed",
        wanted=RecordFilter(**texts),
    )


def page_json(topic: str, partition: int, page: RecordPage) -> dict[str, Any]:
    """Return a page as JSON."""
    return {
        "topic": topic,
        "partition": partition,
        "items": page.found.items,
        "next_offset": page.found.next_offset,
        "scanned": page.found.scanned,
        "log_start_offset": page.log_start_offset,
        "high_watermark": page.high_watermark,
        "last_stable_offset": page.last_stable_offset,
        "end_offset": page.end,
    }
