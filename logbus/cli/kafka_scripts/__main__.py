"""Runs a command by its script's name: ``python -m logbus.cli.kafka_scripts kafka-topics --list …``."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from logbus.cli.kafka_scripts.absent_scripts import advice
from logbus.cli.kafka_scripts.console import complain, say
from logbus.cli.kafka_scripts.option_parser import OptionParser, ParsedOptions, UsageError
from logbus.cli.kafka_scripts.scripts import COMMANDS
from logbus.cli.standard_streams import forget_unwritable, open_closed_streams, set_up_output
from logbus.errors import LogbusError


def main(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit status."""
    open_closed_streams()
    set_up_output()
    name, *rest = arguments or ["?"]
    if (instead := advice(name)) is not None:
        complain(instead)
        return 1
    if name not in COMMANDS:
        complain(f"there is no command {name!r}; there are {', '.join(COMMANDS)}")
        return 1
    from logbus.attrs_code import kept_attrs_code
    from logbus.quick_imports import import_less

    try:
        with kept_attrs_code():
            import_less()
            if not any("config" in word or "property" in word for word in rest):
                # Without properties of clients there is no TLS.
                from logbus.net.without_tls import import_without_tls

                import_without_tls()
            command = import_module(f"logbus.cli.kafka_scripts.{COMMANDS[name]}")
            status = _run(command.PARSER, command.run, rest)
        sys.stdout.flush()
    except BrokenPipeError:
        from logbus.cli.app import exit_by_signal

        exit_by_signal(signal.SIGPIPE)
        raise
    except (UsageError, LogbusError, OSError) as e:
        forget_unwritable()
        complain(re.sub(r"[\r\n]+", " ", str(e)))
        return 1
    except Exception as e:
        if os.environ.get("LOGBUS_DEBUG"):
            raise
        complain(f"internal error: {e!r} (LOGBUS_DEBUG=1 shows where)")
        return 1
    return status


def _run(parser: OptionParser, run: Callable[[ParsedOptions], int], arguments: Sequence[str]) -> int:
    options = parser.parse(arguments)
    if options.has("help"):
        # Kafka's commands end so, too.
        complain(parser.usage(), end="")
        return 1
    if options.has("version"):
        from logbus import __version__

        say(f"logbus {__version__}")
        return 0
    return run(options)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
