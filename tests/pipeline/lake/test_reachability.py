"""Tests the look at namenodes and endpoints of stores before Spark starts."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from logbus.pipeline.errors import LakeError, OptionError
from logbus.pipeline.lake import reachability
from logbus.pipeline.lake.reachability import check_default_namenode, check_endpoint, check_namenode, connect


@pytest.fixture
def free_port() -> Iterator[int]:
    """One that nobody listens at, and nobody else is given meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_reached() -> None:
    """One that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_namenode(f"hdfs://127.0.0.1:{port}/lake")
        check_endpoint("s3://bucket/lake", {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"})


@pytest.mark.parametrize("url", ["lake/views", "/lake", "file:///lake", "hdfs:///lake", "hdfs://service/lake"])
def test_left_to_hadoop(url: str) -> None:
    """What is not on HDFS, or at an address that only Hadoop's settings have."""
    with mock.patch.object(socket, "create_connection", side_effect=AssertionError):
        check_namenode(url)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("s3a://bucket/lake", "s3.eu-north-1.amazonaws.com"),
        ("gs://bucket/lake", "storage.googleapis.com"),
        ("abfss://lake@account.dfs.core.windows.net/views", "account.dfs.core.windows.net"),
    ],
)
def test_usual_hosts(url: str, host: str) -> None:
    """A store at its usual place has an address, or there is no store; other failures may pass."""
    options = {"AWS_REGION": "eu-north-1"}
    for error, found in (
        (None, ""),
        (socket.EAI_AGAIN, ""),
        (socket.EAI_NONAME, f"{url}: its store's host {host} has "),
    ):
        effect: Any = [[]] if error is None else socket.gaierror(error, "told")
        with mock.patch.object(socket, "getaddrinfo", side_effect=effect) as asked:
            if found:
                with pytest.raises(LakeError, match=f"^{found}no address; see the network, "):
                    check_endpoint(url, options, environ={})
            else:
                check_endpoint(url, options, environ={})
        asked.assert_called_once_with(host, 443)
    with mock.patch.object(socket, "getaddrinfo", side_effect=AssertionError):
        check_endpoint("abfss://lake/views", {}, environ={})


def test_behind_a_proxy() -> None:
    """What can be reached is not known."""
    with mock.patch.object(socket, "create_connection", side_effect=AssertionError):
        proxy = {"HTTPS_PROXY": "http://proxy:3128"}
        check_endpoint("s3://bucket/lake", {"AWS_ENDPOINT_URL": "https://store"}, environ=proxy)


@pytest.mark.parametrize("url", ["hdfs:///lake", "hdfs:/lake", "HDFS:lake", "hdfs://"])
def test_no_namenode(url: str) -> None:
    """Without a host Hadoop needs to have been told which the default one is."""
    with pytest.raises(OptionError, match=rf"^{url}: the namenode is not known; give hdfs://HOST:PORT/PATH, or a def"):
        check_default_namenode(url, {"spark.ui.enabled": "false"}, {})


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.hadoop.fs.defaultFS": "hdfs://host:8020"},
        {"spark.hadoop.fs.default.name": "hdfs://host:8020"},
        {"spark.driver.extraClassPath": "/etc/hadoop"},
        {"spark.jars": "settings.jar"},
        {"spark.driver.extraJavaOptions": "-Xss4m -Dspark.hadoop.fs.defaultFS=hdfs://host"},
    ],
)
def test_named_by_settings(settings: Mapping[str, str]) -> None:
    """Or by classes, among which there may be Hadoop's files."""
    check_default_namenode("hdfs:///lake", settings, {})


@pytest.mark.parametrize(
    "environ",
    [
        {"PYSPARK_SUBMIT_ARGS": "--conf spark.hadoop.fs.defaultFS=hdfs://h pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--driver-class-path /etc/hadoop pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--driver-class-path=/etc/hadoop pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--driver-java-options '-Dspark.hadoop.fs.defaultFS=hdfs://h' pyspark-shell"},
        {"JAVA_TOOL_OPTIONS": "-Dspark.hadoop.fs.default.name=hdfs://h"},
        {"SPARK_HOME": "/opt/spark"},
        {"SPARK_DIST_CLASSPATH": "/etc/hadoop"},
        {"PYSPARK_GATEWAY_PORT": "1234"},
    ],
)
def test_named_by_environment(environ: Mapping[str, str]) -> None:
    """By options of spark-submit, or by what cannot be seen before Java starts."""
    check_default_namenode("hdfs:///lake", {}, environ)


