"""Tests the image of Spark and its manifests, by their own tools and by the commands that they run."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from logbus.cli.app import app

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes" / "spark").glob("*.yaml"))


def documents(manifest: Path) -> list[dict[str, Any]]:
    """All objects."""
    return list(yaml.safe_load_all(manifest.read_text()))


def pods(manifest: Path) -> dict[str, dict[str, Any]]:
    """The pods' specs, by the names of what makes them."""
    found = {}
    for each in documents(manifest):
        spec = each["spec"].get("jobTemplate", each)["spec"]
        if "template" in spec:
            found[each["metadata"]["name"]] = spec["template"]["spec"]
    return found


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_are_valid(manifest: Path) -> None:
    """Each member is one that Kubernetes knows, and of the right type."""
    for document in documents(manifest):
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_pods(manifest: Path) -> None:
    """Volumes that are mounted are there, and the claims that they name; nobody is root."""
    claims = {each["metadata"]["name"] for each in documents(manifest) if each["kind"] == "PersistentVolumeClaim"}
    for pod in pods(manifest).values():
        volumes = {each["name"]: each for each in pod.get("volumes", [])}
        mounted = [each["name"] for container in pod["containers"] for each in container.get("volumeMounts", [])]
        assert sorted(mounted) == sorted(volumes)
        used = [each["persistentVolumeClaim"] for each in volumes.values() if "persistentVolumeClaim" in each]
        assert {each["claimName"] for each in used} <= claims
        assert pod["securityContext"]["runAsNonRoot"]


def test_commands() -> None:
    """The driver's command is one that logbus accepts, and it and the workers know where the master is."""
    [manifest] = MANIFESTS
    found = pods(manifest)
    arguments = found["load-views"]["containers"][0]["args"]
    command: click.Command = app
    context = click.Context(app, info_name="logbus")
    while isinstance(command, click.Group):
        name = arguments[0]
        command, arguments = command.get_command(context, name), arguments[1:]  # type: ignore[assignment]
        context = click.Context(command, info_name=name, parent=context)
    command.parse_args(context, list(arguments))
    master = context.params["master"]
    [service] = [each for each in documents(manifest) if each["kind"] == "Service"]
    assert master == f"spark://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert found["spark-worker"]["containers"][0]["args"][-1] == master
    assert str(context.params["table"]).startswith(found["load-views"]["containers"][0]["volumeMounts"][0]["mountPath"])


def test_image() -> None:
    """The linter finds nothing."""
    linter = Path(sysconfig.get_path("scripts")) / "hadolint"
    done = subprocess.run([linter, DEPLOY / "Containerfile.spark"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
