"""The ``logbus bench`` commands: measure the throughput and latency of a broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logbus.cli.options import bootstrap_options, json_option
from logbus.cli.output import Progress, print_json, quantity

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from logbus.cli.load_generator import LoadGenerator, LoadResult
    from logbus.client.cluster.cluster import Cluster

F = TypeVar("F", bound=Callable[..., Any])
_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}


@click.group()
def bench() -> None:
    """Measure any Kafka-compatible broker: rates, latencies, and CPU time if it runs on this machine.

    A topic that does not exist is created, and deleted at the end.

    \b
    Example:
      logbus bench produce --record-size 1000 --batch-records 100 --seconds 10
      logbus bench fetch --connections 4 --json
      logbus bench latency --acks all --count 5000
    """


def _common(command: F) -> F:
    for each in reversed(
        [
            click.option("--topic", default="logbus-bench", show_default=True),
            click.option(
                "--partitions",
                type=click.IntRange(min=1),
                default=4,
                show_default=True,
                help="Partitions of a new topic.",
            ),
            click.option(
                "--record-size", type=click.IntRange(min=1), default=1000, show_default=True, help="Bytes per record."
            ),
            click.option(
                "--codec",
                type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
                default="none",
                show_default=True,
            ),
            click.option("--acks", type=click.Choice(list(_ACKS)), default="all", show_default=True),
            click.option(
                "--pid",
                type=int,
                help="The broker's process id. Default: the process that listens at the bootstrap address.",
            ),
            click.option("--keep", is_flag=True, help="Do not delete the topic."),
        ]
    ):
        command = each(command)
    return json_option(bootstrap_options(command))


def _parallel(command: F) -> F:
    for each in reversed(
        [
            click.option("--connections", type=click.IntRange(min=1), default=1, show_default=True),
            click.option(
                "--depth",
                type=click.IntRange(min=1),
                default=5,
                show_default=True,
                help="Requests in flight per connection.",
            ),
            click.option("--seconds", type=click.FloatRange(min=0.01), default=5.0, show_default=True),
        ]
    ):
        command = each(command)
    return command


@bench.command()
@click.option(
    "--batch-records", type=click.IntRange(min=1), default=100, show_default=True, help="Records per request."
)
@_parallel
@_common
def produce(batch_records: int, connections: int, depth: int, seconds: float, **common: Any) -> None:
    """Measure how fast the broker accepts batches.

    \b
    Example:
      logbus bench produce --record-size 100 --batch-records 1 --acks 1 --connections 16
    """

    async def work(bench: LoadGenerator) -> tuple[LoadResult, dict[str, list[float]]]:
        tally = await bench.produce(_payload(common, batch_records), _ACKS[common["acks"]], seconds)
        return tally, {"answer": tally.latencies}

    _measure("produce", work, connections, depth, common)


@bench.command()
@click.option("--max-bytes", type=click.IntRange(min=1), default=1 << 20, show_default=True, help="Bytes per response.")
@click.option(
    "--fill-mb",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Megabytes to write to a new topic first.",
)
@_parallel
@_common
def fetch(max_bytes: int, fill_mb: int, connections: int, depth: int, seconds: float, **common: Any) -> None:
    """Measure how fast the broker delivers records.

    \b
    Example:
      logbus bench fetch --topic orders --connections 4
    """

    async def prepare(bench: LoadGenerator) -> None:
        records = max(1, min(1000, 500_000 // common["record_size"]))
        await bench.produce(_payload(common, records), 1, 600.0, fill_mb * 1_000_000)

    async def work(bench: LoadGenerator) -> tuple[LoadResult, dict[str, list[float]]]:
        tally = await bench.fetch(max_bytes, seconds)
        return tally, {"answer": tally.latencies}

    _measure("fetch", work, connections, depth, common, prepare)


@bench.command()
@click.option("--count", type=click.IntRange(min=1), default=2000, show_default=True, help="Number of records.")
@_common
def latency(count: int, **common: Any) -> None:
    """Measure the latency of single records: until the acknowledgement, and until a waiting reader has the record.

    \b
    Example:
      logbus bench latency --acks all --json
    """

    async def work(bench: LoadGenerator) -> tuple[LoadResult, dict[str, list[float]]]:
        tally, read = await bench.latency(_payload(common, 1), _ACKS[common["acks"]], count)
        return tally, {"answer": tally.latencies, "read": read}

    _measure("latency", work, 1, 1, common)


def _payload(common: dict[str, Any], records: int) -> Any:
    from logbus.cli.load_generator import batch_template
    from logbus.records.compression import codec_named

    return batch_template(common["record_size"], records, codec_named(common["codec"]))


def _measure(
    name: str,
    work: Callable[[LoadGenerator], Coroutine[Deferred[Any], Any, tuple[LoadResult, dict[str, list[float]]]]],
    connections: int,
    depth: int,
    common: dict[str, Any],
    prepare: Callable[[LoadGenerator], Coroutine[Deferred[Any], Any, None]] | None = None,
) -> None:
    from logbus.cli.load_generator import LoadGenerator, percentiles
    from logbus.cli.process_usage import listener_pid, process_usage
    from logbus.cli.runner import CommandFailed, with_cluster
    from logbus.client.admin.admin_client import AdminClient, NewTopic
    from logbus.client.cluster.cluster import TopicMetadata
    from logbus.errors import ApiError, ErrorCode

    progress = Progress()

    def show(tally: LoadResult) -> None:
        progress.show(f"{name}: {quantity(tally.records)} records, {quantity(tally.bytes)}B")

    async def session(cluster: Cluster) -> dict[str, Any]:
        admin = AdminClient(cluster, timeout=common["timeout"])
        topic_name = common["topic"]
        created = (await admin.create_topics([NewTopic(topic_name, common["partitions"])]))[topic_name]
        if created is not None and created.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise created
        ours = created is None
        try:
            topic: TopicMetadata = await cluster.topic(topic_name)
            bench = LoadGenerator(cluster, topic, connections, depth, show)
            await bench.ready()
            if prepare is not None and ours:
                await prepare(bench)
            pid = common["pid"] or listener_pid(*cluster.bootstrap[0])
            before = None if pid is None else process_usage(pid)
            if common["pid"] is not None and before is None:
                raise CommandFailed(f"there is no process {common['pid']}")
            own = time.process_time()
            tally, latencies = await work(bench)
            own = time.process_time() - own
            after = None if pid is None else process_usage(pid)
        finally:
            progress.clear()
            if ours and not common["keep"]:
                gone = (await admin.delete_topics([topic_name]))[topic_name]
                if isinstance(gone, ApiError) and gone.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    progress.clear()
        seconds = max(tally.seconds, 1e-9)
        found: dict[str, Any] = {
            "bench": name,
            "topic": topic_name,
            "seconds": round(seconds, 3),
            "requests": tally.requests,
            "records": tally.records,
            "bytes": tally.bytes,
            "requests_per_second": round(tally.requests / seconds, 1),
            "records_per_second": round(tally.records / seconds, 1),
            "mb_per_second": round(tally.bytes / seconds / 1e6, 3),
            "latency_ms": {what: percentiles(each) for what, each in latencies.items() if each},
            "client_cpu_seconds": round(own, 3),
        }
        if before is not None and after is not None:
            cpu = after.cpu_seconds - before.cpu_seconds
            found["broker"] = {
                "pid": pid,
                "cpu_seconds": round(cpu, 3),
                "cpu_seconds_per_gb": round(cpu / max(tally.bytes, 1) * 1e9, 3),
                "cpu_us_per_request": round(cpu / max(tally.requests, 1) * 1e6, 2),
                "resident_mb": round(after.resident_bytes / 1e6, 1),
            }
        return found

    found = with_cluster(common["bootstrap"], common["timeout"], session)
    if common["as_json"]:
        print_json(found)
        return
    click.echo(
        f"{name}: {found['records_per_second']:,.0f} records/s, {found['mb_per_second']:,.1f} MB/s, "
        f"{found['requests_per_second']:,.0f} requests/s in {found['seconds']:g} s"
    )
    for what, each in found["latency_ms"].items():
        spelled = "  ".join(f"{point} {value:g}" for point, value in each.items())
        click.echo(f"  until {'the answer' if what == 'answer' else 'it is read'}, ms:  {spelled}")
    broker = found.get("broker")
    if broker is not None:
        click.echo(
            f"  broker (process {broker['pid']}): {broker['cpu_seconds_per_gb']:g} CPU s/GB, "
            f"{broker['cpu_us_per_request']:g} µs/request, {broker['resident_mb']:g} MB resident"
        )
    share = found["client_cpu_seconds"] / found["seconds"]
    limit = "; this client is the limit" if share > 0.9 else ""
    click.echo(f"  client: {share:.0%} of a core{limit}")
