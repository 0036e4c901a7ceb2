"""The table of commands, and the exit of the process: its status and its one line of error."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from logbus import __version__
from logbus.cli.colours import styled
from logbus.cli.empty_values import refuse_empty_values
from logbus.cli.standard_streams import forget_unwritable, open_closed_streams, set_up_output
from logbus.cli.terminal_escapes import escape_controls
from logbus.errors import LogbusError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

LIKENESS = 0.65
"""Of a word and the command that may be meant, as difflib has it; "brokers" and "tokens" have 0.62."""


@contextmanager
def _ended_by_closed_pipe() -> Iterator[None]:
    """End the process by SIGPIPE where click would report an ordinary failure."""
    try:
        yield
    except BrokenPipeError:
        exit_by_signal(signal.SIGPIPE)
        raise


class LazyGroup(click.Group):
    """
    A group whose commands are imported when they run.

    :param lazy: by command: ``module:attribute``, and a line of help.
    :param elsewhere: words that are no commands, and the commands that are meant.
    """

    def __init__(
        self,
        *args: object,
        lazy: Mapping[str, tuple[str, str]],
        elsewhere: Mapping[str, str] | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.lazy = lazy
        self.elsewhere = elsewhere or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        module, _, attribute = self.lazy[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return refuse_empty_values(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.lazy and not ctx.resilient_parsing:
            import difflib  # needed only here

            name = args[0] if len(args[0]) <= 50 else f"{args[0][:50]}…"
            near = [self.elsewhere[name]] if name in self.elsewhere else []
            near = near or difflib.get_close_matches(name, list(self.lazy), 1, cutoff=LIKENESS)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _ended_by_closed_pipe():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        with _ended_by_closed_pipe():
            result = super().invoke(ctx)
            sys.stdout.flush()
        return result

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Without importing the commands."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=line) for name, (_, line) in self.lazy.items() if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.lazy.items()])


app = LazyGroup(
    name="logbus",
    help="""Work with a logbus or Kafka cluster from the command line.

    \b
    Example:
      logbus topics create greetings --partitions 3
      printf 'hello\\nworld\\n' | logbus produce greetings
      logbus consume greetings --from-beginning --exit-at-end

    A broker is started by: logbus start
    """,
    epilog="Exit status: 0 done, 1 refused or failed (with one line that says why), 2 wrong usage.",
    context_settings={"help_option_names": ["-h", "--help"]},
    lazy={
        "start": ("logbus.cli.commands.start:start", "Run a broker."),
        "topics": ("logbus.cli.commands.topics:topics", "Create, list, describe, delete topics; add partitions."),
        "produce": ("logbus.cli.commands.produce:produce", "Send lines from standard input as records."),
        "consume": ("logbus.cli.commands.consume:consume", "Print records."),
        "groups": ("logbus.cli.commands.groups:groups", "Show consumer groups and their lag; reset their offsets."),
        "transactions": (
            "logbus.cli.commands.transactions:transactions",
            "Show transactions; find and abort hanging ones.",
        ),
        "configs": ("logbus.cli.commands.configs:configs", "Show and change settings of topics and brokers."),
        "users": ("logbus.cli.commands.users:users", "Show and change users that log in by SCRAM."),
        "acls": ("logbus.cli.commands.acls:acls", "Show and change who may do what."),
        "tokens": ("logbus.cli.commands.tokens:tokens", "Create, show, renew and end delegation tokens."),
        "quotas": ("logbus.cli.commands.quotas:quotas", "Show and change quotas of users, client ids and addresses."),
        "cluster": (
            "logbus.cli.commands.cluster:cluster",
            "Show the cluster; move leaders and replicas; run a cluster.",
        ),
        "log-dirs": ("logbus.cli.commands.log_dirs:log_dirs", "Show log directories; move partitions between them."),
        "metadata": ("logbus.cli.commands.metadata:metadata", "Move metadata between a data directory and ZooKeeper."),
        "backup": ("logbus.cli.commands.backup:backup", "Copy the data of a broker while it runs."),
        "restore": ("logbus.cli.commands.restore:restore", "Make a data directory of a backup."),
        "mirror": ("logbus.cli.commands.mirror:mirror", "Copy topics of one cluster to another, and go on doing so."),
        "audit": (
            "logbus.cli.commands.audit:audit",
            "Compare consumed with published records, and mirrors with their sources.",
        ),
        "pipeline": ("logbus.cli.commands.pipeline:pipeline", "Load, count, join and check topics with Spark."),
        "dump-log": (
            "logbus.cli.commands.dump_log:dump_log",
            "Print the files of a log, and report damage.",
        ),
        "doctor": (
            "logbus.cli.commands.doctor:doctor",
            "Say what to mend: machine, configuration, cluster.",
        ),
        "verify": ("logbus.cli.commands.verify:verify", "Check the files of a log directory."),
        "bench": ("logbus.cli.commands.bench:bench", "Measure produce, fetch and latency of a broker."),
        "test-server": ("logbus.cli.commands.test_server:test_server", "Run brokers for tests in any language."),
        "simulate": ("logbus.cli.commands.simulate:simulate", "Run simulated clusters with faults."),
        "kafka-scripts": (
            "logbus.cli.commands.kafka_scripts:kafka_scripts",
            "Write scripts that take the options of Kafka's.",
        ),
        "completion": (
            "logbus.cli.commands.completion:completion",
            "Have a shell complete commands and options.",
        ),
    },
    elsewhere={
        "broker": "cluster describe",
        "brokers": "cluster describe",
        "status": "cluster describe",
        "partitions": "topics describe",
        "offsets": "groups",
        "server": "start",
        "run": "start",
    },
)
click.version_option(__version__, prog_name="logbus", message="%(prog)s %(version)s")(app)


def run_app(arguments: Sequence[str] | None = None) -> int:
    """
    Run a command line.

    :returns: the exit status. A closed pipe and Ctrl-C end the process by SIGPIPE and SIGINT, as shells expect.
    """
    status = 1
    open_closed_streams()
    set_up_output()
    try:
        result = app.main(args=arguments, prog_name="logbus", standalone_mode=False)
        sys.stdout.flush()
        status = result if isinstance(result, int) else 0
    except click.UsageError as e:
        e.show()
        status = e.exit_code
    except click.ClickException as e:
        print_error(e.format_message())
        status = e.exit_code
    except (KeyboardInterrupt, click.Abort):
        exit_by_signal(signal.SIGINT)
    except (LogbusError, OSError) as e:
        print_error(str(e) if not isinstance(e, OSError) else os_error_text(e))
    except Exception as e:
        if os.environ.get("LOGBUS_DEBUG"):
            raise
        print_error(f"internal error: {e!r} (LOGBUS_DEBUG=1 shows where)")
    forget_unwritable()
    return status


def print_error(message: str) -> None:
    """Print one line on standard error."""
    line = escape_controls(" ".join(message.split()))
    try:
        sys.stderr.write(f"{styled('logbus:', 'red', sys.stderr)} {line}\n")
        sys.stderr.flush()
    except (OSError, AttributeError):
        pass  # standard error is closed, now or since the start


def os_error_text(error: OSError) -> str:
    """Describe an OSError in one line."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def exit_by_signal(number: signal.Signals) -> None:
    """End the process by a signal, as shells expect; does not flush to a closed pipe."""
    try:
        if number is not signal.SIGPIPE:
            sys.stdout.flush()
    except OSError:
        pass
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
