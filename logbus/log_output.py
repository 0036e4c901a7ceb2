"""
The log of a process: a line of text or of JSON for each event, to standard output or to files that are rotated.
"""

from __future__ import annotations

import fcntl
import json
import os
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
    Logger,
    formatEvent,
    textFileLogObserver,
)
from twisted.python.logfile import LogFile

from logbus.errors import ConfigError, short_reason
from logbus.log_levels import WORKER

LONGEST_MESSAGE = 64 * 1024
_log = Logger()


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


class _AppendedFile(LogFile):
    """A log file that stays open until the next one is, and that others may truncate (logrotate's copytruncate)."""

    def _openFile(self) -> None:
        super()._openFile()
        # Else the next line is written where the last one ended, behind a hole of as many NUL bytes.
        fcntl.fcntl(self._file, fcntl.F_SETFL, fcntl.fcntl(self._file, fcntl.F_GETFL) | os.O_APPEND)

    def write(self, data: str | bytes) -> None:
        if self._file.closed:  # by a rotation, which then could not open the new file
            self._openFile()
        super().write(data)

    def reopen(self) -> None:
        before = self._file
        self._openFile()
        before.close()


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
    _file: _AppendedFile | None = field(default=None, init=False)

    def observer(self) -> ILogObserver:
        """
        Open the log, and return its observer.

        :raise ConfigError: the file cannot be written.
        """
        out: Any = self._stream
        if self._path is not None:
            try:
                out = self._file = _AppendedFile.fromFullPath(
                    str(self._path), rotateLength=self._max_bytes or None, maxRotatedFiles=self._backups or None
                )
            except OSError as error:
                raise ConfigError(f"logger.file: {self._path} cannot be written: {error.strerror or error}") from error
        one = FileLogObserver(out, json_line) if self._form == "json" else textFileLogObserver(out)
        return FilteringLogObserver(one, [self._levels])

    def reopen(self) -> None:
        """Open the file again, which a tool such as logrotate has renamed; if that fails, go on in the open one."""
        if self._file is None:
            return
        try:
            self._file.reopen()
        except OSError as e:
            _log.error(
                "logger.file: {path} cannot be opened: {reason}; the log goes on in the file that was open before",
                path=self._path,
                reason=short_reason(e),
            )

    def rotate(self) -> None:
        """Begin a new file now."""
        if self._file is not None:
            self._file.rotate()
