"""The ``logbus completion`` command: prints a script by which a shell completes commands and options."""

from __future__ import annotations

import click

SHELLS = ("bash", "fish", "zsh")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script by which a shell completes commands, options and their values.

    \b
    Example:
      source <(logbus completion bash)          # in ~/.bashrc
      source <(logbus completion zsh)           # in ~/.zshrc
      logbus completion fish | source           # in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "logbus", "_LOGBUS_COMPLETE").source())
