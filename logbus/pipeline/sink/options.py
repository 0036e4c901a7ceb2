"""The write options of ``format("logbus")``: those of Spark's Kafka sink, and a delivery guarantee. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from logbus.model import topic_name_problem
from logbus.pipeline.blocking.connection_settings import CONNECTION_OPTIONS as CONNECTION
from logbus.pipeline.blocking.connection_settings import CONNECTION_REFUSED, PREFIX, ConnectionSettings
from logbus.pipeline.blocking.producer import DeliverySettings
from logbus.pipeline.errors import OptionError
from logbus.pipeline.options import (
    Option,
    OptionTable,
    OptionType,
    Refusal,
    boolean,
    check_names,
    integer,
    milliseconds,
    one_of,
)
from logbus.records.compression import Codec, codec_named

_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"


def _topic(given: str) -> str:
    if topic_name_problem(given):
        raise ValueError(given)
    return given


def _id(given: str) -> str:
    if not _ID.fullmatch(given):
        raise ValueError(given)
    return given


_IDS = OptionType(_id, "1 to 128 letters, digits, '.', '_' or '-'")

SINK_OPTIONS = OptionTable(
    [
        Option(
            "topic",
            OptionType(_topic, "the name of a topic"),
            None,
            "The topic of all rows; it takes precedence over a column ``topic``. Required without such a column.",
        ),
        Option(
            "deliveryGuarantee",
            one_of(AT_LEAST_ONCE, EXACTLY_ONCE),
            AT_LEAST_ONCE,
            "``at-least-once``: a retried task writes its rows again. ``exactly-once``: rows are written in "
            "transactions, so that readers of committed records see each row of a stream once.",
        ),
        Option(
            "transactionalIdPrefix",
            _IDS,
            "logbus-spark",
            "With ``exactly-once``: the prefix of transactional ids, and of the groups that save committed batches. "
            "It must not change while a query exists.",
        ),
        Option(
            "txnAppId",
            _IDS,
            None,
            "With ``exactly-once``, for batches: the name of the writer. With ``txnVersion`` a write can be repeated, "
            "as in ``foreachBatch``: what is committed is not written again.",
        ),
        Option("txnVersion", integer(0), None, "The number of the write by ``txnAppId``, such as that of the batch."),
    ]
)

PRODUCER_OPTIONS = OptionTable(
    [
        Option(
            "acks",
            one_of("all", "-1", "1"),
            "all",
            "``all``: a row is written when all in-sync replicas have it; ``1``: when the leader has it, and may be "
            "lost with it. ``0`` is refused, since it allows no guarantee.",
        ),
        Option(
            "enable.idempotence",
            boolean(),
            None,
            "Whether brokers recognize repeated batches; default: with ``acks`` ``all``.",
        ),
        Option(
            "compression.type",
            one_of("none", "gzip", "snappy", "lz4", "zstd"),
            "none",
            "``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``.",
        ),
        Option("compression.gzip.level", integer(1, 9), None, "1 to 9."),
        Option("compression.lz4.level", integer(1, 17), None, "1 to 17."),
        Option("compression.zstd.level", integer(-131072, 22), None, "-131072 to 22."),
        Option(
            "batch.size",
            integer(0, 64 << 20),
            256 << 10,
            "The most bytes of one batch, before compression. Larger than in Kafka's producer, since rows come in "
            "thousands.",
        ),
        Option(
            "linger.ms",
            milliseconds(0),
            0.0,
            "How long rows may wait for more rows of the same task, for larger batches with many partitions.",
        ),
        Option(
            "max.request.size",
            integer(1, 128 << 20),
            1 << 20,
            "The most bytes of one request, and of one record, before compression.",
        ),
        Option(
            "buffer.memory",
            integer(1, 2**40),
            32 << 20,
            "The most bytes of unacknowledged batches; a task waits while there are more.",
        ),
        Option(
            "delivery.timeout.ms",
            milliseconds(1),
            120.0,
            "How long a batch is retried, as when leaders move or brokers restart.",
        ),
        Option("retries", integer(0, 2**31 - 1), 2**31 - 1, "The most retries of a batch."),
        Option(
            "max.in.flight.requests.per.connection",
            integer(1, 1000),
            5,
            "Requests in flight to a broker. Rows of a partition keep their order in any case.",
        ),
        Option(
            "max.block.ms",
            milliseconds(0),
            5.0,
            "How long to wait for a topic that brokers create automatically.",
        ),
        Option(
            "transaction.timeout.ms",
            milliseconds(1),
            900.0,
            "How long a batch of a stream may take until the brokers abort it; at most their "
            "``transaction.max.timeout.ms``.",
        ),
    ]
)
"""The ``kafka.*`` options about producing."""

_ANYWHERE = Refusal("rows without a key go to one partition after the other; leave it out")

REFUSED = {
    "includeHeaders": Refusal("a column headers is written if there is one; drop it from the rows", "true"),
    "kafka.metadata.max.age.ms": Refusal("metadata are requested with each task; leave it out"),
    "kafka.metadata.max.idle.ms": Refusal("metadata are requested with each task; leave it out"),
    "kafka.partitioner.adaptive.partitioning.enable": _ANYWHERE,
    "kafka.partitioner.availability.timeout.ms": _ANYWHERE,
    "kafka.key.serializer": Refusal("keys are bytes or text; make them so with columns' functions"),
    "kafka.value.serializer": Refusal("values are bytes or text; make them so with columns' functions"),
    "kafka.transactional.id": Refusal(
        "it is made of transactionalIdPrefix, query and task; say deliveryGuarantee exactly-once"
    ),
    "kafka.transaction.two.phase.commit.enable": Refusal("transactions are ended by the driver of the query"),
    "kafka.partitioner.class": Refusal(
        "there is no Java producer that could load it; a column 'partition' says where rows go"
    ),
    "kafka.partitioner.ignore.keys": Refusal(
        "a column 'partition' says where rows go; without a key they go anywhere", "false"
    ),
    "kafka.interceptor.classes": Refusal("there is no Java producer whose records they could change"),
    **{PREFIX + name: each for name, each in CONNECTION_REFUSED.items()},
}
"""The options that are refused, by name."""

SPARK_OPTIONS = frozenset({"checkpointlocation", "queryname", "path", "outputmode"})
"""Spark's own options, which it passes on to the sink."""


