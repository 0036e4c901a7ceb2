"""Tests of :mod:`logbus.log_output`."""

from __future__ import annotations

import errno
import io
import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from twisted.logger import Logger
from twisted.python import logfile
from twisted.python.failure import Failure

from logbus import log_output
from logbus.errors import ConfigError
from logbus.log_levels import WORKER, LogLevels
from logbus.log_output import LONGEST_MESSAGE, LogOutput, json_line


def logger_of(output: LogOutput) -> Logger:
    observer: Any = output.observer()
    return Logger(namespace="logbus.test", observer=observer)


def test_json() -> None:
    """An event is one line of JSON, whatever is in it."""
    said = io.StringIO()
    log = logger_of(LogOutput("json", LogLevels(), said))
    log.info("two\nlines of {topic}", topic="é\x1b[31m")
    log.debug("not shown")
    try:
        raise ValueError("bad")
    except ValueError:
        log.failure("failed", Failure())
    log.info("a" * 10 * LONGEST_MESSAGE)
    info, failed, long = [json.loads(line) for line in said.getvalue().splitlines()]
    assert info["message"] == "two\nlines of é\x1b[31m"
    assert (info["level"], info["logger"], set(info)) == ("info", "logbus.test", {"time", "level", "logger", "message"})
    assert failed["level"] == "critical"
    assert "ValueError: bad" in failed["traceback"]
    assert len(long["message"]) == LONGEST_MESSAGE


def test_json_of_workers() -> None:
    """A line says which worker has sent it; an event of old code has no namespace."""
    line = json.loads(json_line({WORKER: "worker 2", "log_format": "x"}))
    assert line == {"time": "1970-01-01T00:00:00.000+00:00", "level": "info", "logger": "-", "message": "x"} | {
        "worker": "worker 2"
    }


def test_rotation(tmp_path: Path) -> None:
    """A file that is too long is renamed, and so many are kept."""
    path = tmp_path / "broker.log"
    log = logger_of(LogOutput("text", LogLevels(), io.StringIO(), path, 100, 2))
    for number in range(8):
        log.info("{number} {much}", number=number, much="x" * 100)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["broker.log", "broker.log.1", "broker.log.2"]
    assert "logbus.test#info] 7 x" in path.read_text()


def test_moved_by_another_tool(tmp_path: Path) -> None:
    """After logrotate has renamed the file, it is opened again; and a new one can be begun at once."""
    path = tmp_path / "broker.log"
    output = LogOutput("text", LogLevels(), io.StringIO(), path)
    log = logger_of(output)
    log.info("first")
    path.rename(tmp_path / "old")
    output.reopen()
    log.info("second")
    output.rotate()
    log.info("third")
    assert "first" in (tmp_path / "old").read_text()
    assert "second" in (tmp_path / "broker.log.1").read_text()
    assert "third" in path.read_text()


def test_truncated_by_another_tool(tmp_path: Path) -> None:
    """After logrotate has copied and truncated the file, lines follow at its beginning, not behind a hole."""
    path = tmp_path / "broker.log"
    log = logger_of(LogOutput("json", LogLevels(), io.StringIO(), path))
    log.info("first")
    os.truncate(path, 0)
    log.info("second")
    assert json.loads(path.read_bytes())["message"] == "second"


def test_cannot_be_opened_again(tmp_path: Path) -> None:
    """What is logged goes on to the file that is open, until the next one can be opened."""
    path, old = tmp_path / "broker.log", tmp_path / "old"
    output = LogOutput("text", LogLevels(), io.StringIO(), path)
    with patch.object(log_output, "_log", logger_of(output)):
        path.rename(old)
        path.mkdir()
        output.reopen()
        log_output._log.info("second")
        path.rmdir()
        output.reopen()
        log_output._log.info("third")
    assert "broker.log cannot be opened: Is a directory; the log goes on in" in old.read_text()
    assert "second" in old.read_text()
    assert "third" in path.read_text()


def test_rotation_that_fails(tmp_path: Path) -> None:
    """A broker that could not open its next file, for want of descriptors say, opens it as soon as it can."""
    path = tmp_path / "broker.log"
    output = LogOutput("text", LogLevels(), io.StringIO(), path)
    log = logger_of(output)
    log.info("first")
    no_more = OSError(errno.EMFILE, "Too many open files")
    with patch.object(logfile, "open", side_effect=no_more, create=True), pytest.raises(OSError, match="Too many"):
        output.rotate()
    log.info("second")
    assert "second" in path.read_text()


def test_cannot_be_written(tmp_path: Path) -> None:
    """A file that cannot be made is named."""
    output = LogOutput("text", LogLevels(), io.StringIO(), tmp_path / "no" / "broker.log")
    with pytest.raises(ConfigError, match=r"logger\.file: .*/no/broker\.log cannot be written: No such file"):
        output.observer()


def test_standard_output_is_left_alone() -> None:
    """Signals for log files have no effect where there is none."""
    output = LogOutput("text", LogLevels(), io.StringIO())
    output.observer()
    output.reopen()
    output.rotate()
