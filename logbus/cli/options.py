"""Options and argument types that commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from logbus.cli.number_types import FloatRange

if TYPE_CHECKING:
    from logbus.cli.record_filter import RecordFilter

F = TypeVar("F", bound=Callable[..., Any])

_MAX_INT64 = 2**63 - 1
_MAX_STRING_BYTES = 2**15 - 1


def bootstrap_options(command: F) -> F:
    """Add the options ``--bootstrap``, ``--timeout``, ``--command-config`` and ``-X``."""
    from logbus.cli.client_security import security_options

    return bootstrap_option(checked_addresses)(timeout_option(security_options(command)))


def timeout_option(command: F) -> F:
    """Add the option ``--timeout``."""
    return click.option(
        "--timeout",
        type=FloatRange(min=0.001),
        default=30.0,
        show_default=True,
        help="Seconds to wait for a response.",
    )(command)


def naming_option(command: F) -> F:
    """Add the option ``--naming``, of mirrors."""
    return click.option(
        "--naming",
        type=click.Choice(["prefix", "identity"]),
        default="prefix",
        show_default=True,
        help="Whether copies are named ALIAS.orders, or orders.",
    )(command)


def bootstrap_option(check: Callable[[click.Context, click.Parameter, str], str] | None = None) -> Callable[[F], F]:
    """Return the option ``--bootstrap``; ``check`` looks at its value."""
    return click.option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        default="127.0.0.1:9092",
        show_default=True,
        envvar="LOGBUS_BOOTSTRAP",
        show_envvar=True,
        callback=check,
        help="A broker of the cluster, or several, separated by commas.",
    )


def json_option(command: F) -> F:
    """Add the option ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")(command)


def overwrite_option(command: F) -> F:
    """Add the option ``--overwrite`` of commands that write a file."""
    return click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")(command)


def max_share_option(name: str, default: float, what: str) -> Callable[[F], F]:
    """
    An option for the share of something bad, from 0 to 1, with more of which a command fails.

    :param what: of what the share is, such as "of the events is late".
    """
    return click.option(
        name,
        type=FloatRange(0, 1),
        metavar="SHARE",
        default=default,
        show_default=True,
        help=f"Fail if more than this share {what}; 1: never.",
    )


def parse_pairs(values: Iterable[str], option: str, example: str = "retention.ms=60000") -> dict[str, str]:
    """
    Parse ``NAME=VALUE`` arguments.

    :raises click.BadParameter: one does not have this form, or two contradict each other.
    """
    found: dict[str, str] = {}
    for each in values:
        name, equals, value = each.partition("=")
        name = name.strip()
        if not equals or not name:
            raise click.BadParameter(f"{each!r} is not NAME=VALUE, such as {example}", param_hint=option)
        if found.setdefault(name, value) != value:
            raise click.BadParameter(f"{name} has two values; give it once", param_hint=option)
    return found


def timestamp_ms(text: str, option: str) -> int:
    """
    Parse a number of milliseconds since 1970 or an ISO 8601 date (local time without a zone) into milliseconds.

    :raises click.BadParameter: it is neither, before 1970, or too late for an int64.
    """
    from datetime import datetime

    try:
        is_number = text.isascii() and text.isdigit()
        at_ms = int(text) if is_number else int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        at_ms = -1
    if not 0 <= at_ms <= _MAX_INT64:
        raise click.BadParameter(
            f"{text!r} is neither milliseconds since 1970 nor a date such as 2024-05-01T12:00", param_hint=option
        )
    return at_ms


def group_id(text: str) -> str:
    """
    Check the id of a group: text of 1 to 32767 bytes, as requests can carry it.

    :raises click.BadParameter: it is empty, too long, or not text.
    """
    return _short_text(text, "group id")


def user_name(text: str) -> str:
    """
    Check the name of a user: text of 1 to 32767 bytes, as requests can carry it.

    :raises click.BadParameter: it is empty, too long, or not text.
    """
    return _short_text(text, "name of the user")


def transactional_id(text: str) -> str:
    """
    Check a transactional id: text of 1 to 32767 bytes, as requests can carry it.

    :raises click.BadParameter: it is empty, too long, or not text.
    """
    return _short_text(text, "transactional id")


