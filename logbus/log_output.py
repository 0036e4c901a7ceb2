"""
The log of a process: a line of text or of JSON for each event, to standard output or to files that are rotated.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from attrs import define, field
from twisted.logger import (
    FileLogObserver,
    FilteringLogObserver,
    ILogFilterPredicate,
    ILogObserver,
    LogEvent,
    formatEvent,
    textFileLogObserver,
)
from twisted.python.logfile import LogFile

from logbus.errors import ConfigError
from logbus.log_levels import WORKER

LONGEST_MESSAGE = 64 * 1024


def json_line(event: LogEvent) -> str:
    """Return an event as a JSON object in one line: time, level, logger, message, and what failed."""
    level = event.get("log_level")
    line: dict[str, Any] = {
        "time": datetime.fromtimestamp(event.get("log_time", 0.0), UTC).isoformat(timespec="milliseconds"),
        "level": getattr(level, "name", "info"),
        "logger": event.get("log_namespace") or "-",
        "message": formatEvent(event)[:LONGEST_MESSAGE],
    }
    if WORKER in event:
        line["worker"] = event[WORKER]
    failure = event.get("log_failure")
    if failure is not None:
        try:
            line["traceback"] = failure.getTraceback()[:LONGEST_MESSAGE]
        except Exception:
            line["traceback"] = repr(failure)[:LONGEST_MESSAGE]
    return json.dumps(line, ensure_ascii=False) + "\n"


@define(eq=False)
class LogOutput:
    """
    The destination of a process's log.

    :param form: ``text`` or ``json``.
    :param levels: which events are logged.
    :ivar path: of the file; None: ``stream``.
    :ivar max_bytes: a new file is begun at this size; 0: never.
    :ivar backups: old files that are kept.
    """

    _form: str
    _levels: ILogFilterPredicate
    _stream: TextIO
    _path: Path | None = None
    _max_bytes: int = 0
    _backups: int = 0
    _file: LogFile | None = field(default=None, init=False)

    def observer(self) -> ILogObserver:
        """
        Open the log, and return its observer.

        :raise ConfigError: the file cannot be written.
        """
        out: Any = self._stream
        if self._path is not None:
            try:
                out = self._file = LogFile.fromFullPath(
                    str(self._path), rotateLength=self._max_bytes or None, maxRotatedFiles=self._backups or None
                )
            except OSError as error:
                raise ConfigError(f"logger.file: {self._path} cannot be written: {error.strerror or error}") from error
        one = FileLogObserver(out, json_line) if self._form == "json" else textFileLogObserver(out)
        return FilteringLogObserver(one, [self._levels])

    def reopen(self) -> None:
        """Open the file again, which a tool such as logrotate has renamed."""
        if self._file is not None:
            self._file.reopen()

    def rotate(self) -> None:
        """Begin a new file now."""
        if self._file is not None:
            self._file.rotate()
