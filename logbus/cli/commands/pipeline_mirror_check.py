"""The ``logbus pipeline mirror-check`` command: compares topics of two clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from logbus.cli.number_types import FloatRange, IntRange
from logbus.cli.options import json_option, timestamp_ms
from logbus.cli.output import print_json, print_table
from logbus.cli.pipeline_job import Job, job_options, kafka_options, kafka_settings
from logbus.cli.pipeline_options import parse_named, subscription

if TYPE_CHECKING:
    from logbus.pipeline.jobs.mirror import MirrorReport


@click.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option("--pattern", metavar="REGEX", help="Topics whose names it matches, instead of TOPIC.")
@click.option("--mirror", required=True, metavar="HOST:PORT", help="A broker of the cluster with the copies.")
@click.option(
    "--mirror-kafka", "mirror_settings", multiple=True, metavar="KEY=VALUE", help="As --kafka, for the mirror."
)
@click.option(
    "--rename", "rename", multiple=True, metavar="TOPIC=COPY", help="The copy has this name; may be repeated."
)
@click.option("--since", metavar="WHEN", help="Records from this time on: as for 'logbus consume --timestamp'.")
@click.option("--until", metavar="WHEN", help="Records before this time; needed while records arrive.")
@click.option(
    "--late",
    type=FloatRange(min=0),
    default=3600.0,
    show_default=True,
    help="Seconds by which a record before --until may follow later ones.",
)
@click.option(
    "--compacted", is_flag=True, help="Compare the last record of each key: clusters compact at different times."
)
@click.option("--any-partition", is_flag=True, help="Accept copies in another partition.")
@click.option("--any-time", is_flag=True, help="Accept copies with another time.")
@click.option("--examples", type=IntRange(min=0), default=10, show_default=True, help="Differences to show.")
@json_option
@kafka_options
@job_options
def mirror_check(
    topics: tuple[str, ...],
    pattern: str | None,
    mirror: str,
    mirror_settings: tuple[str, ...],
    rename: tuple[str, ...],
    since: str | None,
    until: str | None,
    late: float,
    compacted: bool,
    any_partition: bool,
    any_time: bool,
    examples: int,
    as_json: bool,
    kafka: Mapping[str, str],
    job: Job,
) -> int:
    """Check that topics of two clusters contain the same records the same number of times: keys, values, headers, times
    and partitions. The exit status is 1 if they do not.

    \b
    Example:
      logbus pipeline mirror-check orders -b here:9092 --mirror there:9092
      logbus pipeline mirror-check --pattern 'orders.*' --mirror there:9092 --until 2024-05-02T00:00
    """
    from logbus.pipeline.jobs.mirror import MirrorOptions, run

    here = subscription(topics, pattern)
    renamed = parse_named(rename, "--rename", "orders=here.orders")
    if pattern and renamed:
        raise click.UsageError("--rename is for topics that are named, not for --pattern")
    there = here if pattern else {"subscribe": ",".join(renamed.get(each, each) for each in topics)}
    options = MirrorOptions(
        source={**kafka, **here},
        mirror={**kafka_settings(mirror, mirror_settings, "--mirror-kafka"), **there},
        rename=renamed,
        partitions=not any_partition,
        timestamps=not any_time,
        since_ms=None if since is None else timestamp_ms(since, "--since"),
        until_ms=None if until is None else timestamp_ms(until, "--until"),
        late=late,
        compacted=compacted,
        examples=examples,
    )
    done = job.run(lambda spark, watch: run(spark, options, watch), options.check)
    if as_json:
        print_json(done.as_json())
    else:
        _print(done, any_partition)
    return 0 if done.is_same else 1


def _print(found: MirrorReport, any_partition: bool) -> None:
    from logbus.pipeline.jobs.time_text import time_text

    print_table(
        ["topic", "source", "mirror", "missing", "extra"],
        [(each.topic, each.source, each.mirror, each.missing, each.extra) for each in found.topics],
    )
    for each in found.topics:
        for what, examples in (("missing", each.missing_examples), ("extra", each.extra_examples)):
            for one in examples:
                click.echo(
                    f"{each.topic}-{one.partition} offset {one.offset} of {time_text(one.at_ms)}: {what}, {one.more}x"
                )
    for each in found.topics:
        if not each.source_partitions or not each.mirror_partitions:
            click.echo(f"{each.topic} is not in the {'mirror' if each.source_partitions else 'source'}")
        elif not each.is_same and not any_partition and each.source_partitions != each.mirror_partitions:
            click.echo(
                f"{each.topic} has {each.source_partitions} partitions, its copy {each.mirror_partitions}: compare "
                "with --any-partition"
            )
