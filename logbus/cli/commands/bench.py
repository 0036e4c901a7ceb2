"""The ``logbus bench`` commands: measure the throughput and latency of a broker."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logbus.cli.number_types import FloatRange, IntRange
from logbus.cli.options import ACKS, acks_option, bootstrap_options, codec_option, json_option
from logbus.cli.output import print_json

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from logbus.cli.benchmark import Latencies, Load
    from logbus.cli.load_generator import LoadGenerator, LoadResult

F = TypeVar("F", bound=Callable[..., Any])


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
            click.option("--topic", default="logbus-bench", show_default=True, help="The topic to write and read."),
            click.option(
                "--partitions",
                type=IntRange(min=1),
                default=4,
                show_default=True,
                help="Partitions of a new topic.",
            ),
            click.option(
                "--record-size", type=IntRange(min=1), default=1000, show_default=True, help="Bytes per record."
            ),
            codec_option,
            acks_option,
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
            click.option(
                "--connections", type=IntRange(min=1), default=1, show_default=True, help="Connections side by side."
            ),
            click.option(
                "--depth",
                type=IntRange(min=1),
                default=5,
                show_default=True,
                help="Requests in flight per connection.",
            ),
            click.option(
                "--seconds", type=FloatRange(min=0.01), default=5.0, show_default=True, help="How long to measure."
            ),
        ]
    ):
        command = each(command)
    return command


@bench.command()
@click.option("--batch-records", type=IntRange(min=1), default=100, show_default=True, help="Records per request.")
@_parallel
@_common
def produce(batch_records: int, connections: int, depth: int, seconds: float, **common: Any) -> None:
    """Measure how fast the broker accepts batches.

    \b
    Example:
      logbus bench produce --record-size 100 --batch-records 1 --acks 1 --connections 16
    """

    async def work(bench: LoadGenerator) -> tuple[LoadResult, Latencies]:
        tally = await bench.produce(_payload(common, batch_records), ACKS[common["acks"]], seconds)
        return tally, {"answer": tally.latencies}

    _run("produce", work, connections, depth, common)


@bench.command()
@click.option("--max-bytes", type=IntRange(min=1), default=1 << 20, show_default=True, help="Bytes per response.")
@click.option(
    "--fill-mb",
    type=IntRange(min=1),
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

    async def work(bench: LoadGenerator) -> tuple[LoadResult, Latencies]:
        tally = await bench.fetch(max_bytes, seconds)
        return tally, {"answer": tally.latencies}

    _run("fetch", work, connections, depth, common, prepare)


@bench.command()
@click.option("--count", type=IntRange(min=1), default=2000, show_default=True, help="Number of records.")
@_common
def latency(count: int, **common: Any) -> None:
    """Measure the latency of single records: until the acknowledgement, and until a waiting reader has the record.

    \b
    Example:
      logbus bench latency --acks all --json
    """

    async def work(bench: LoadGenerator) -> tuple[LoadResult, Latencies]:
        tally, read = await bench.latency(_payload(common, 1), ACKS[common["acks"]], count)
        return tally, {"answer": tally.latencies, "read": read}

    _run("latency", work, 1, 1, common)


def _payload(common: Mapping[str, Any], records: int) -> Any:
    from logbus.cli.load_generator import batch_template
    from logbus.records.compression import codec_named

    return batch_template(common["record_size"], records, codec_named(common["codec"]))


def _run(
    name: str,
    load: Load,
    connections: int,
    depth: int,
    common: Mapping[str, Any],
    prepare: Callable[[LoadGenerator], Coroutine[Deferred[Any], Any, object]] | None = None,
) -> None:
    from logbus.cli.benchmark import Benchmark, print_figures
    from logbus.cli.runner import with_cluster

    benchmark = Benchmark(
        name=name,
        topic=common["topic"],
        partitions=common["partitions"],
        connections=connections,
        depth=depth,
        load=load,
        prepare=prepare,
        pid=common["pid"],
        keep=common["keep"],
        timeout=common["timeout"],
    )
    found = with_cluster(common["bootstrap"], common["timeout"], benchmark.run)
    if common["as_json"]:
        print_json(found)
    else:
        print_figures(found)
