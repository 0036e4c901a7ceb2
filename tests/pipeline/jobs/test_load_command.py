"""Tests ``logbus pipeline load`` and ``compact``: options, reports and errors."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from logbus.cli.app import run_app
from logbus.pipeline.jobs import load as loads
from logbus.pipeline.lake.commit_log import CommitKind, DataFile
from logbus.pipeline.lake.file_system import LocalFileSystem
from logbus.pipeline.lake.table import Table
from logbus.testing import Broker
from tests.pipeline.load_fixtures import BASE, fill, held, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_load(
    spark: SparkSession, broker: Broker, tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    """All options of a load, and its report; then a compaction."""
    topic, report, table = make(broker, 2), tmp_path / "report.json", tmp_path / "table"
    schema = tmp_path / "schema"
    schema.write_text("user STRING, at TIMESTAMP")
    for partition in range(2):
        fill(broker, topic, [b'{"user": "u", "at": "2024-05-01T12:00:00Z"}', b"odd"] * 4, partition)
    status, out, _ = command("load", topic, "--table", table, "--dry-run")
    assert (status, json.loads(out)["offsets"]) == (0, {f"{topic}-0": 8, f"{topic}-1": 8})
    assert not table.exists()
    asked = ["load", "--pattern", f"^{topic}$", "--table", table, "--payload", "json", "--schema", f"@{schema}"]
    asked += ["--event-time", "at", "--into", "event", "--headers", "--batch-offsets", 6, "--late-after", "1.5"]
    asked += ["--min-partitions", 3, "--partition-by", "hour", "--report", report, "--kafka", "client.id=load"]
    status, out, said = command(*asked, "--since", BASE + 1, "--until", BASE + 6)
    assert status == 0
    found = json.loads(out)
    assert found == json.loads(report.read_text())
    assert {name: found[name] for name in ("batches", "offsets", "records", "quarantined", "late", "stopped")} == {
        "batches": 2,
        "offsets": 10,
        "records": 10,
        "quarantined": 6,
        "late": 0,
        "stopped": False,
    }
    # On a busy machine it says how many tasks are done, too.
    lines = [line for line in said.splitlines() if not line.endswith("tasks are done")]
    assert lines[0] == "load: starts Spark"
    assert re.fullmatch("load: Spark 4[0-9.]* runs on local.2.", lines[1])
    assert lines[2] == f"load: {topic}: 10 offsets of 2 partitions to read, in 2 batches or more, which the table lacks"
    batch = r"load: commit \d: \d records, \d in quarantine of 2 partitions in \d files; "
    batch += r"[0-9.]+ s, \d+ records/s, \d\.\d MB/s"
    assert re.fullmatch(f"{batch}; 4 offsets are left", lines[3])
    assert re.fullmatch(batch, lines[4])
    status, out, said = command(*asked, "--quiet")
    assert (status, json.loads(out)["records"], said) == (0, 6, "")
    rows = spark.read.parquet(str(table))
    assert rows.columns == [*("topic", "partition", "offset", "timestamp", "key", "headers", "event"), "date", "hour"]
    before = held(spark, table)
    assert before == [(topic, partition, offset) for partition in range(2) for offset in range(0, 8, 2)]
    status, out, _ = command("compact", "--table", table, "--min-files", 2, "--target-mb", 1)
    assert (status, json.loads(out)["files_after"]) == (0, 2)
    assert held(spark, table) == before
    part = ["--offsets", json.dumps({topic: {"0": 0, "1": 3}}), "--end-offsets", json.dumps({topic: {"0": 1, "1": 5}})]
    status, out, _ = command("load", topic, "--table", tmp_path / "part", *part, "--quiet")
    assert (status, json.loads(out)["offsets"]) == (0, 3)
    assert held(spark, tmp_path / "part") == [(topic, 0, 0), (topic, 1, 3), (topic, 1, 4)]


def test_stop(broker: Broker, tmp_path: Path, command: Callable[..., tuple[int, str, str]]) -> None:
    """SIGTERM ends a load that follows, after what is under way; its report says so."""
    topic = make(broker)
    fill(broker, topic, [b"x"])

    load_batch = loads._Load.load_batch

    def terminated(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        load_batch(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loads._Load, "load_batch", terminated)
        status, out, said = command("load", topic, "--table", tmp_path / "t", "--follow", 60)
    assert (status, json.loads(out)["stopped"], json.loads(out)["records"]) == (0, True, 1)
    assert "stopping after what is under way" in said


def test_refused(broker: Broker, tmp_path: Path, command: Callable[..., tuple[int, str, str]]) -> None:
    """Wrong options are named, with what would be right, and nothing is begun."""
    topic, table = make(broker), tmp_path / "t"
    for more, words in (
        ([], "say which topics: their names, or --pattern"),
        ([topic, "--pattern", "x"], "and --pattern is 'x': give one of the two"),
        (["nowhere"], "there is no topic 'nowhere', which is to be read"),
        (["--pattern", "("], "--pattern"),
        ([topic, "--schema", "a INT"], "--into and --metadata-as are for --payload json and avro"),
        ([topic, "--registry", "http://h"], "--registry and --subject are for --payload avro"),
        ([topic, "--payload", "json"], "--payload json needs --schema, such as 'user STRING, at TIMESTAMP'"),
        ([topic, "--payload", "json", "--schema", "a NONSENSE"], "'a NONSENSE' is no schema such as"),
        (
            [topic, "--payload", "json", "--schema", "@/nowhere"],
            "@/nowhere is in no file that can be read: No such file",
        ),
        ([topic, "--payload", "avro"], "--payload avro needs --registry, such as http://"),
        (["a", "b", "--payload", "avro", "--registry", "http://h"], "of several topics --payload avro needs --schema"),
        ([topic, "--payload", "avro", "--registry", "h"], "'h' is no URL of a schema registry, such as http://"),
        (
            [topic, "--payload", "avro", "--registry", f"{broker.admin_url}/registry"],
            f"/registry/subjects/{topic}-value/versions/latest: ",
        ),
        ([topic, "--since", "yesterday"], "'yesterday' is neither milliseconds since 1970 nor a date"),
        ([topic, "--since", "9", "--until", "8"], "--until: 8 is before --since, 9"),
        ([topic, "--offsets", "{}"], "--offsets"),
        ([topic, "--end-offsets", "5"], "--end-offsets"),
        ([topic, "--kafka", "auto.offset.reset=latest"], "say where to begin with --offsets"),
        ([topic, "--kafka", "nonsense"], "'nonsense'"),
        ([topic, "--batch-offsets", 0], "0 is not in the range x>=1"),
        ([topic, "--follow", 0], "0.0 is not in the range x>0"),
        ([topic, "--late-after", "1e30"], "--late-after is 1e+30; it takes seconds, from 0"),
    ):
        status, out, said = command("load", *more, "--table", table)
        assert (status != 0, out) == (True, ""), more
        assert words in " ".join(said.split()), said
        assert "internal error" not in said
    for url, words in (
        ("wasb://bucket/t", "wasb"),
        (tmp_path, "holds files, but no _logbus/commits: it is not a table of logbus"),
    ):
        (tmp_path / "other").touch()
        for job in (["load", topic], ["compact"]):
            status, out, said = command(*job, "--table", url)
            assert (status, out) == (1, ""), said
            assert words in said
            assert "internal error" not in said
    for url, words in (
        ("wasb://bucket/t", "wasb: is not known to make a file appear"),
        (
            "hdfs://nohost.invalid:1/t",
            "no namenode can be reached at nohost.invalid:1: there is no host 'nohost.invalid'",
        ),
    ):
        status, out, said = command("load", topic, "--table", url)
        assert (status, out) == (1, "")
        assert said.splitlines()[-1].startswith("logbus: ")
        assert words in said
    assert not table.exists()
    status, out, said = command("compact", "--table", table)
    assert (status, out) == (1, "")
    assert said == f"logbus: there is no table at file://{table}\n"
    assert not table.exists(), "a slip of the pen makes no table"


def test_wrong_before_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What options alone show to be wrong is one line, and wrong usage, before a broker is asked and Java starts."""

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("it starts Spark, or asks a broker")

    monkeypatch.setattr("logbus.pipeline.session.session", never)
    monkeypatch.setattr("logbus.pipeline.jobs.broker_check.OffsetReader", never)
    json_of = ["--payload", "json", "--schema", "user STRING, page STRING, at TIMESTAMP, tags ARRAY<STRING>"]
    masters = "it takes local, local[2], local[*], spark://HOST:PORT, k8s://URL or yarn"
    load = ["load", "views", "--table", str(tmp_path / "t")]
    hours = ["windows", "views", "--size", "1 hour", "--to-table", str(tmp_path / "t"), "--checkpoint", str(tmp_path)]
    clicked = ["join", "views", "clicks", "--on", "user=user", "--select", "who=l.user", *hours[4:]]
    for asked, words in (
        ([*load, "--master", "nonsense"], f"--master is 'nonsense'; {masters}"),
        ([*load, "--master", "spark://host"], f"--master is 'spark://host'; {masters}"),
        ([*load, "--master", "local[0]"], f"--master is 'local[0]'; {masters}"),
        ([*load, "--spark", "spark.master=h:7077"], f"--spark spark.master is 'h:7077'; {masters}"),
        (["compact", "--table", str(tmp_path), "--master", "x"], f"--master is 'x'; {masters}"),
        (
            [*load, *json_of, "--partition-by", "pge"],
            "--partition-by is 'pge', and the rows have no such column; there are topic, partition, offset, timestamp, "
            "key, user, page, at, tags; did you mean 'page'?",
        ),
        ([*load, *json_of, "--partition-by", "tags"], "--partition-by is 'tags', a column of type array, whose"),
        ([*load, *json_of, "--partition-by", "kafka", "--metadata-as", "kafka"], "'kafka', a column of type struct"),
        ([*load, *json_of, "--partition-by", "user", "--into", "event"], "there are topic, partition, offset, time"),
        ([*load, "--partition-by", "value"], "--partition-by is 'value', a column of type binary, whose values are no"),
        ([*load, "--partition-by", "headers"], "the rows have no such column"),
        ([*load, "--partition-by", "headers", "--headers"], "--partition-by is 'headers', a column of type array"),
        (
            [*hours, "--partition-by", "page"],
            "a directory (--partition-by) is of the column 'page', which is not there",
        ),
        ([*clicked, "--partition-by", "page"], "is of the column 'page', which is not there; there are who"),
        (
            ["load", "views", "--table", "hdfs:///lake"],
            "hdfs:///lake: the namenode is not known; give hdfs://HOST:PORT",
        ),
        (["compact", "--table", "hdfs:/lake"], "hdfs:/lake: the namenode is not known; give hdfs://HOST:PORT"),
        ([*hours[:-1], "hdfs:///c"], "hdfs:///c: the namenode is not known; give hdfs://HOST:PORT"),
    ):
        status = run_app(["pipeline", *asked])
        out, said = capsys.readouterr()
        assert (status, out, said.count("\n")) == (2, "", 1), said
        assert said.startswith("logbus: ")
        assert words in said


