"""The ``logbus doctor`` command: says what to mend on a machine, in a configuration and in a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logbus.cli.colours import Style, styled
from logbus.cli.options import json_option
from logbus.cli.output import print_json

if TYPE_CHECKING:
    from logbus.cli.doctor.finding import Finding


_STYLES: dict[str, Style] = {"broken": "red", "risk": "yellow", "better": "cyan"}
"""By the word for a finding's weight."""


@click.command("doctor")
@click.option(
    "--config",
    "-c",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A Kafka-style server.properties file.",
)
@click.option("--set", "-s", "settings", multiple=True, metavar="KEY=VALUE", help="A setting, as of the broker.")
@click.option("--admin", metavar="URL", help="A cluster to look at: the admin listener of any of its brokers.")
@json_option
@click.pass_context
def doctor(
    context: click.Context, path: Path | None, settings: tuple[str, ...], admin: str | None, as_json: bool
) -> None:
    """Say what to mend: on this machine, in a broker's configuration, and in a cluster that runs. Each finding says
    what happens otherwise, and what to do; the heaviest come first. Nothing is changed. The exit status is 0 if there
    is nothing to mend but what could be better, 1 otherwise, 2 if something cannot be looked at.

    \b
    Example:
      logbus doctor --config server.properties
      logbus doctor --admin http://127.0.0.1:8080
    """
    from attrs import asdict

    from logbus.cli.doctor.cluster import ClusterSilent
    from logbus.cli.doctor.finding import Weight, by_weight
    from logbus.errors import ConfigError

    try:
        findings = by_weight(_look(path, settings, admin))
    except (ClusterSilent, ConfigError) as error:
        raise click.UsageError(str(error), context) from error
    for finding in findings:
        if as_json:
            print_json({**asdict(finding), "weight": finding.weight.word})
            continue
        word = styled(f"{finding.weight.word}:", _STYLES[finding.weight.word], sys.stdout)
        click.echo(f"{word} {finding.subject}: {finding.what}")
        click.echo(f"  otherwise: {finding.otherwise}\n  what to do: {finding.remedy}")
    if not as_json:
        counts = [sum(finding.weight is weight for finding in findings) for weight in Weight]
        click.echo("{} broken, {} at risk, {} could be better".format(*counts))
    context.exit(1 if any(finding.weight is not Weight.BETTER for finding in findings) else 0)


def _look(path: Path | None, settings: tuple[str, ...], admin: str | None) -> Iterator[Finding]:
    from logbus.cli.doctor.cluster import ask_over_http, cluster_findings
    from logbus.cli.doctor.configuration import all_errors, config_findings, wrong
    from logbus.cli.doctor.machine import directory_facts, directory_findings, machine_facts, machine_findings
    from logbus.config import ConfigView, keys
    from logbus.errors import ConfigError
    from logbus.listener_config import resolve_listeners
    from logbus.server_options import parse_set, read_file

    if admin is not None:
        yield from cluster_findings(ask_over_http(admin))
        if path is None and not settings:
            # The defaults are the configuration of none of its brokers.
            yield from machine_findings(machine_facts(), None)
            return
    file, origins, repeated = read_file(str(path)) if path is not None else ({}, {}, [])
    given = {**file, **dict(parse_set(text) for text in settings)}
    origins = {**origins, **{text.partition("=")[0].strip(): "--set" for text in settings}}
    config = None
    errors = list(all_errors(given, origins))
    if not errors:
        config = ConfigView.load({}, given, origins, warnings=repeated)
        try:
            listeners = resolve_listeners([], [], config)
        except ConfigError as error:
            errors = [wrong(error)]
        else:
            yield from config_findings(config, listeners)
        directories = [directory_facts(each, config.get(keys.BROKER_ID)) for each in config.get(keys.LOG_DIRS)]
        yield from directory_findings(directories, config.get(keys.LOG_DIR_USAGE_WARN_RATIO))
    yield from errors
    yield from machine_findings(machine_facts(), config)
