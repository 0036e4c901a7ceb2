"""The options of ``twistd logbus``, and the configuration that they and a file make."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import NoReturn

from twisted.python import usage

from logbus.config import ConfigView, keys
from logbus.config.properties import numbered_properties
from logbus.errors import ConfigError, short_reason
from logbus.ilogbus import Listener
from logbus.listener_config import ADMIN, KAFKA, refuse_keys_of_none, resolve_listeners
from logbus.metastore.connect_string import ConnectString
from logbus.metastore.zookeeper_security import ZooKeeperSecurity
from logbus.wire.kafka_releases import DEFAULT_RELEASE, RELEASES


class Options(usage.Options):
    """The options of ``twistd logbus``."""

    synopsis = "[options]"
    longdesc = (
        "Runs a Kafka-compatible broker. Without options: Kafka clients on 127.0.0.1:9092, HTTP on 127.0.0.1:8080, "
        "data in ./logbus-data. Every key of Kafka's server.properties that means something here can be given in a "
        "file (--config) or by itself (--set)."
    )
    optParameters = [
        ["config", "c", None, "A Kafka-style server.properties file."],
        ["data-dir", "d", None, "Where the data goes: short for log.dirs. [default: logbus-data]"],
        ["port", "p", None, "The port for Kafka clients: of the first of listeners. [default: 9092]"],
        ["admin-port", None, None, "The port for HTTP: of the first of admin.listeners. [default: 8080]"],
        ["broker-id", "b", None, "This broker's number: short for broker.id. [default: 0]"],
        ["zookeeper", "z", None, "Short for zookeeper.connect; without it the metadata is kept in the data directory."],
        [
            "workers",
            "w",
            None,
            "Processes that serve, a number or auto (a processor each): short for workers. [default: 1]",
        ],
        ["log-format", None, None, "text or json: short for logger.format. [default: text]"],
        ["log-file", None, None, "Short for logger.file. [default: standard output]"],
        [
            "as-version",
            None,
            None,
            f"Advertise only what this Kafka release has: {', '.join(RELEASES)}. [default: {DEFAULT_RELEASE}]",
        ],
    ]

    def __init__(self) -> None:
        super().__init__()
        self["set"] = []
        self["listen"] = []
        self["advertise"] = []

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse a command line; what is wrong with it is one line on standard error, and exit status 2."""
        try:
            super().parseOptions(options)
        except usage.UsageError as error:
            fail(usage_error(str(error), [name.rstrip("=") for name in self.longOpt]), status=2)

    def parseArgs(self, *arguments: str) -> None:
        """Refuse what is no option."""
        if arguments:
            raise usage.UsageError(f"{arguments[0]}: options begin with --, settings with --set")

    def getUsage(self, width: int | None = None) -> str:
        """Return the help, as wide as the terminal."""
        return super().getUsage(width or get_terminal_size().columns)

    def opt_set(self, setting: str) -> None:
        """KEY=VALUE: one configuration key; may be repeated, and wins over --config."""
        self["set"].append(setting)

    opt_s = opt_set

    def opt_listen(self, listener: str) -> None:
        """
        [NAME=]PROTOCOL:ENDPOINT: where to listen; may be repeated. PROTOCOL is kafka, admin or a plugin's; ENDPOINT a
        Twisted server endpoint. It replaces the listener of its name, or is one more.
        [default: kafka:tcp:9092:interface=127.0.0.1 and admin:tcp:8080:interface=127.0.0.1]
        """
        self["listen"].append(listener)

    # Twisted prints it as it is; before Python 3.13 it has the indentation of its lines.
    opt_listen.__doc__ = " ".join((opt_listen.__doc__ or "").split())
    opt_l = opt_listen

    def opt_cluster(self, zookeeper: str) -> None:
        """HOST:PORT/CHROOT: the ZooKeeper of the cluster that this broker joins; the same as --zookeeper."""
        self["zookeeper"] = zookeeper

    def opt_advertise(self, where: str) -> None:
        """NAME=HOST:PORT: the advertised address of the listener NAME; may be repeated."""
        self["advertise"].append(where)


