"""Connects to a cluster as the options of a command say: ``--bootstrap-server``, ``--command-config``."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from twisted.internet.defer import Deferred

from logbus.cli.kafka_scripts.option_parser import ParsedOptions, UsageError
from logbus.cli.runner import run
from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.addresses import parse_bootstrap
from logbus.client.cluster.cluster import Cluster
from logbus.errors import ConfigError, short_reason

if TYPE_CHECKING:
    from logbus.security.client_security import ClientSecurity

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

REQUEST_TIMEOUT = 30.0
"""Seconds to wait for a response (Kafka: ``request.timeout.ms``)."""


class Work(Protocol[T_co]):
    """The work of a command with a cluster."""

    def __call__(self, cluster: Cluster, admin: AdminClient, /) -> Coroutine[Deferred[Any], Any, T_co]: ...


def client_properties(
    options: ParsedOptions, files: Iterable[str] = ("command-config",), pairs: Iterable[str] = ()
) -> dict[str, str]:
    """
    The properties of Kafka's clients that options give.

    :param files: options that name files.
    :param pairs: options of ``NAME=VALUE``, which override those in files.
    :raise UsageError: a file cannot be read, or a pair is none.
    """
    found: dict[str, str] = {}
    for name in files:
        path = options.value(name)
        if path is not None:
            found.update(_read_properties(path))
    for name in pairs:
        found.update(key_values(options.values(name)))
    return found


def key_values(texts: Iterable[str]) -> dict[str, str]:
    """
    Parse ``NAME=VALUE``; ``NAME=`` has an empty value.

    :raise UsageError: one does not have this form.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"Invalid command line properties: '{text}' is not NAME=VALUE")
        found[name] = value
    return found


def with_cluster(options: ParsedOptions, work: Work[T], properties: Mapping[str, str] | None = None) -> T:
    """
    Run a coroutine with a cluster and an admin client, and close the connections afterwards.

    :param properties: of the client; default: those of ``--command-config``.
    :raise UsageError: the options do not say to what or how to connect.
    """
    if properties is None:
        properties = client_properties(options)
    security = _security(properties)
    bootstrap = options.value("bootstrap-server") or properties.get("bootstrap.servers", "")
    try:
        parse_bootstrap(bootstrap)
    except ConfigError as e:
        raise UsageError(f"Invalid url in bootstrap.servers: {bootstrap} ({e})") from None

    async def session(reactor: Any) -> T:
        client_id = properties.get("client.id") or "logbus-kafka-scripts"
        cluster = Cluster(reactor, bootstrap, client_id=client_id, timeout=REQUEST_TIMEOUT, security=security)
        try:
            return await work(cluster, AdminClient(cluster, timeout=REQUEST_TIMEOUT))
        finally:
            await cluster.close()

    return run(session)


def _read_properties(path: str) -> dict[str, str]:
    from logbus.config.properties import parse_properties

    try:
        return parse_properties(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ConfigError) as e:
        raise UsageError(f"{path}: {short_reason(e)}") from None


def _security(properties: Mapping[str, str]) -> ClientSecurity | None:
    from logbus.security.client_security import ClientSecurity, split_properties

    ours, _ = split_properties(dict(properties))
    if not ours:
        return None
    try:
        return ClientSecurity.of(ours)
    except ConfigError as e:
        raise UsageError(str(e)) from None
