"""The ``logbus start`` command: runs a broker in the foreground."""

from __future__ import annotations

import click


class _Start(click.Command):
    """A command whose options are those of ``twistd logbus``, which parses them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = args
        return args


@click.command(cls=_Start, add_help_option=False)
@click.pass_context
def start(ctx: click.Context) -> int:
    """
    Run a broker in the foreground; --help lists its options.

    \b
    Example:
      logbus start --port 9092 --admin-port 8080 --data logbus-data
    """
    from logbus.quick_imports import import_less

    import_less()
    from logbus.cli.foreground import run_foreground

    return run_foreground(ctx.args)
