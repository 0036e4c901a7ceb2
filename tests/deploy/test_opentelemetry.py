"""The configuration for an OpenTelemetry Collector: what its parts name, and what Prometheus's own tool says of it."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.deploy.test_prometheus import needs_promtool, promtool

CONFIG = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "opentelemetry" / "collector.yml").read_text())


def test_the_pipeline_has_all_parts() -> None:
    """Each part that is configured is used, and each that is used is configured."""
    (pipeline,) = CONFIG["service"]["pipelines"].values()
    for kind in ("receivers", "processors", "exporters"):
        assert sorted(pipeline[kind]) == sorted(CONFIG[kind]), kind
    # Before all others, as the processor's documentation asks.
    assert pipeline["processors"][0] == "memory_limiter"


@needs_promtool
def test_the_scrape_is_one_of_prometheus(tmp_path: Path) -> None:
    """The receiver takes a configuration of Prometheus's, which promtool checks."""
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(CONFIG["receivers"]["prometheus"]["config"]))
    promtool("check", "config", file)