@frozen
class BatchingSettings:
    """
    The settings of putting rows into record batches.

    :ivar level: of compression; None: the codec's default.
    :ivar batch_bytes: of one batch, before compression.
    :ivar record_bytes: of one record, at most.
    :ivar linger: seconds for which rows wait for more.
    """

    codec: Codec = Codec.NONE
    level: int | None = None
    batch_bytes: int = 256 << 10
    record_bytes: int = 1 << 20
    linger: float = 0.0


@frozen
class SinkOptions:
    """
    The parsed options; times are in seconds.

    :ivar topic: None: a column says.
    :ivar idempotent: the producer is idempotent (``enable.idempotence``).
    :ivar app_id: ``txnAppId``, with ``version``, ``txnVersion``; both None: the write is not repeatable.
    :ivar topic_wait: for how long to wait for a topic to be created (``max.block.ms``).
    """

    settings: ConnectionSettings
    topic: str | None
    exactly_once: bool
    prefix: str
    app_id: str | None
    version: int | None
    idempotent: bool
    packing: BatchingSettings
    delivery: DeliverySettings
    topic_wait: float
    transaction_timeout: float


def read_sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """
    Read and check all options.

    :param given: names in any case.
    :raises OptionError: names the first that is wrong, and what it takes.
    """
    check_names(
        given,
        SINK_OPTIONS,
        [CONNECTION, PRODUCER_OPTIONS],
        prefix=PREFIX,
        refused=REFUSED,
        passed_over=SPARK_OPTIONS,
    )
    values = SINK_OPTIONS.read(given)
    settings = ConnectionSettings.from_options(given, PREFIX)
    kafka = PRODUCER_OPTIONS.read(given, PREFIX)
    exactly_once = values["deliveryGuarantee"] == EXACTLY_ONCE
    _check_versions(values, exactly_once=exactly_once, streaming=streaming)
    all_acks = kafka["acks"] != "1"
    idempotent = kafka["enable.idempotence"]
    for asked, what in ((exactly_once, "deliveryGuarantee exactly-once"), (idempotent, "kafka.enable.idempotence")):
        if asked and not all_acks:
            raise OptionError(f"option 'kafka.acks': {what} needs all of them; it takes all")
    if exactly_once and idempotent is False:
        raise OptionError("option 'kafka.enable.idempotence': deliveryGuarantee exactly-once needs it; it takes true")
    in_flight = kafka["max.in.flight.requests.per.connection"]
    codec = codec_named(kafka["compression.type"])
    return SinkOptions(
        settings=settings,
        topic=values["topic"],
        exactly_once=exactly_once,
        prefix=values["transactionalIdPrefix"],
        app_id=values["txnAppId"],
        version=values["txnVersion"],
        idempotent=all_acks if idempotent is None else idempotent,
        packing=BatchingSettings(
            codec=codec,
            level=kafka.get(f"compression.{codec.name.lower()}.level"),
            batch_bytes=min(kafka["batch.size"], kafka["max.request.size"]),
            record_bytes=kafka["max.request.size"],
            linger=kafka["linger.ms"],
        ),
        delivery=DeliverySettings(
            acks=-1 if all_acks else 1,
            timeout=kafka["delivery.timeout.ms"],
            retries=kafka["retries"],
            request_bytes=kafka["max.request.size"],
            buffer_bytes=kafka["buffer.memory"],
            in_flight=in_flight,
        ),
        topic_wait=kafka["max.block.ms"],
        transaction_timeout=kafka["transaction.timeout.ms"],
    )


def connection_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options about connections, of those for a source whose brokers the sink writes to as well."""
    return {name: value for name, value in given.items() if name.lower().removeprefix(PREFIX) in CONNECTION}


def _check_versions(values: Mapping[str, Any], *, exactly_once: bool, streaming: bool) -> None:
    names = [name for name in ("txnAppId", "txnVersion") if values[name] is not None]
    if not names:
        return
    if streaming:
        raise OptionError(f"option {names[0]!r} is for batches; a stream has a query id and numbers of its own")
    if not exactly_once:
        raise OptionError(f"option {names[0]!r} needs the option 'deliveryGuarantee' to be {EXACTLY_ONCE}")
    if len(names) == 1:
        raise OptionError("options 'txnAppId' and 'txnVersion' go together; one is missing")
