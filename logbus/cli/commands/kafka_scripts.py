"""The ``logbus kafka-scripts`` command: writes scripts named as Kafka's that take the same options."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("kafka-scripts")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--without-sh", is_flag=True, help="Also write them without .sh: kafka-topics beside kafka-topics.sh.")
def kafka_scripts(directory: Path, without_sh: bool) -> None:
    """Write scripts named as Kafka's, such as kafka-topics.sh, into a directory.

    They take the options of Kafka's scripts and answer in the same words and layout, without Java: for habits, and for
    scripts that have them.

    \b
    Example:
      logbus kafka-scripts ~/kafka-bin
      PATH=~/kafka-bin:$PATH kafka-topics.sh --bootstrap-server 127.0.0.1:9092 --list
    """
    from logbus.cli.kafka_scripts.scripts import write_scripts

    for path in write_scripts(directory, suffixes=(".sh", "") if without_sh else (".sh",)):
        click.echo(path)
