"""The rules and the dashboard are valid, and name metrics that exist; alerts fire when they should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import frozen

from logbus.broker import Broker
from logbus.conditions import KINDS
from logbus.config import ConfigView
from logbus.exposition import render
from logbus.series_limit import limit_series
from logbus.testing.private_reactor import close_reactor, private_reactor
from tests.deploy.dashboard import panels
from tests.deploy.prometheus_server import RULES

ROOT = Path(__file__).parent.parent.parent
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="needs promtool, which tests/run fetches")


@cache
def exposition() -> str:
    """What a broker that was built, and never started, shows."""
    reactor = private_reactor()
    try:
        with tempfile.TemporaryDirectory() as directory:
            broker = Broker(reactor, ConfigView.load(set={"log.dirs": directory}), [], plugins={})
            return b"".join(render(limit_series(broker.registry.collect(), 1000), False)).decode()
    finally:
        close_reactor(reactor)


def rules_of(name: str) -> list[dict[str, Any]]:
    """All rules of a file."""
    return [rule for group in yaml.safe_load((RULES / name).read_text())["groups"] for rule in group["rules"]]


ALERTS = {rule["alert"]: rule for rule in rules_of("alerts.yml")}
RECORDED = {rule["record"]: rule["expr"] for rule in rules_of("recording.yml")}


def dashboard_expressions() -> list[str]:
    return [query.expression for panel in panels() for query in panel.queries]


def test_every_metric_exists() -> None:
    """An alert or a panel on a metric that was renamed would be silent."""
    known = set(re.findall(r"^# TYPE (\S+)", exposition(), re.MULTILINE))
    for expression in [rule["expr"] for rule in ALERTS.values()] + list(RECORDED.values()) + dashboard_expressions():
        for name in re.findall(r"\blogbus_[a-z_]+\b", expression):
            assert {name, re.sub("_(bucket|count|sum)$", "", name)} & known, expression
        for name in re.findall(r"\blogbus:[a-z0-9_:]+", expression):
            assert name in RECORDED, expression
        for kind in re.findall(r'condition="([^"]+)"', expression):
            assert kind in {each.name for each in KINDS}, expression


def test_lines_have_names_of_their_own() -> None:
    """In a cluster all brokers have what one has: a line is named after its broker, or is about all of them."""
    for query in (query for panel in panels() for query in panel.queries):
        named = set(re.findall(r"{{(\w+)}}", query.legend))
        if "instance" not in named:
            over_all = re.search(r"\b(?:sum|max)(?: by \(([^)]*)\) )?\(", query.expression)
            assert over_all, query
            assert set((over_all[1] or "").replace(",", " ").split()) == named, query


def test_every_alert_has_a_section() -> None:
    """The page of alerts says for each of them, and for no other, what to do."""
    page = (ROOT / "docs" / "howto" / "alerts.rst").read_text()
    assert re.findall(r"^(Logbus\w+)\n-+$", page, re.MULTILINE) == list(ALERTS)
    for name, rule in ALERTS.items():
        assert rule["annotations"]["runbook"] == f"howto/alerts.html#{name.lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert {"summary", "description"} <= rule["annotations"].keys()


def promtool(*arguments: object, given: str | None = None) -> None:
    assert PROMTOOL is not None
    ran = subprocess.run(
        [PROMTOOL, *map(str, arguments)], input=given, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@needs_promtool
def test_rules_are_valid(tmp_path: Path) -> None:
    """Promtool accepts the rules, and the dashboard's expressions as rules."""
    panels = [
        {"record": f"panel:number{number}", "expr": expression}
        for number, expression in enumerate(dashboard_expressions())
    ]
    (tmp_path / "panels.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": panels}]}))
    promtool("check", "rules", *RULES.glob("*.yml"), tmp_path / "panels.yml")


@needs_promtool
def test_metrics_are_valid() -> None:
    """Promtool has nothing against the names, types and helps of a broker's metrics."""
    promtool("check", "metrics", given=exposition())


@frozen
class Case:
    """
    Samples, one a minute, and the first minute at which an alert fires that did not a minute before.

    :ivar series: values by series, in promtool's notation.
    """

    series: dict[str, str]
    fires: int


def steps(metric: str, wait: int = 0, labels: str = "") -> Case:
    """A gauge that is 0 for ten minutes, then 1; it fires ``wait`` minutes later."""
    return Case({f'{metric}{{job="logbus",instance="a"{labels}}}': "0x9 1x2000"}, 10 + wait)


def counts(metric: str, wait: int = 0) -> Case:
    """A counter that begins to count after ten minutes, 60 a minute."""
    return Case({f'{metric}{{job="logbus",instance="a"}}': "0x9 60+60x2000"}, 10 + wait)


