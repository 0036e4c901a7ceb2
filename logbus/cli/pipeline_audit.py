"""``logbus pipeline audit``."""

from __future__ import annotations

import time
from pathlib import Path

import click

from logbus.cli.options import pairs, when
from logbus.cli.output import print_json, print_table
from logbus.cli.pipeline import job_options, kafka_options, kafka_settings, run_job


@click.command()
@click.option("--topic", default="logbus-audit", show_default=True, help="Where the monitoring events are.")
@click.option(
    "--table", "tables", multiple=True, metavar="NAME=DIR", help="A table of 'logbus pipeline load'; may be repeated."
)
@click.option("--only", "topics", multiple=True, metavar="TOPIC", help="Audit this topic only; may be repeated.")
@click.option("--since", metavar="WHEN", help="Windows that begin at this time or later: as for 'logbus audit'.")
@click.option("--until", metavar="WHEN", help="Windows that begin before this time.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    help="Seconds after the end of a window for which it is not judged.",
)
@click.option("--measure", default="producer", show_default=True, help="The role whose counts the others must reach.")
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="APPLICATION=TOPIC",
    help="An application that must have consumed a topic, also if it reports nothing; may be repeated.",
)
@click.option("--schema-registry", metavar="URL", help="Where schemas of events in framed Avro are.")
@click.option("--registry-auth", metavar="USER:PASSWORD", default="", envvar="LOGBUS_REGISTRY_AUTH", help="For it.")
@click.option("--page", type=click.Path(dir_okay=False, writable=True), help="A file for a page with plots, in HTML.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@kafka_options
@job_options
def audit(
    topic: str,
    tables: tuple[str, ...],
    topics: tuple[str, ...],
    since: str | None,
    until: str | None,
    grace: float,
    measure: str,
    expected: tuple[str, ...],
    schema_registry: str | None,
    registry_auth: str,
    page: str | None,
    as_json: bool,
    bootstrap: str,
    kafka_settings_: tuple[str, ...],
    master: str | None,
    spark_settings: tuple[str, ...],
    report: str | None,
    quiet: bool,
) -> int:
    """Reconcile what producers say they published with what consumers say they read and with what tables hold, by topic
    and window. Where records are missing, or it cannot be told, the exit status is 1.

    \b
    Example:
      logbus pipeline audit --table lake=lake/events
      logbus pipeline audit --table lake=lake/events --expect warehouse=events --page audit.html
    """
    from logbus.cli.app import complain
    from logbus.pipeline.jobs.audit import AuditOptions, run
    from logbus.pipeline.jobs.audit_page import page as page_of
    from logbus.pipeline.jobs.registry import Registry
    from logbus.pipeline.jobs.times import time_text

    for each in expected:
        pairs((each,), "--expect")
    options = AuditOptions(
        source={"subscribe": topic, **kafka_settings(bootstrap, kafka_settings_)},
        tables=pairs(tables, "--table"),
        topics=topics,
        since_ms=0 if since is None else when(since, "--since"),
        until_ms=None if until is None else when(until, "--until"),
        grace=grace,
        measure=measure,
        expected=[(application, name) for application, _, name in (each.partition("=") for each in expected)],
        registry=None if schema_registry is None else Registry(schema_registry, registry_auth),
    )
    done = run_job(
        "audit",
        lambda spark, watch: run(spark, options, watch),
        master=master,
        spark_settings=spark_settings,
        report=report,
        quiet=quiet,
    )
    if page is not None:
        text = page_of(done, made_ms=int(time.time() * 1000))
        Path(page).write_text(text, encoding="utf-8", errors="replace")
    if as_json:
        print_json(done.as_json())
    else:
        print_table(
            ["topic", "window", "application", "role", "published", "counted", "missing", "failed", "verdict"],
            [
                (
                    each.topic,
                    time_text(each.window_start),
                    each.application,
                    each.role,
                    each.published,
                    each.counted,
                    each.missing,
                    each.failed,
                    each.verdict.value,
                )
                for each in done.comparisons
            ],
        )
        for name, found in done.doubled.items():
            for doubled, count in found.items():
                click.echo(f"{name}: {count} rows of {doubled} have an offset that another row has")
    if not quiet:
        for name, notes in done.notes.items():
            for note in notes:
                click.echo(f"audit: {name}: {note}", err=True)
    for sentence in done.unknown:
        complain(sentence)
    if done.unreadable:
        complain(f"left out what is no monitoring event ({done.unreadable} of the records); the first: {done.problem}")
    return 1 if done.has_loss else 0
