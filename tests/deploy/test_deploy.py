"""The unit, the container and the manifests are valid, and start brokers as they say."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sysconfig
from configparser import ConfigParser, RawConfigParser
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from logbus.config import ConfigView, keys
from logbus.server_options import Options, load
from tests.admin.harness import World

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def options_of(command: list[str]) -> Options:
    """Return the options of a ``twistd logbus`` command line, which must be valid."""
    options = Options()
    options.parseOptions(command[command.index("logbus") + 1 :])
    return options


def documents(manifest: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(manifest.read_text()))


def brokers(manifest: Path) -> list[dict[str, Any]]:
    """The containers that are brokers."""
    return [
        container
        for document in documents(manifest)
        if document["kind"] == "StatefulSet"
        for container in document["spec"]["template"]["spec"]["containers"]
        if container["name"] == "broker"
    ]


def entrypoint() -> tuple[list[str], list[str]]:
    """What the image runs: ENTRYPOINT and CMD."""
    text = (DEPLOY / "Containerfile").read_text()
    found = dict(re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", text, re.MULTILINE))
    return json.loads(found["ENTRYPOINT"]), json.loads(found["CMD"])


def loaded(arguments: list[str]) -> tuple[ConfigView, dict[str, str]]:
    """Return the configuration that a broker has with these arguments in the image, and its endpoints by listener."""
    start, _ = entrypoint()
    expanded = [
        re.sub(r"\$\(([A-Z_]+)\)", lambda found: "1" if "INDEX" in found[1] else "name", it) for it in arguments
    ]
    config, listeners = load(options_of(start + expanded))
    return config, {listener.name: listener.endpoint for listener in listeners}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_are_valid(manifest: Path) -> None:
    """Each member is one that Kubernetes knows, and of the right type."""
    # kubeconform fetches its schemas, and cannot follow the references within these: the workflow on GitHub runs it.
    for document in documents(manifest):
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_brokers_of_manifests(manifest: Path) -> None:
    """A broker accepts its arguments, listens where the container says, and answers the probes without a login."""
    [container] = brokers(manifest)
    config, endpoints = loaded(container["args"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert f"tcp:{ports['kafka']}:" in endpoints["kafka"]
    assert f"tcp:{ports['http']}:" in endpoints["admin"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] == "http"
        assert asked["path"] in config.get(keys.ADMIN_PUBLIC_PATHS)
        assert World().ask("GET", asked["path"]).status == 200
    mounted = [volume["mountPath"] for volume in container["volumeMounts"]]
    assert set(config.get(keys.LOG_DIRS)) <= set(mounted), "data would be lost with the container"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_selectors(manifest: Path) -> None:
    """Services and budgets mean pods that there are."""
    labels = [
        document["spec"]["template"]["metadata"]["labels"]
        for document in documents(manifest)
        if document["kind"] == "StatefulSet"
    ]
    for document in documents(manifest):
        selector = document["spec"]["selector"]
        assert selector.get("matchLabels", selector) in labels


def test_updates_wait_for_replicas() -> None:
    """The next broker of a cluster is stopped when the last one has caught up."""
    [container] = brokers(DEPLOY / "kubernetes" / "cluster.yaml")
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz/in-sync"


def test_container() -> None:
    """The linter finds nothing, and the command is one that a broker accepts."""
    linter = Path(sysconfig.get_path("scripts")) / "hadolint"
    done = subprocess.run([linter, DEPLOY / "Containerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    config, endpoints = loaded(entrypoint()[1])
    assert config.get(keys.LOG_DIRS) == ("/var/lib/logbus",)
    assert endpoints == {"kafka": "tcp:9092:interface=0.0.0.0", "admin": "tcp:8080:interface=127.0.0.1"}


def test_extras_of_the_image() -> None:
    """The image has all that a broker and its commands can use: each extra but those of Spark and of development."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    not_there = {"browser", "delta", "dev", "docs", "hdfs", "iceberg", "spark", "test"}
    assert not_there < set(setup["options.extras_require"])
    [installed] = re.findall(r"'/src\[([a-z,]+)\]'", (DEPLOY / "Containerfile").read_text())
    assert installed.split(",") == sorted(set(setup["options.extras_require"]) - not_there)


def test_build_context() -> None:
    """What the installation reads is sent to the builder, and nothing else."""
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sent == {"logbus", "twisted", "setup.cfg", "setup.py", "pyproject.toml", "README.rst", "LICENSE"}
    assert all((ROOT / each).exists() for each in sent)


def unit() -> RawConfigParser:
    read = RawConfigParser(strict=False, delimiters=("=",))
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read(DEPLOY / "systemd" / "logbus.service")
    return read


def test_unit(tmp_path: Path) -> None:
    """systemd waits for what the broker tells, ends its workers after it, and starts it by options that there are."""
    service = unit()["Service"]
    assert (service["Type"], service["KillMode"]) == ("notify", "mixed")
    options = options_of(shlex.split(service["ExecStart"]))
    assert options["config"] == "/etc/logbus/server.properties"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_hardening() -> None:
    """``systemd-analyze security`` finds little to forbid besides."""
    path = DEPLOY / "systemd" / "logbus.service"
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=30", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