def _short_text(text: str, noun: str) -> str:
    if not text:
        raise click.BadParameter(f"the {noun} is empty")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise click.BadParameter(f"the {noun} {text!r} is not UTF-8") from None
    if size > _MAX_STRING_BYTES:
        raise click.BadParameter(f"the {noun} has {size} bytes; it may have at most {_MAX_STRING_BYTES}")
    return text


def checked_addresses(ctx: click.Context, param: click.Parameter, value: str) -> str:
    from logbus.client.cluster.addresses import parse_bootstrap
    from logbus.errors import ConfigError

    try:
        parse_bootstrap(value)
    except ConfigError as e:
        raise click.BadParameter(str(e)) from None
    return value


def filter_options(command: F) -> F:
    """Add the options ``--grep`` and ``--filter``: ``patterns`` and ``conditions``."""
    command = click.option(
        "--filter",
        "conditions",
        multiple=True,
        metavar="CONDITION",
        help="Only records that meet it, such as key=42, value.user.id>=7 (a member of JSON) or header.trace~^ab (a "
        "regular expression); may be repeated.",
    )(command)
    return click.option(
        "--grep", "patterns", multiple=True, metavar="REGEX", help="Only records in whose key or value it is found."
    )(command)


def wanted_records(conditions: Sequence[str], patterns: Sequence[str]) -> RecordFilter | None:
    """
    Return the filter of these options; None: there is none.

    :raises click.BadParameter: one of them is wrong.
    """
    if not conditions and not patterns:
        return None
    from logbus.cli.record_filter import filter_of

    try:
        return filter_of(conditions, patterns)
    except ValueError as e:
        raise click.BadParameter(str(e)) from None


def registry_options(help: str) -> Callable[[F], F]:
    """
    Return the options ``--registry`` and ``--registry-auth``.

    :param help: of the first.
    """

    def add(command: F) -> F:
        command = registry_auth_option(show_envvar=True)(command)
        return click.option("--registry", metavar="URL", callback=registry_urls, help=help)(command)

    return add


def registry_auth_option(**settings: Any) -> Callable[[F], F]:
    """Return the option ``--registry-auth``, with settings of :func:`click.option` besides."""
    return click.option(
        "--registry-auth",
        metavar="USER:PASSWORD",
        envvar="LOGBUS_REGISTRY_AUTH",
        callback=credentials,
        help="Its credentials.",
        **settings,
    )


def credentials(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """
    Check the credentials of a schema registry. They are not repeated, as others may see the error.

    :raises click.BadParameter: there is no password.
    """
    if value and ":" not in value:
        raise click.BadParameter("it is not USER:PASSWORD: there is no colon", ctx, param)
    return value


def check_registry_auth(registry: str | None) -> None:
    """
    Check that there is a registry for the credentials on the command line; those of the environment may be for others.

    :raises click.UsageError: there is none.
    """
    source = click.get_current_context().get_parameter_source("registry_auth")
    if not registry and source is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--registry-auth has the credentials for a registry: name that, too")


def registry_urls(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """
    Check the URLs of a schema registry, separated by commas.

    :raises click.BadParameter: one is no URL.
    """
    from urllib.parse import urlsplit

    for url in [] if value is None else value.split(","):
        try:
            parts = urlsplit(url)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            is_url = False
        if not is_url or "@" in parts.netloc:
            raise click.BadParameter(
                f"{url!r} is no URL of a schema registry, such as http://127.0.0.1:8080/registry; --registry-auth has "
                "name and password",
                ctx,
                param,
            )
    return value


ACKS: Mapping[str, Literal[-1, 0, 1]] = {"all": -1, "-1": -1, "1": 1, "0": 0}
"""What ``--acks`` takes, and its number in a Produce request."""


def acks_option(command: F) -> F:
    """Add ``--acks``."""
    return click.option(
        "--acks",
        type=click.Choice(list(ACKS)),
        default="all",
        show_default=True,
        help="Replicas that must acknowledge a record.",
    )(command)


def codec_option(command: F) -> F:
    """Add ``--codec``."""
    return click.option(
        "--codec",
        "-z",
        type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
        default="none",
        show_default=True,
        help="Compression of batches.",
    )(command)