def test_tables_before_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a table on this machine shows to be wrong is said before Java starts, too."""
    monkeypatch.setattr("logbus.pipeline.session.session", lambda *_, **__: pytest.fail("it starts Spark"))
    foreign, hours = tmp_path / "foreign", tmp_path / "hours"
    foreign.mkdir()
    (foreign / "other").touch()
    made = Table(LocalFileSystem(hours))
    made.claim()
    file = "date=2026-01-01/part-0.parquet"
    (hours / made.staging / file).parent.mkdir(parents=True)
    (hours / made.staging / file).touch()
    made.commit(CommitKind.LOAD, [DataFile(file, 0)])
    query = ["windows", "views", "--size", "1 hour", "--checkpoint", str(tmp_path / "c")]
    for asked, words in (
        (["compact", "--table", str(tmp_path / "no")], f"there is no table at file://{tmp_path}/no"),
        (["compact", "--table", str(foreign)], f"file://{foreign} holds files, but no _logbus/commits"),
        (["load", "views", "--table", str(foreign)], f"file://{foreign} holds files, but no _logbus/commits"),
        (
            ["load", "views", "--table", str(hours), "--partition-by", "hour"],
            "its files are in date=..., and partition",
        ),
        (["load", "views", "--table", str(hours), "--format", "delta"], "is a table of the format parquet, and not"),
        (["load", "views", "--table", str(foreign / "other" / "t")], f"{foreign}/other is a file, and has to be a dir"),
    ):
        status = run_app(["pipeline", *asked])
        out, said = capsys.readouterr()
        assert (status, out, said.count("\n")) == (1, "", 1), said
        assert words in said
    with Broker() as broker:
        topic = make(broker)
        query[1:2] = [topic, "--bootstrap", broker.bootstrap]
        assert run_app(["pipeline", *query, "--to-table", str(foreign)]) == 1
        assert "holds files, but no _logbus/commits" in capsys.readouterr().err
        place = str(foreign / "other" / "c")
        assert run_app(["pipeline", *query, "--to-table", str(tmp_path / "new"), "--checkpoint", place]) == 1
        assert capsys.readouterr().err == f"logbus: {place}: {foreign}/other is a file, and has to be a directory\n"


def test_no_topic_yet(tmp_path: Path, command: Callable[..., tuple[int, str, str]]) -> None:
    """A pattern that matches nothing is an error of a load that would not wait for a topic."""
    status, out, said = command("load", "--pattern", "^nothing-like-it$", "--table", tmp_path / "t")
    assert (status, out) == (1, "")
    assert said.startswith("logbus: no topic matches the pattern '^nothing-like-it$'; there are ")
    assert not (tmp_path / "t").exists()
