"""The options ``--command-config`` and ``-X``: how a command connects to a secured cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    from logbus.security.client_security import ClientSecurity

F = TypeVar("F", bound=Callable[..., Any])

_FILE, _PAIRS = f"{__name__}.file", f"{__name__}.pairs"
_SECRETS = ("password", "jaas.config", ".key")


def security_options(command: F) -> F:
    """
    Add the options ``--command-config`` and ``-X``, which :func:`client_security` reads.

    A command without them makes no TLS connection, so that it imports no TLS.
    """

    run = command

    @wraps(run)
    def prepared(*args: Any, **options: Any) -> Any:
        from logbus.attrs_code import kept_attrs_code
        from logbus.net.without_tls import import_without_tls
        from logbus.quick_imports import import_less

        with kept_attrs_code():
            import_less()
            if not (_is_given() or any(value for name, value in options.items() if "registr" in name)):
                import_without_tls()
            return run(*args, **options)

    def keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
        def callback(context: click.Context, parameter: click.Parameter, value: Any) -> None:
            context.meta[name] = value

        return callback

    command = click.option(
        "-X",
        "pairs",
        multiple=True,
        metavar="NAME=VALUE",
        expose_value=False,
        callback=keep(_PAIRS),
        help="A property of Kafka's clients, such as security.protocol=SSL; it overrides the file. No passwords: "
        "others see the command line.",
    )(cast(F, prepared))
    return click.option(
        "--command-config",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        envvar="LOGBUS_COMMAND_CONFIG",
        show_envvar=True,
        expose_value=False,
        callback=keep(_FILE),
        help="Properties of Kafka's clients: security.protocol, ssl.* and sasl.*.",
    )(command)


def client_security() -> ClientSecurity | None:
    """
    Return how the running command connects; None: without TLS and SASL.

    :raises click.BadParameter: a property is unknown, wrong or missing.
    """
    if not _is_given():
        return None
    meta = click.get_current_context().meta
    path: Path | None = meta.get(_FILE)
    pairs: tuple[str, ...] = meta.get(_PAIRS) or ()
    from logbus.errors import ConfigError
    from logbus.security.client_security import ClientSecurity

    given = _from_file(path) if path is not None else {}
    given.update(_from_pairs(pairs))
    try:
        return ClientSecurity.of(given)
    except ConfigError as e:
        where = "-X" if path is None else f"--command-config {path}"
        raise click.BadParameter(str(e), param_hint=where) from None


def security_of_file(path: Path | None, option: str) -> ClientSecurity | None:
    """
    Return how a command connects to one of several clusters; None: without TLS and SASL.

    :param path: properties of Kafka's clients.
    :param option: that names it, for errors.
    :raises click.BadParameter: the file cannot be read; or a property is wrong or missing.
    """
    if path is None:
        return None
    from logbus.errors import ConfigError
    from logbus.security.client_security import ClientSecurity

    try:
        return ClientSecurity.of(_from_file(path, option))
    except ConfigError as e:
        raise click.BadParameter(str(e), param_hint=f"{option} {path}") from None


def _is_given() -> bool:
    """Whether the running command was told how to connect."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_FILE) or context.meta.get(_PAIRS))


def _from_file(path: Path, option: str = "--command-config") -> dict[str, str]:
    from logbus.config.properties import parse_properties
    from logbus.errors import ConfigError, short_reason
    from logbus.security.client_security import split_properties

    try:
        given = parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ConfigError) as e:
        raise click.BadParameter(f"{path}: {short_reason(e)}", param_hint=option) from None
    ours, others = split_properties(given)
    if others:
        # Such a file may be shared with other tools.
        click.echo(f"{path}: not about security, ignored: {', '.join(others)}", err=True)
    return ours


def _from_pairs(pairs: tuple[str, ...]) -> dict[str, str]:
    from logbus.cli.options import parse_pairs

    given = parse_pairs(pairs, "-X", "security.protocol=SSL")
    for name in given:
        if name.endswith(_SECRETS):
            raise click.BadParameter(
                f"{name} is a secret, and others see the command line: put it into a file for --command-config",
                param_hint="-X",
            )
    return given