SPACE = '{job="logbus",instance="a",directory="/d"}'
GROUP = '{job="logbus",instance="a",group="g"}'
PRODUCE_TIMES = 'logbus_request_seconds_bucket{job="logbus",instance="a",api="Produce",phase="total"'
CASES = {
    "LogbusBrokerDown": Case({'up{job="logbus",instance="a"}': "1x9 0x2000"}, 12),
    "LogbusNoController": Case({'logbus_active_controller{job="logbus",instance="a"}': "1x9 0x2000"}, 12),
    "LogbusOfflinePartitions": steps("logbus_offline_partitions", 1),
    "LogbusUnderMinIsr": steps("logbus_under_min_isr_partitions", 1),
    "LogbusUnderReplicated": steps("logbus_under_replicated_partitions", 10),
    "LogbusIsrFlapping": Case({'logbus_isr_shrinks_total{job="logbus",instance="a"}': "0x9 50x2000"}, 10),
    "LogbusUncleanElection": counts("logbus_unclean_leader_elections_total"),
    "LogbusMetadataStoreAway": steps("logbus_conditions", 1, ',condition="metadata-store-away"'),
    "LogbusLogDirectoryOffline": steps("logbus_offline_log_directories"),
    "LogbusLogDirectoryFull": steps("logbus_full_log_directories"),
    "LogbusLogDirectoryNearlyFull": Case(
        {
            f"logbus_log_directory_free_bytes{SPACE}": "50x9 9x2000",
            f"logbus_log_directory_size_bytes{SPACE}": "100x2010",
        },
        15,
    ),
    # The slope is known from the second sample on, but for an hour at least half is free.
    "LogbusLogDirectoryFullSoon": Case(
        {
            f"logbus_log_directory_free_bytes{SPACE}": "800000-5000x159",
            f"logbus_log_directory_size_bytes{SPACE}": "1000000x159",
        },
        121,
    ),
    "LogbusShortenedLogs": steps("logbus_shortened_logs"),
    "LogbusDamagedSegments": steps("logbus_damaged_segments", 10),
    "LogbusDamageFound": counts("logbus_damaged_segments_found_total"),
    "LogbusUncleanablePartitions": steps("logbus_uncleanable_partitions", 5),
    "LogbusCleanerBehind": steps("logbus_cleaner_max_dirty_ratio", 60),
    "LogbusRequestFailures": counts("logbus_request_failures_total"),
    "LogbusServerErrors": Case(
        {
            f'logbus_request_errors_total{{job="logbus",instance="a",api="Fetch",error="{error}"}}': values
            # Others are clients' own.
            for error, values in (("OFFSET_OUT_OF_RANGE", "0+60x2000"), ("KAFKA_STORAGE_ERROR", "0x9 60+60x2000"))
        },
        15,
    ),
    "LogbusBrokenFrames": counts("logbus_broken_frames_total", 10),
    "LogbusFailedAuthentications": counts("logbus_failed_authentications_total", 10),
    "LogbusConnectionsRefused": counts("logbus_connections_refused_total"),
    "LogbusConnectionFlood": steps("logbus_conditions", 0, ',condition="connection-flood"'),
    "LogbusGroupFlood": steps("logbus_conditions", 0, ',condition="group-flood"'),
    "LogbusProducerFlood": steps("logbus_conditions", 0, ',condition="producer-flood"'),
    "LogbusThrottling": Case(
        {'logbus_throttle_seconds_sum{job="logbus",instance="a",quota="p"}': "0x9 600+600x90"}, 20
    ),
    "LogbusGroupLag": Case({f"logbus_group_max_lag{GROUP}": "10000x9 10001x90"}, 25),
    "LogbusGroupWithoutMembers": Case(
        {f"logbus_group_sum_lag{GROUP}": "0x9 10+10x90", f"logbus_group_members{GROUP}": "0x100"}, 15
    ),
    "LogbusGroupRecordsDamaged": counts("logbus_group_records_damaged_total"),
    "LogbusTransactionHangs": steps("logbus_late_transaction_partitions", 5),
    "LogbusTransactionMarkersWaiting": steps("logbus_transaction_markers_waiting", 10),
    "LogbusMirrorStopped": steps("logbus_conditions", 10, ',condition="mirror-stopped"'),
    "LogbusCertificateEnds": steps("logbus_conditions", 0, ',condition="certificate-ends"'),
    "LogbusClockJumped": steps("logbus_conditions", 0, ',condition="clock-jumped"'),
    "LogbusProduceSlow": Case(
        {
            f'{PRODUCE_TIMES},le="1.0"}}': "0+100x9 900+0x90",
            f'{PRODUCE_TIMES},le="3.0"}}': "0+100x99",
            f'{PRODUCE_TIMES},le="+Inf"}}': "0+100x99",
        },
        20,
    ),
    "LogbusReactorLate": Case(
        {
            'logbus_reactor_late_seconds_bucket{job="logbus",instance="a",le="0.1"}': "0+100x9 900+0x90",
            'logbus_reactor_late_seconds_bucket{job="logbus",instance="a",le="1.0"}': "0+100x99",
            'logbus_reactor_late_seconds_bucket{job="logbus",instance="a",le="+Inf"}': "0+100x99",
        },
        20,
    ),
    "LogbusReactorHeldUp": Case({'logbus_reactor_longest_turn_seconds{job="logbus",instance="a"}': "1x9 1.1x90"}, 15),
    "LogbusSeriesFolded": steps("logbus_folded_series", 60, ',metric="logbus_group_max_lag"'),
}


def test_every_alert_has_a_case() -> None:
    """No alert is added without a test of when it fires."""
    assert CASES.keys() == ALERTS.keys()


@needs_promtool
def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    """Each alert fires at its minute, and not one before; promtool evaluates the rules."""
    tests = []
    for name, case in CASES.items():
        firing = f'count(ALERTS{{alertname="{name}",alertstate="firing"}})'
        tests.append(
            {
                "interval": "1m",
                "name": name,
                "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
                "promql_expr_test": [
                    {"expr": firing, "eval_time": f"{case.fires - 1}m", "exp_samples": []},
                    {"expr": firing, "eval_time": f"{case.fires}m", "exp_samples": [{"labels": "{}", "value": 1}]},
                ],
            }
        )
    file = tmp_path / "tests.yml"
    rules = list(RULES.glob("*.yml"))
    # The alerts use what is recorded; without an order, promtool takes the groups in any.
    groups = sorted(
        (group["name"] for path in rules for group in yaml.safe_load(path.read_text())["groups"]),
        key=lambda name: name != "logbus-recording",
    )
    file.write_text(
        json.dumps({"rule_files": [str(path) for path in rules], "group_eval_order": groups, "tests": tests})
    )
    promtool("test", "rules", file)
