"""
Reference pages made of the code itself: what the page says is what the broker has.

``.. generated:: WHAT`` puts one of :data:`SOURCES` in its place.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from configparser import ConfigParser
from functools import cache
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

from logbus.broker import Broker
from logbus.cli.foreground import StartOptions
from logbus.cluster.replication.partition_metrics import partition_families
from logbus.conditions import KINDS
from logbus.config import ConfigView, keys
from logbus.config.reference import reference_rst
from logbus.ilogbus import Listener
from logbus.metrics import Family
from logbus.series_limit import FOLDED, limit_series
from logbus.testing.private_reactor import close_reactor, private_reactor
from logbus.wire.kafka_releases import DEFAULT_RELEASE, RELEASES, advertised_table, finalized_features, release_table
from logbus.wire.messages import api_name

Lines = Iterator[str]


@cache
def a_broker() -> Broker:
    """One that is built and never started; nothing is written."""
    reactor = private_reactor()
    try:
        with tempfile.TemporaryDirectory() as directory:
            # With all that is optional, so that every metric is there; nothing is started, so nothing is stored.
            given = {"remote.log.storage.system.enable": "true", "remote.log.storage.uri": "s3://bucket/logs"}
            config = ConfigView.load(set={"log.dirs": directory, **given})
            store: Any = SimpleNamespace(where="s3://bucket/logs")
            return Broker(reactor, config, [], plugins={}, remote_storage=store)
    finally:
        close_reactor(reactor)


def heading(title: str, line: str = "-") -> Lines:
    yield from (title, line * len(title), "")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], widths: str = "auto") -> Lines:
    """A list table."""
    yield from (".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", "")
    for row in (head, *rows):
        for number, cell in enumerate(row):
            yield f"   {'  -' if number else '* -'} {cell}"
    yield ""


def literal(language: str, text: str) -> Lines:
    yield from (f".. code-block:: {language}", "")
    yield from (f"   {line}".rstrip() for line in text.splitlines())
    yield ""


def configuration() -> Lines:
    """All keys; the page has its title already."""
    lines = reference_rst().splitlines()
    yield from lines[3:]


def apis() -> Lines:
    """What the router serves, and what is advertised of it."""
    served = a_broker().kafka_server.router.served
    advertised = advertised_table(None, served)
    span = "{0[0]}–{0[1]}".format
    rows = [
        (str(key), api_name(key), span(served[key]), span(advertised[key]) if key in advertised else "not advertised")
        for key in sorted(served)
    ]
    yield from table(("Key", "API", "Served", "Advertised"), rows)
    missing = [api_name(key) for key in sorted(release_table(DEFAULT_RELEASE)) if key not in served]
    yield f"APIs of Kafka {DEFAULT_RELEASE} that this release does not have: " + ", ".join(missing) + "."
    yield ""


def releases() -> Lines:
    """What ``--as-version`` takes."""
    served = a_broker().kafka_server.router.served
    rows = []
    for release in RELEASES:
        offered = advertised_table(release, served)
        levels = finalized_features(offered)
        features = ", ".join(f"``{name}`` {level}" for name, level in levels.items()) or "none"
        spans = (_span(offered, key) for key in (0, 1, 2, 3, 18))
        rows.append((f"``{release}``", *spans, str(len(offered)), features))
    heads = ("Release", "Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions", "APIs in all", "Features")
    yield from table(heads, rows)


def _span(offered: Any, key: int) -> str:
    return "{0[0]}–{0[1]}".format(offered[key]) if key in offered else "–"


def metrics() -> Lines:
    """What an instrumented broker shows."""
    rows = []
    for family in sorted(shown_families_of(a_broker())):
        samples = list(filter(None, family.samples))
        labels = {name for sample in samples for name, _ in sample.labels if name != "le"}
        if family.name.startswith("logbus_group_") and not samples:
            # A broker that was never started has no groups whose series could show them.
            labels = {"group"}
        if family.name.startswith("logbus_log_directory_") and not samples:
            # Nor was the space of its directories measured.
            labels = {"directory"}
        if family.name == "logbus_listener_connections" and not samples:
            # Nor has it listeners.
            labels = {"listener"}
        if family.name == FOLDED:
            # And none of its metrics has too many series.
            labels = {"metric"}
        rows.append(
            (f"``{family.name}``", family.type, ", ".join(f"``{name}``" for name in sorted(labels)), family.help)
        )
    yield from table(("Name", "Type", "Labels", "Meaning"), rows)


def shown_families_of(broker: Broker) -> Iterator[Family]:
    """All families of a broker but those of single partitions and of the process."""
    return limit_series(broker.registry.collect(), keys.ADMIN_METRICS_MAX_SERIES.default)


def partition_metrics() -> Lines:
    """What there is besides with ``admin.metrics.per.partition``."""
    rows = [
        (
            f"``{family.name}``",
            f"{'``group``, ' if 'group' in family.name else ''}``partition``, ``topic``",
            family.help,
        )
        for family in partition_families_of(a_broker())
    ]
    yield from table(("Name", "Labels", "Meaning"), rows)


def partition_families_of(broker: Broker) -> list[Family]:
    """All families that have series for single partitions."""
    site: Any = broker.plugin_services.admin_factory(Listener("admin", "admin", "tcp:0:interface=127.0.0.1"))
    return [*partition_families(list), *site.lags.partition_families()]


def http() -> Lines:
    """Every route of the OpenAPI document."""
    from logbus.admin.openapi import document

    site: Any = a_broker().plugin_services.admin_factory(Listener("admin", "admin", "tcp:0:interface=127.0.0.1"))
    yield from _operations(document(site.router))


def test_server() -> Lines:
    """Every route of the control interface of ``logbus test-server``."""
    from logbus.testing.server.control_views import control_document, control_router

    nothing: Any = None
    yield from _operations(control_document(control_router(nothing, nothing, dict, dict)))


def port_file() -> Lines:
    """The members of the port file."""
    from logbus.testing.server.server_routes import PORT_FILE

    yield from _fields(PORT_FILE)


def _operations(described: dict[str, Any]) -> Lines:
    from logbus.admin.openapi import FAILURES_OF_ALL

    for path, operations in sorted(described["paths"].items()):
        for method, operation in operations.items():
            yield from heading(f"{method.upper()} {path}")
            yield from (f"{operation['summary']}.  {operation['description']}", "")
            parameters = [
                (f"``{given['name']}``", given["in"], _shape(given["schema"]), given["description"])
                for given in operation.get("parameters", ())
            ]
            if parameters:
                yield from table(("Parameter", "In", "Type", "Meaning"), parameters)
            if "requestBody" in operation:
                (body,) = operation["requestBody"]["content"].values()
                yield from ("Body:", "")
                yield from _fields(body["schema"])
            for status, response in operation["responses"].items():
                if status.startswith("2"):
                    for kind, content in response.get("content", {}).items():
                        yield from (f"Answer {status}, ``{kind}``.", "")
                        yield from _fields(content["schema"])
                    fields = response.get("headers", {})
                    if fields:
                        rows = [(f"``{name}``", told["description"]) for name, told in fields.items()]
                        yield from table(("Header field", "Meaning"), rows)
                    if not response.get("content"):
                        yield from (f"Answer {status}, without a body.", "")
            failures = [
                status
                for status in operation["responses"]
                if status.isdigit() and not status.startswith("2") and HTTPStatus(int(status)) not in FAILURES_OF_ALL
            ]
            if failures:
                yield from ("Failures of its own: " + ", ".join(failures) + ".", "")


def _shape(schema: Any) -> str:
    kind = schema.get("type", "any")
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if kind == "array":
        text += f" of {_shape(schema['items'])}"
    if "enum" in schema:
        text = " | ".join(f"``{value}``" for value in schema["enum"])
    if "default" in schema:
        # An empty text would be nothing between backticks.
        text += f", default ``{schema['default'] or repr(schema['default'])}``"
    return text


def _fields(schema: Any) -> Lines:
    """The properties of an object, or of what an array has."""
    if schema.get("type") == "array":
        schema = schema["items"]
    properties = schema.get("properties")
    if not properties:
        return
    rows = [
        (f"``{name}``" + ("" if name in schema.get("required", ()) else " (optional)"), _shape(part),
         part.get("description", ""))
        for name, part in properties.items()
    ]  # fmt: skip
    yield from table(("Field", "Type", "Meaning"), rows)


EXTRAS = {
    "avro": "Avro serializers of the clients",
    "jsonschema": "JSON Schema serializers of the clients",
    "registry": "The schema registry of a broker: parses Avro and JSON Schema",
    "protobuf": "Protobuf serializers of the clients, in the schema registry of a broker, and in the console",
    "zookeeper": "Clusters of several machines, whose metadata are in ZooKeeper",
    "spark": "The data pipeline; Java 17 or newer besides",
    "delta": "Tables of Delta Lake, for the data pipeline",
    "hdfs": "Tables of Delta Lake on HDFS, for the data pipeline",
    "iceberg": "Tables of Apache Iceberg, for the data pipeline",
    "tiered": "Closed segments in an object store",
    "tls": "TLS on listeners, among brokers, and in clients",
    "oauth": "Logins by JSON web tokens (OAUTHBEARER)",
    "dev": "Style, types, layers, changelog: what developers run",
    "docs": "This documentation",
    "test": "The tests",
    "browser": "The tests of the console in a browser",
}
"""What the extras of setup.cfg are for."""


def extras() -> Lines:
    """The extras of setup.cfg, with what they install."""
    read = ConfigParser()
    read.read(Path(__file__).parents[2] / "setup.cfg")
    rows = []
    for name, requirements in read["options.extras_require"].items():
        packages = [re.split(r"[<>=!~ \[]", line)[0] for line in requirements.split("\n") if line]
        rows.append((f"``{name}``", EXTRAS[name], ", ".join(packages)))
    yield from table(("Extra", "For", "Packages"), rows)


def conditions() -> Lines:
    """Every kind of condition, with an anchor that alerts link to."""
    for kind in KINDS:
        yield from (f".. _condition-{kind.name}:", "")
        yield from heading(kind.name)
        yield from (
            f"*{kind.severity.value.title()}*, of {kind.subject}.  {kind.summary}",
            "",
            _as_rst(kind.advice),
            "",
        )


def _as_rst(text: str) -> str:
    return text.replace("`", "``")


def twistd() -> Lines:
    """``logbus start --help``."""
    yield from literal("text", StartOptions().getUsage(width=100))


def command_line() -> Lines:
    """``logbus --help``, and that of every command below it."""
    import click

    from logbus.cli.app import app

    yield from _command(app, click.Context(app, info_name="logbus", terminal_width=100, max_content_width=100))


def _command(command: Any, context: Any) -> Lines:
    import click

    yield from heading(context.command_path)
    yield from literal("text", command.get_help(context))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _command(below, click.Context(below, info_name=name, parent=context))


def spark_options() -> Lines:
    """What readers and writers of ``format("logbus")`` take."""
    from logbus.pipeline.blocking.connection_settings import CONNECTION_OPTIONS as connection
    from logbus.pipeline.sink import options as sink
    from logbus.pipeline.source import options as source

    yield from heading("Reading")
    yield from _options(source.SOURCE_OPTIONS)
    yield from heading("Writing")
    yield from _options(sink.SINK_OPTIONS)
    yield from heading("Reaching the brokers")
    yield from _options(connection, "kafka.")
    yield from heading("How partitions are read")
    yield from _options(source.CONSUMER_OPTIONS, "kafka.")
    yield from heading("How partitions are written")
    yield from _options(sink.PRODUCER_OPTIONS, "kafka.")
    for what, refused in (("reading", source.REFUSED), ("writing", sink.REFUSED)):
        yield from heading(f"What is refused in {what}")
        yield from (
            "Options of Spark's Kafka connector that would have no effect; a value that asks for what happens anyway "
            "is accepted.",
            "",
        )
        yield from table(
            ("Option", "Takes", "Why, and what to do"),
            [(f"``{name}``", f"``{each.unless}``" if each.unless else "", each.why) for name, each in refused.items()],
        )


def _options(options: Iterable[Any], prefix: str = "") -> Lines:
    rows = []
    for each in options:
        default = "" if each.default is None else f"``{_spelled(each)}``"
        rows.append((f"``{prefix}{each.name}``", default, each.kind.accepts.replace("*", r"\*"), each.doc))
    yield from table(("Option", "Default", "Takes", "Meaning"), rows)


def _spelled(option: Any) -> str:
    """A default as one would write it: times are seconds inside, and milliseconds outside."""
    value = option.default
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value * 1000:.0f}" if "milliseconds" in option.kind.accepts else f"{value:g}s"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value) or "(empty)"


SOURCES: dict[str, Callable[[], Lines]] = {
    "conditions": conditions,
    "configuration": configuration,
    "apis": apis,
    "releases": releases,
    "metrics": metrics,
    "partition-metrics": partition_metrics,
    "http": http,
    "test-server": test_server,
    "port-file": port_file,
    "twistd": twistd,
    "command-line": command_line,
    "extras": extras,
    "spark-options": spark_options,
}


class Generated(SphinxDirective):
    """``.. generated:: WHAT``"""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in SOURCES:
            raise self.error(f"nothing is generated by the name of {name!r}; there are: {', '.join(SOURCES)}")
        # What is there is there now: the page is read again by every build.
        self.env.note_reread()
        container = nodes.Element()
        container.document = self.state.document
        lines = StringList(list(SOURCES[name]()), source=f"<generated {name}>")
        nested_parse_with_titles(self.state, lines, container)
        return container.children


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("generated", Generated)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
