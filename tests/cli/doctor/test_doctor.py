"""Tests of ``logbus doctor`` as it is run, and of what it asks a cluster."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from logbus.cli.app import run_app
from logbus.cli.doctor.cluster import ClusterSilent, ask_over_http, cluster_findings
from logbus.cli.doctor.finding import Weight
from logbus.testing import Broker

SECONDS = 120


def test_wrong_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every error has its line, with what to do; the status says that something is to be mended."""
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=two\nno.such.key=1\n")
    assert run_app(["doctor", "--config", str(file), "--set", "workers=-1"]) == 1
    said = capsys.readouterr().out
    assert f"broken: configuration: {file}, line 1: num.partitions" in said
    assert f"broken: configuration: {file}, line 2: no.such.key" in said
    assert "broken: configuration: --set: workers" in said
    assert "3 broken" in said


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A finding is a JSON object on a line; the heaviest come first."""
    run_app(["doctor", "--set", f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}", "--set", "x=1", "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    weights = [["broken", "risk", "better"].index(row["weight"]) for row in rows]
    assert weights == sorted(weights)
    assert all({"weight", "subject", "what", "otherwise", "remedy"} == row.keys() for row in rows)


def test_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """A running broker's conditions are findings; without any there are none."""
    wanted = "log-directory-nearly-full: "
    with Broker({"log.dir.usage.warn.ratio": 0.0001}) as broker:
        ask = ask_over_http(broker.admin_url)
        deadline = time.monotonic() + SECONDS
        # A machine that stood still for a while has others, too.
        while not (found := [each for each in cluster_findings(ask) if each.what.startswith(wanted)]):
            assert time.monotonic() < deadline, "the condition is not told"
            time.sleep(0.1)
        [finding] = found
        assert finding.weight is Weight.RISK
        run_app(["doctor", "--admin", broker.admin_url])
        assert "risk: broker 0, " in capsys.readouterr().out


def test_a_cluster_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks about a cluster hears nothing of the log directory that a broker without settings would have here."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logbus-data").touch()
    with Broker() as broker:
        run_app(["doctor", "--admin", broker.admin_url])
        assert "logbus-data" not in capsys.readouterr().out
        run_app(["doctor", "--admin", broker.admin_url, "--set", "num.partitions=3"])
        assert "logbus-data" in capsys.readouterr().out


def test_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """One that does not answer is an error of the call, in one line."""
    assert run_app(["doctor", "--admin", "http://127.0.0.1:1"]) == 2
    assert "http://127.0.0.1:1: no answer" in capsys.readouterr().err
    assert run_app(["doctor", "--admin", "ftp://x"]) == 2
    assert "expected http://HOST:PORT" in capsys.readouterr().err


def test_wrong_cluster() -> None:
    """What answers otherwise than a broker is named."""
    with Broker() as broker:
        ask = ask_over_http(broker.admin_url)
        with pytest.raises(ClusterSilent, match="404"):
            ask("/nowhere")
        with pytest.raises(ClusterSilent, match="no JSON"):
            ask("/metrics")


def test_cluster_rules() -> None:
    """Older brokers, no controller, brokers that do not answer, pages."""
    row = {
        "broker": 2,
        "subject": "/d",
        "severity": "critical",
        "condition": "log-directory-full",
        "message": "full",
        "meaning": "Refused.",
        "advice": "Mend.",
    }
    pages: dict[str, Any] = {
        "/api/v1/brokers": {"items": [{"id": 1, "feature_level": 4}, {"id": 2, "feature_level": 3}]},
        "/api/v1/cluster": {"controller": None},
        "/api/v1/conditions": {"items": [row], "next": "a/b", "unanswered": [{"broker": 3, "reason": "silent"}]},
        "/api/v1/conditions?after=a%2Fb": {"items": [row], "next": None, "unanswered": []},
    }
    found = [(finding.weight, finding.subject) for finding in cluster_findings(pages.__getitem__)]
    assert found == [
        (Weight.BETTER, "brokers 2"),
        (Weight.BROKEN, "controller"),
        (Weight.BROKEN, "broker 2, /d"),
        (Weight.RISK, "broker 3"),
        (Weight.BROKEN, "broker 2, /d"),
    ]