@pytest.mark.parametrize("name", ["core-site.xml", "hdfs-site.xml", "spark-env.sh"])
@pytest.mark.parametrize("variable", ["HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", None])
def test_named_by_file(tmp_path: Path, variable: str | None, name: str) -> None:
    """In a directory of settings, of which the last is Spark's own; Hadoop's may be several."""
    directory = tmp_path / "conf"
    directory.mkdir()
    if variable is None:
        environ = {}
    elif variable == "SPARK_CONF_DIR":
        environ = {variable: str(directory)}
    else:
        environ = {variable: f"{tmp_path / 'other'}:{directory}"}
    with mock.patch.object(reachability, "usual_home", return_value=tmp_path if variable is None else tmp_path / "x"):
        with pytest.raises(OptionError, match=r"^hdfs:///lake: the namenode is not known"):
            check_default_namenode("hdfs:///lake", {}, environ)
        (directory / name).touch()
        check_default_namenode("hdfs:///lake", {}, environ)


@pytest.mark.parametrize("by", ["--properties-file", "SPARK_CONF_DIR"])
def test_named_by_properties(tmp_path: Path, by: str) -> None:
    """In a file of Spark's settings, if it has that one."""
    path = tmp_path / "spark-defaults.conf"
    environ = {"PYSPARK_SUBMIT_ARGS": f"{by} {path} pyspark-shell"} if by.startswith("-") else {by: str(tmp_path)}
    path.write_text("spark.ui.enabled false\n# spark.hadoop.fs.defaultFS hdfs://h\n")
    with pytest.raises(OptionError, match=r"^hdfs:///lake: the namenode is not known; give"):
        check_default_namenode("hdfs:///lake", {}, environ)
    path.write_text("spark.hadoop.fs.defaultFS hdfs://h\n")
    check_default_namenode("hdfs:///lake", {}, environ)


def test_named_nowhere(tmp_path: Path) -> None:
    """A directory without settings of Hadoop is said to be that."""
    environ = {"HADOOP_CONF_DIR": str(tmp_path), "JAVA_TOOL_OPTIONS": "-Xmx1g", "SPARK_DIST": "x"}
    found = f"not known; in HADOOP_CONF_DIR, which is {tmp_path}, there is no core-site.xml; give hdfs://HOST"
    with pytest.raises(OptionError, match=found):
        check_default_namenode("hdfs:///lake", {"spark.ui.enabled": "false"}, environ)


@pytest.mark.parametrize("url", ["hdfs://host/lake", "hdfs://service", "/lake", "lake", "s3:///lake", "", "hdfsx:/y"])
def test_needs_no_default(url: str) -> None:
    """It has a host, or is on another store."""
    check_default_namenode(url, {}, {})


def test_refused(free_port: int) -> None:
    """Nobody listens there."""
    place = f"127.0.0.1:{free_port}"
    with pytest.raises(LakeError, match=rf"no namenode can be reached at {place}: Connection refused"):
        check_namenode(f"hdfs://{place}/lake")
    for name, given in (("AWS_ENDPOINT_URL", f"http://{place}"), ("STORAGE_EMULATOR_HOST", place)):
        with pytest.raises(
            LakeError, match=rf"^\w+://bucket/lake: no store \({name}\) can be reached at {place}: Conn"
        ):
            check_endpoint("x://bucket/lake", {name: given}, environ={})


def test_unknown_host() -> None:
    """The name of the host is wrong."""
    error = socket.gaierror(-2, "Name or service not known")
    with (
        mock.patch.object(socket, "create_connection", side_effect=error),
        pytest.raises(LakeError, match=r"there is no host 'nobody\.example': Name or service not known"),
    ):
        check_namenode("hdfs://nobody.example:8020/lake")


@pytest.mark.parametrize("port", ["", "http", "0", "65536"])
def test_wrong_port(port: str) -> None:
    """A namenode has a number."""
    with pytest.raises(LakeError, match=f"'{port}' is no port; a namenode's is usually 8020"):
        check_namenode(f"hdfs://host:{port}/lake")


@pytest.mark.parametrize("given", ["http://host:x", "http://host:99999", "http://", "/path"])
def test_wrong_endpoint(given: str) -> None:
    """It is a URL."""
    with pytest.raises(LakeError, match=f"AWS_ENDPOINT_URL is '{given}', which has no (port|host)"):
        check_endpoint("s3://bucket/lake", {"AWS_ENDPOINT_URL": given}, environ={})


def test_silence() -> None:
    """It is told soon, and given up later; here connections wait in a full backlog."""
    told: list[str] = []
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(server.getsockname())
        with pytest.raises(LakeError, match=f"nobody has answered at 127.0.0.1:{port} for 0.5 s"):
            connect("nobody", "127.0.0.1", port, told.append, 0.5, 0.1)
        for one in waiting:
            one.close()
    assert told == [f"nobody has answered at 127.0.0.1:{port} for 0.1 s; still trying"]
