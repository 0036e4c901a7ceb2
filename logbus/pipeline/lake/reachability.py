"""
Checks that the namenode of a URL of HDFS, or the endpoint of an object store, can be reached, before Spark starts.

Hadoop tries a namenode that is silent for a quarter of an hour, and one that refuses connections for ten seconds. Arrow
makes requests to a store ten times, with growing pauses.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from logbus.pipeline.blocking.patience import PATIENCE, telling, warn
from logbus.pipeline.errors import LakeError, OptionError
from logbus.pipeline.lake.object_store import GCS_SCHEMES, S3_SCHEMES, split_scheme
from logbus.pipeline.users_settings import settings_directory, users_settings, usual_home

NAMENODE_PORT = 8020

_SECONDS = 60.0
_NAMENODE = re.compile(r"hdfs://(?P<host>\[[0-9A-Fa-f:.]+\]|[^/:\[\]]+):(?P<port>[^/]*)(?:/.*)?", re.IGNORECASE)
_NO_HOST = re.compile(r"hdfs:(?!//[^/]).*", re.IGNORECASE)
_LEFT_TO_SPARK = frozenset(["SPARK_HOME", "SPARK_DIST_CLASSPATH", "PYSPARK_GATEWAY_PORT"])
"""
Environment variables of which it cannot be seen what they tell Hadoop: of another Spark, whose ``spark-submit`` may
look for settings anywhere; of more classes, with their directories; of a Java that runs already.
"""
_CONF_DIRS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_SITE_FILES = ("core-site.xml", "hdfs-site.xml", "spark-env.sh")
"""Files in a directory of settings that may have the default namenode, or say where others are."""
_DEFAULT_NAMENODE = frozenset(
    ["spark.hadoop.fs.defaultFS", "spark.hadoop.fs.default.name", "spark.driver.extraClassPath", "spark.jars"]
)
"""Settings that may tell Hadoop its default namenode."""
_JAVA_OPTIONS = re.compile(r"-Dspark\.hadoop\.fs\.default(FS|\.name)\b")
_JAVA_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST", "AZURE_STORAGE_ENDPOINT")
_PROXIES = frozenset(["http_proxy", "https_proxy", "all_proxy"])
_PORTS = {"http": 80, "https": 443}


def check_namenode(url: str, tell: Callable[[str], None] = warn) -> None:
    """
    Check that a namenode takes connections; URLs without a port, which may be of a nameservice, are left to Hadoop.

    :param tell: is told after :data:`.PATIENCE` seconds that there is no answer.
    :raise LakeError: it does not, or there is no such host or port.
    """
    found = _NAMENODE.fullmatch(url)
    if found is None:
        return
    if not found["port"].isdecimal() or not 0 < int(found["port"]) < 65536:
        raise LakeError(f"{url}: {found['port']!r} is no port; a namenode's is usually {NAMENODE_PORT}")
    connect(f"{url}: no namenode", found["host"].strip("[]"), int(found["port"]), tell)


def check_default_namenode(url: str, settings: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> None:
    """
    Check of a URL of HDFS without a host, such as ``hdfs:///lake``, that Hadoop may know its default namenode.

    :param settings: Spark's, as the program gives them; those that the user made elsewhere are looked up.
    :raise OptionError: nobody has said which that is.
    """
    if not _NO_HOST.fullmatch(url) or _LEFT_TO_SPARK & environ.keys():
        return
    home = usual_home(environ)
    options = [*settings.values(), *(environ.get(each, "") for each in (*_JAVA_VARIABLES, "PYSPARK_SUBMIT_ARGS"))]
    if _DEFAULT_NAMENODE & (settings.keys() | users_settings(environ, home)) or any(map(_JAVA_OPTIONS.search, options)):
        return
    named = {name: environ[name].split(os.pathsep) for name in _CONF_DIRS if environ.get(name)}
    directories = [settings_directory(environ, home), *(Path(each) for some in named.values() for each in some)]
    if any((directory / name).exists() for directory in directories for name in _SITE_FILES):
        return
    where = "".join(f"; in {name}, which is {environ[name]}, there is no core-site.xml" for name in named)
    raise OptionError(
        f"{url}: the namenode is not known{where}; give hdfs://HOST:PORT/PATH, or a default one: by core-site.xml in "
        "HADOOP_CONF_DIR, or --spark spark.hadoop.fs.defaultFS=hdfs://HOST:PORT"
    )


def check_endpoint(
    url: str, options: Mapping[str, str], tell: Callable[[str], None] = warn, environ: Mapping[str, str] = os.environ
) -> None:
    """
    Check that the endpoint of a store takes connections, or that its usual host has an address, if no proxy is given.

    :param options: of the store (:func:`.store_options`).
    :param tell: see :func:`check_namenode`.
    :raise LakeError: it does not, or there is no such host or port.
    """
    if has_proxy(environ):
        return
    name = next((each for each in _ENDPOINTS if options.get(each)), None)
    if name is None:
        _check_host(url, *_usual_host(url, options))
        return
    check_address(url, name, options[name], tell)


def has_proxy(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a proxy is given: then addresses need not be reached directly."""
    return not _PROXIES.isdisjoint(each.lower() for each in environ)


