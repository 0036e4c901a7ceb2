"""Tests what the daemon of Spark's workers prints."""

from __future__ import annotations

import io
import traceback
from contextlib import redirect_stderr
from importlib.machinery import ModuleSpec
from types import ModuleType

from twisted.trial.unittest import SynchronousTestCase

from logbus.pipeline.worker_daemon import Tracebacks, begin_work


class TracebackTests(SynchronousTestCase):
    """Errors are printed, unless Spark has only hung up."""

    def test_what_is_printed(self) -> None:
        """A lost connection has nobody whom it concerns."""
        for error, is_said in (
            (BrokenPipeError(), False),
            (ConnectionResetError(), False),
            (OSError("disk full"), True),
            (SystemExit(1), True),
        ):
            with redirect_stderr(io.StringIO()) as said:
                try:
                    raise error
                except BaseException:
                    Tracebacks().print_exc()
            self.assertEqual(type(error).__name__ in said.getvalue(), is_said, error)

    def test_all_else(self) -> None:
        """It stands for a module."""
        try:
            raise ValueError("wrong")
        except ValueError:
            self.assertIn("ValueError: wrong", Tracebacks().format_exc())

    def test_where_it_is_used(self) -> None:
        """In Spark's own daemons, and in no other program."""
        for name, is_used in (("pyspark.daemon", True), ("pyspark.worker", False)):
            program = ModuleType("__main__")
            program.__spec__ = ModuleSpec(name, None)
            program.traceback = traceback  # type: ignore[attr-defined]
            begin_work(program)
            self.assertEqual(isinstance(program.traceback, Tracebacks), is_used, name)
        begin_work()