def load(options: Options) -> tuple[ConfigView, list[Listener]]:
    """
    Load the configuration from the options and the file.

    :raise ConfigError: names what is wrong and what is accepted.
    """
    file, origins, repeated = read_file(options["config"]) if options["config"] else ({}, {}, [])
    settings = dict(parse_set(text) for text in options["set"])
    origins |= dict.fromkeys(settings, "--set")
    for option, key in (
        ("data-dir", keys.LOG_DIRS),
        ("broker-id", keys.BROKER_ID),
        ("zookeeper", keys.ZOOKEEPER_CONNECT),
        ("workers", keys.WORKERS),
        ("log-format", keys.LOGGER_FORMAT),
        ("log-file", keys.LOGGER_FILE),
    ):
        if options[option] is not None:
            if settings.get(key.name, options[option]) != options[option]:
                raise ConfigError(
                    f"--{option} {options[option]} is short for {key.name}, and --set {key.name}={settings[key.name]} "
                    "says otherwise: leave one of them out"
                )
            settings[key.name] = options[option]
            origins[key.name] = f"--{option}"
    config = ConfigView.load(file, settings, origins, warnings=repeated)
    zookeeper = config.get(keys.ZOOKEEPER_CONNECT)
    if zookeeper:
        from logbus.metastore.zookeeper_store import require_kazoo

        ConnectString.parse(zookeeper)
        require_kazoo()
    try:
        ZooKeeperSecurity.of(config)
    except ConfigError as error:
        # Its message begins with the key.
        raise config.located(str(error).partition(":")[0].partition("=")[0].partition(" ")[0], error) from None
    ports = {
        protocol: parse_port(option, options[option])
        for protocol, option in ((KAFKA, "port"), (ADMIN, "admin-port"))
        if options[option] is not None
    }
    listeners = resolve_listeners(options["listen"], options["advertise"], config, ports)
    refuse_keys_of_none(config, listeners, file.get("controller.listener.names", ""))
    return config, listeners


def read_file(path: str) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """
    Read a ``server.properties`` file.

    :return: the values by key, where each is set, such as ``server.properties, line 3``, and a warning for each key
        that is set again to another value, which counts, as in Kafka.
    :raise ConfigError: it cannot be read.
    """
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    warnings: list[str] = []
    try:
        for number, key, value in numbered_properties(Path(path).read_text(encoding="utf-8")):
            if values.get(key, value).strip() != value.strip():
                before = origins[key].rpartition(" ")[2]
                warnings.append(f"{path}, line {number}: {key} is set in line {before} already; the last value counts")
            values[key] = value
            origins[key] = f"{path}, line {number}"
    except (OSError, UnicodeDecodeError) as e:
        # A relative name is often looked for in another directory than was meant.
        place = f" ({Path(path).absolute()})" if isinstance(e, FileNotFoundError) else ""
        raise ConfigError(f"--config {path}: cannot be read: {short_reason(e)}{place}") from e
    except ConfigError as e:
        raise ConfigError(f"{path}, {e}") from None
    return values, origins, warnings


def parse_set(text: str) -> tuple[str, str]:
    """
    Parse the value of ``--set``: ``KEY=VALUE``.

    :raise ConfigError: it does not have this form.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text}: expected KEY=VALUE, such as num.partitions=3")
    return key.strip(), value


def parse_port(option: str, text: str) -> int:
    """
    Parse the value of ``--port`` or ``--admin-port``.

    :raise ConfigError: it is no port.
    """
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 65535):
        raise ConfigError(f"--{option} {text}: expected a port from 1 to 65535, or 0 for any free one")
    return int(text)


def usage_error(error: str, names: Sequence[str]) -> str:
    """
    Return the line for an error of getopt.

    :param names: the long options that there are, of which it names the nearest.
    """
    unknown = re.fullmatch(r"option -(-?.*) not recognized", error, re.DOTALL)
    if unknown is None:
        return f"{error}; --help lists the options"
    import difflib  # needed only here

    near = difflib.get_close_matches(unknown[1].lstrip("-"), names, 1)
    return f"there is no option -{unknown[1]}; " + (f"did you mean --{near[0]}?" if near else "--help lists them")


def fail(message: object, status: int = 1) -> NoReturn:
    """Print one line on standard error, and exit with a status."""
    sys.stderr.write(f"logbus: {escaped_line(message)}\n")
    raise SystemExit(status)


def escaped_line(message: object) -> str:
    """Return a message as one line that leaves the terminal alone."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in str(message))