def check_address(url: str, name: str, given: str, tell: Callable[[str], None] = warn) -> None:
    """
    Check that a store takes connections at an address.

    :param url: whose store it is, for messages.
    :param name: of the setting that has the address.
    :param given: the setting: a URL, or a host and a port.
    :param tell: see :func:`check_namenode`.
    :raise LakeError: it does not, or there is no such host or port.
    """
    parts = urlsplit(given if "://" in given else f"//{given}")
    try:
        port = parts.port or _PORTS.get(parts.scheme, 443)
    except ValueError as e:
        raise LakeError(f"{name} is {given!r}, which has no port such as 9000: {e}") from e
    if not parts.hostname:
        raise LakeError(f"{name} is {given!r}, which has no host; it takes a URL such as http://127.0.0.1:9000")
    connect(f"{url}: no store ({name})", parts.hostname, port, tell)


def _usual_host(url: str, options: Mapping[str, str]) -> tuple[str, str]:
    """The host of a store without a given endpoint, and where its name comes from; "": it is not known."""
    scheme, rest = split_scheme(url)
    if scheme in S3_SCHEMES:
        region = options.get("AWS_REGION") or options.get("AWS_DEFAULT_REGION") or "us-east-1"
        suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        return f"s3.{region}.{suffix}", "AWS_REGION, AWS_ENDPOINT_URL"
    if scheme in GCS_SCHEMES:
        return "storage.googleapis.com", "STORAGE_EMULATOR_HOST"
    host = rest.lstrip("/").partition("/")[0].partition("@")[2]
    return host, "the account's name, AZURE_STORAGE_ENDPOINT"


def _check_host(url: str, host: str, by: str) -> None:
    try:
        if host:
            socket.getaddrinfo(host, 443)
    except socket.gaierror as e:
        # Others may pass, such as a failure of the network.
        if e.errno in (socket.EAI_NONAME, socket.EAI_NODATA):
            raise LakeError(f"{url}: its store's host {host} has no address; see the network, {by}") from e


def connect(
    what: str,
    host: str,
    port: int,
    tell: Callable[[str], None],
    seconds: float = _SECONDS,
    patience: float = PATIENCE,
) -> None:
    """
    Connect to an address, and disconnect.

    :param what: has not answered, for messages.
    :param tell: is told that it has not, after ``patience`` seconds.
    :param seconds: how long to try.
    :raise LakeError: it has not, or there is no such host.
    """
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        with telling(f"{what} has answered at {place} for {patience:g} s; still trying", tell, patience):
            socket.create_connection((host, port), seconds).close()
    except TimeoutError as e:
        raise LakeError(f"{what} has answered at {place} for {seconds:g} s") from e
    except socket.gaierror as e:
        raise LakeError(f"{what} can be reached at {place}: there is no host {host!r}: {e.strerror}") from e
    except OSError as e:
        raise LakeError(f"{what} can be reached at {place}: {e.strerror or e}") from e
