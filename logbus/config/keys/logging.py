"""Keys of the process's own log (not of topics, whose keys begin with ``log.``)."""

from __future__ import annotations

from logbus.config import kinds
from logbus.config.keys.declare import choice, int32, int64, key, optional_text

LOGGER_FORMAT = choice(
    "logger.format",
    "text",
    ("text", "json"),
    "The lines of the broker's log: text, or a JSON object each, with ``time``, ``level``, ``logger``, ``message`` and "
    "``traceback``. A key of logbus, as all that begin with ``logger.``.",
)
LOGGER_LEVELS = key(
    kinds.mapping(("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")),
    "logger.levels",
    {},
    "What is logged, as ``LOGGER:LEVEL`` with commas between, such as ``root:INFO,logbus.cluster:DEBUG``. A logger is "
    "a module or package; ``root`` is all, by default from INFO. SIGHUP has it read again; the resource "
    "``broker-loggers`` changes it while the broker runs.",
)
LOGGER_FILE = optional_text("logger.file", "The file of the broker's log; by default, standard output.")
LOGGER_FILE_MAX_BYTES = int64(
    "logger.file.max.bytes",
    10 * 1024 * 1024,
    "The size at which a new file is begun, and the old one renamed to ``.1``; 0: never, since another tool such as "
    "logrotate renames it, and sends SIGHUP.",
    at_least=0,
)
LOGGER_REQUEST_MS = int32(
    "logger.request.ms",
    -1,
    "Requests of Kafka's protocol that take so many milliseconds or more are logged by the logger ``logbus.request``, "
    "one a second of each API with the number of the others; the time that a Fetch is asked to wait does not count. "
    "0: all requests, however many; -1: none.",
    at_least=-1,
)
LOGGER_FILE_BACKUPS = int32("logger.file.backups", 10, "The old files that are kept; 0: all.", at_least=0)
