"""Tests of the checks of log directories before a broker starts."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from logbus.errors import ConfigError
from logbus.preflight import preflight, try_directory
from logbus.server_options import Options, load
from logbus.storage.checkpoints import MetaProperties
from tests.certificates import Authority


def check(*words: str, workers: int = 1) -> None:
    """Check a command line, as before a start."""
    options = Options()
    options.parseOptions(["--port", "0", "--admin-port", "0", *words])
    preflight(*load(options), workers)


def use(directory: Path) -> None:
    """Leave what a broker leaves in a log directory."""
    directory.mkdir()
    (directory / "meta.properties").write_bytes(MetaProperties(0, "cluster").encode())


@pytest.mark.parametrize("order", ["{0},{0}/inner", "{0}/a/b,{0}"])
def test_nested(tmp_path: Path, order: str) -> None:
    """A log directory inside another one is refused."""
    with pytest.raises(ConfigError, match=r"log\.dirs: .* is in .*, which is a log directory itself"):
        check("--data-dir", order.format(tmp_path))


@pytest.mark.parametrize("parent", ["absent", "file"])
def test_directory_of_a_socket(tmp_path: Path, parent: str) -> None:
    """Where a socket cannot be is said before a log directory is made."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=rf"listener local .*unix.*{parent}/sock: .* (No such file|Not a directory)"):
        check("--data-dir", f"{tmp_path}/data", "--listen", f"local=kafka:unix:{tmp_path}/{parent}/sock")
    check("--data-dir", f"{tmp_path}/data", "--listen", f"local=kafka:unix:{tmp_path}/sock")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_twice_by_two_names(tmp_path: Path) -> None:
    """A directory that is named twice is said to be, and not to be in use by another broker."""
    (tmp_path / "link").symlink_to("data")
    (tmp_path / "data").mkdir()
    with pytest.raises(ConfigError, match=rf"are the same directory, {tmp_path}/data"):
        check("--data-dir", f"{tmp_path}/data,{tmp_path}/link")


def test_names_with_a_common_beginning(tmp_path: Path) -> None:
    """Directories beside each other are fine, however they are called."""
    check("--data-dir", f"{tmp_path}/data,{tmp_path}/data2")


def test_first_directory_without_metadata(tmp_path: Path) -> None:
    """A first directory whose disk is not mounted is named, and nothing is begun anew in its place."""
    use(tmp_path / "disk2")
    with pytest.raises(ConfigError, match=rf"{tmp_path}/disk1, the first directory, has no metadata\.db, .*mounted"):
        check("--data-dir", f"{tmp_path}/disk1,{tmp_path}/disk2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk2"]


def test_first_directory_with_metadata(tmp_path: Path) -> None:
    """A directory that is added behind the others is new, and that is fine."""
    use(tmp_path / "disk1")
    (tmp_path / "disk1" / "metadata.db").touch()
    check("--data-dir", f"{tmp_path}/disk1,{tmp_path}/disk2")


@pytest.mark.parametrize(
    ("option", "setting", "said"),
    [
        (["-d", "c"], "log.dirs=a,b", "--data-dir c is short for log.dirs, and --set log.dirs=a,b says otherwise"),
        (["-b", "1"], "broker.id=2", "--broker-id 1 is short for broker.id, and --set broker.id=2 says otherwise"),
    ],
)
def test_two_values(option: list[str], setting: str, said: str) -> None:
    """An option and a setting of the same key that differ are refused: neither wins silently."""
    with pytest.raises(ConfigError, match=said):
        check(*option, "--set", setting)


def test_the_same_value_twice(tmp_path: Path) -> None:
    """An option and a setting that say the same are fine."""
    check("-d", str(tmp_path), "--set", f"log.dirs={tmp_path}")


def test_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file system that is mounted read-only it is not said that the user has no right."""
    read_only = Mock(return_value=Mock(f_flag=os.ST_RDONLY))
    monkeypatch.setattr(os, "access", Mock(return_value=False))
    monkeypatch.setattr(os, "statvfs", read_only)
    with pytest.raises(ConfigError, match=rf"{tmp_path} is on a file system that is mounted read-only"):
        try_directory(tmp_path, 0)
    read_only.return_value.f_flag = 0
    with pytest.raises(ConfigError, match=r"is not writable by this user \(uid "):
        try_directory(tmp_path, 0)


def test_tls_between_workers(tmp_path: Path) -> None:
    """Workers connect to each other, so that each needs to know whose certificates to trust."""
    authority = Authority.new()
    key_store = authority.issue().write(tmp_path / "server.pem")
    words = ["--set", f"ssl.keystore.location={key_store}"]
    words += ["--set", "listener.security.protocol.map=kafka:SSL,PLAINTEXT:PLAINTEXT", "-d", str(tmp_path / "data")]
    check(*words)
    with pytest.raises(ConfigError, match=r"listener kafka: workers would connect to it, but security\.inter\.broker"):
        check(*words, workers=2)
    with pytest.raises(ConfigError, match=r"listener kafka: brokers would connect to it, but security\.inter\.broker"):
        check(*words, "--set", "zookeeper.connect=127.0.0.1:1")
    words += ["--set", "security.inter.broker.protocol=SSL"]
    with pytest.raises(ConfigError, match=r"listener kafka: .*ssl\.truststore\.location"):
        check(*words, workers=2)
    check(*words, "--set", f"ssl.truststore.location={authority.write(tmp_path / 'ca.pem')}", workers=2)
