"""The ``logbus pipeline audit`` command: compares published and consumed counts with tables of the lake."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import click

from logbus.cli.audit_query import AuditQuery, audit_options, print_comparisons
from logbus.cli.options import check_registry_auth, json_option, registry_auth_option, registry_urls
from logbus.cli.output import print_json
from logbus.cli.pipeline_job import Job, job_options, kafka_options, new_file_option
from logbus.cli.pipeline_options import option_of_catalog, parse_named, store_of, store_options


@click.command()
@audit_options
@click.option(
    "--table", "tables", multiple=True, metavar="NAME=DIR", help="A table of 'logbus pipeline load'; may be repeated."
)
@click.option(
    "--iceberg",
    "iceberg_tables",
    multiple=True,
    metavar="NAME=TABLE",
    help="The same of Iceberg, such as lake=shop.views; may be repeated.",
)
@option_of_catalog
@store_options
@click.option("--only", "topics", multiple=True, metavar="TOPIC", help="Audit this topic only; may be repeated.")
@click.option(
    "--schema-registry", metavar="URL", callback=registry_urls, help="The schema registry for events in framed Avro."
)
@registry_auth_option(default="")
@new_file_option("--page", "A file for a page with plots, in HTML.")
@json_option
@kafka_options
@job_options
def audit(
    query: AuditQuery,
    tables: tuple[str, ...],
    iceberg_tables: tuple[str, ...],
    catalog: str,
    store_settings: tuple[str, ...],
    topics: tuple[str, ...],
    schema_registry: str | None,
    registry_auth: str,
    page: str | None,
    as_json: bool,
    kafka: Mapping[str, str],
    job: Job,
) -> int:
    """Compare the records that producers published with those that consumers read and tables contain, by topic and
    window. The exit status is 1 if records are missing, or if that is unknown, and if more monitoring events are
    unreadable or more records duplicated than allowed.

    \b
    Example:
      logbus pipeline audit --table lake=lake/events
      logbus pipeline audit --iceberg lake=shop.events --catalog demo
      logbus pipeline audit --table lake=lake/events --expect warehouse=events --page audit.html
    """
    from logbus.cli.app import print_error
    from logbus.client.audit.audit_comparison import loss_sentences
    from logbus.pipeline.blocking.schema_registry import RegistryClient
    from logbus.pipeline.jobs.audit import AuditOptions, run
    from logbus.pipeline.jobs.audit_page import page as page_of

    for option, value, needs in (("--catalog", catalog, iceberg_tables), ("--store-option", store_settings, tables)):
        if value and not needs:
            raise click.UsageError(f"{option} is for {'--iceberg' if option == '--catalog' else '--table'}")
    check_registry_auth(schema_registry)
    options = AuditOptions(
        source={"subscribe": query.topic, **kafka},
        tables=parse_named(tables, "--table", "lake=lake/orders"),
        iceberg_tables=parse_named(iceberg_tables, "--iceberg", "lake=shop.orders"),
        catalog=catalog,
        store_options=store_of(store_settings),
        topics=topics,
        since_ms=query.since_ms or 0,
        until_ms=query.until_ms,
        grace=query.grace,
        measure=query.measure,
        expected=query.expected,
        registry=None if schema_registry is None else RegistryClient(schema_registry, registry_auth),
        limits=query.limits,
    )
    done = job.run(lambda spark, watch: run(spark, options, watch), options.check)
    if page is not None:
        text = page_of(done, made_ms=int(time.time() * 1000))
        Path(page).write_text(text, encoding="utf-8", errors="replace")
    if as_json:
        print_json(done.as_json())
    else:
        print_comparisons(done.comparisons)
        for name, found in done.doubled.items():
            for doubled, count in found.items():
                click.echo(f"{name}: {count} rows of {doubled} have an offset that another row has")
    if not job.quiet:
        for name, notes in done.notes.items():
            for note in notes:
                click.echo(f"audit: {name}: {note}", err=True)
    for sentence in (*done.unknown, *loss_sentences(done.comparisons)):
        print_error(sentence)
    if done.unreadable:
        print_error(f"ignored {done.unreadable} records that are no monitoring events; the first: {done.problem}")
    for sentence in done.exceeded:
        print_error(sentence)
    return 1 if done.has_failed else 0
