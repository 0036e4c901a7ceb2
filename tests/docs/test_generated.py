"""Compares tables in the pages with the code, and generated pages with what they should have."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from logbus.client.client_metrics import ClientMetrics
from logbus.config.reference import reference_rst
from logbus.mirror.mirror_status import MirrorStatus
from logbus.testing.pytest_plugin import SERVERS

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.rst")) if not {"_build", "newsfragments"} & set(page.parts)]


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    """The Sphinx extension."""
    spec = importlib.util.spec_from_file_location("generated", DOCS / "ext" / "generated.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(generated: ModuleType, what: str) -> str:
    """The text generated from one source."""
    return "\n".join(generated.SOURCES[what]())


def test_every_metric_a_page_names_exists(generated: ModuleType) -> None:
    """An alert on a metric that was renamed would never fire."""
    broker = generated.a_broker()
    families = (
        *generated.shown_families_of(broker),
        *generated.partition_families_of(broker),
        *ClientMetrics().registry.collect(),
        *MirrorStatus("paris-to-rome").families(),
    )
    known = {family.name for family in families}
    for page in PAGES:
        for name in re.findall(r"\blogbus_[a-z_]+", page.read_text()):
            family = re.sub("_(bucket|count|sum)$", "", name)
            begins = name.endswith("_") and any(each.startswith(name) for each in known)  # logbus_topic_…
            assert begins or known & {family, name} or name in NOT_METRICS, f"{page}: {name}"


def test_every_key_a_page_names_exists() -> None:
    """A key in double backticks that looks like one of ours is one."""
    known = set(re.findall(r"``([a-z]+(?:\.[a-z0-9]+)+)``", reference_rst()))
    families = {name.partition(".")[0] for name in known}
    for page in PAGES:
        for name in re.findall(r"``([a-z]+(?:\.[a-z]+)+)(?:=[^`]*)?``", page.read_text()):
            family = name.partition(".")[0]
            # logbus.… is the name of a module or of a logger, which the reference names, too.
            if family in families and family not in {"listener", "client", "logbus"}:
                assert name in known or name in CLIENT_KEYS, f"{page}: {name}"


NOT_METRICS = {
    *SERVERS,
    "logbus_admin",
    "logbus_config",
    "logbus_registry",
    "logbus_server",
    "logbus_topic",
    "logbus_line_protocol",
    "logbus_delete_policy",
    "logbus_policies",
    "logbus_lines",
    "logbus_seeds",
    "logbus_simulation",
    "logbus_cleanshutdown",
    "logbus_restoring",
    "logbus_produced_records",  # the beginning of one, looked for by grep
}
CLIENT_KEYS = {
    "broker.list",
    "auto.offset.reset",
    "batch.size",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.id",
    "group.version",
    "share.version",
    "streams.version",
    "transaction.version",
    "group.instance.id",
    "consumer.override.isolation.level",
    "producer.transaction.timeout.ms",
    "group.protocol",
    "group.remote.assignor",
    "linger.ms",
    "max.poll.interval.ms",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "transaction.timeout.ms",
    "transactional.id",
    "broker.faults",
    "broker.log",
    "broker.reactor",
    "broker.requests",
    "producer.metrics",
    "request.access",
}


def test_reference_is_complete(generated: ModuleType) -> None:
    """Each API of the router, each route, each option, each command."""
    apis = text_of(generated, "apis")
    assert apis.count("   * - ") == len(generated.a_broker().kafka_server.router.served) + 1
    assert "GET /api/v1/topics/{topic}" in text_of(generated, "http")
    assert "--as-version" in text_of(generated, "twistd")
    assert "``logbus_group_lag``" in text_of(generated, "partition-metrics")
    commands = text_of(generated, "command-line")
    assert "logbus groups reset-offsets" in commands
    assert "logbus topics create" in commands
    assert "logbus consume" in commands


def test_every_feature_has_its_row() -> None:
    """All 112 of them, numbered, none twice."""
    page = (DOCS / "explanation" / "features.rst").read_text()
    assert re.findall(r"^   \* - (\d+)$", page, re.MULTILINE) == [str(number) for number in range(1, 113)]
