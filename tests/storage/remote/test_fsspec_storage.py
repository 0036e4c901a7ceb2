"""Object stores behind fsspec."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest

from logbus.errors import ConfigError
from logbus.storage.remote.fsspec_storage import FsspecStorage
from logbus.storage.remote.iremote_storage import ObjectMissing, RemoteStorageError

pytest.importorskip("fsspec")


def test_a_directory(tmp_path: Path) -> None:
    """Objects in a directory are written, read in parts, listed and deleted."""
    store = FsspecStorage.open(f"file://{tmp_path}/store", {})
    store.write("t-0/a.log", (b"abc", b"defg"))
    store.write("t-0/b.log", (b"",))
    assert store.read("t-0/a.log") == b"abcdefg"
    assert store.read("t-0/a.log", 2, 5) == b"cde"
    assert store.read("t-0/a.log", 5, 99) == b"fg"
    descriptor = store.open_file("t-0/a.log")
    assert descriptor is not None
    assert os.pread(descriptor, 9, 1) == b"bcdefg"
    os.close(descriptor)
    assert sorted(store.names("t-0")) == ["a.log", "b.log"]
    assert list(store.names("t-1")) == []
    store.delete(["t-0/a.log", "t-0/a.log"])
    with pytest.raises(ObjectMissing, match=r"t-0/a\.log is missing"):
        store.read("t-0/a.log")
    with pytest.raises(ObjectMissing, match=r"t-0/a\.log is missing"):
        store.open_file("t-0/a.log")


def test_google_cloud_storage() -> None:
    """Objects in a bucket: small ones in one request, large ones in parts."""
    if find_spec("gcsfs") is None:
        pytest.skip("gcsfs is not installed; when it is imported, it looks at what the store has set")
    pytest.importorskip("gcp_storage_emulator")
    from tests.storage.remote.gcs_emulator import GcsEmulator

    with GcsEmulator("tiers") as server:
        store = FsspecStorage.open("gs://tiers/logs", server.options)
        store.write("t-0/a.log", (b"abc", b"defg"))
        parts = [bytes([n]) * (1 << 20) for n in range(8)]
        store.write("t-0/b.log", parts)
        assert store.read("t-0/a.log") == b"abcdefg"
        assert store.read("t-0/a.log", 2, 5) == b"cde"
        assert store.read("t-0/a.log", 5, 99) == b"fg"
        assert store.read("t-0/b.log") == b"".join(parts)
        assert store.read("t-0/b.log", (3 << 20) - 1, (3 << 20) + 1) == b"\x02\x03"
        assert store.open_file("t-0/a.log") is None
        assert sorted(store.names("t-0")) == ["a.log", "b.log"]
        assert list(store.names("t-1")) == []
        store.delete(["t-0/a.log", "t-0/a.log"])
        with pytest.raises(ObjectMissing, match=r"gs://tiers/logs/t-0/a\.log is missing"):
            store.read("t-0/a.log")
        missing = FsspecStorage.open("gs://another/logs", server.options)
        with pytest.raises(RemoteStorageError, match=r"gs://another/logs/t-0/a\.log cannot be written: .*"):
            missing.write("t-0/a.log", (b"abc",))


def test_s3() -> None:
    """Objects in a bucket: large ranges are read by signed URLs, everything else by the file system."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    from tests.pipeline.s3_server import S3Server

    with S3Server("tiers") as server:
        options = {"endpoint_url": server.url, "key": "test", "secret": "test"}
        store = FsspecStorage.open("s3://tiers/logs", options)
        data = bytes(range(256)) * 4096
        store.write("t-0/a b.log", (data,))
        assert store.read("t-0/a b.log", 3, 7) == data[3:7]
        with patch.object(store._fs, "cat_file") as by_file_system:
            assert store.read("t-0/a b.log", 3, 500_000) == data[3:500_000]
        by_file_system.assert_not_called()
        # There are fewer bytes.
        assert store.read("t-0/a b.log", 500_000, 2_000_000) == data[500_000:]
        with pytest.raises(ObjectMissing, match=r"s3://tiers/logs/t-0/b\.log is missing"):
            store.read("t-0/b.log", 0, 500_000)
        unusual = FsspecStorage.open("s3://tiers/logs", {**options, "client_kwargs": {"verify": False}})
        assert unusual._signed is None
        assert unusual.read("t-0/a b.log", 3, 500_000) == data[3:500_000]


def test_a_store_that_does_not_work(tmp_path: Path) -> None:
    """What a file system raises becomes one line that names the object."""
    (tmp_path / "store").write_text("a file")
    store = FsspecStorage.open(f"file://{tmp_path}/store", {})
    assert FsspecStorage.open("memory://store", {}).open_file("t-0/a.log") is None
    with pytest.raises(RemoteStorageError, match=r"store/t-0/a\.log cannot be written: .*"):
        store.write("t-0/a.log", (b"abc",))


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("", "accepted: a URL"),
        ("/mnt/store", "accepted: a URL"),
        ("s4://bucket/x", "Protocol not known: s4"),
        ("file:///", "names no bucket or directory"),
    ],
)
def test_wrong_urls(uri: str, words: str) -> None:
    """A URL that is none, or of no known store, is refused in one line that names the key."""
    with pytest.raises(ConfigError, match=r"remote\.log\.storage\.uri: ") as refused:
        FsspecStorage.open(uri, {})
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_extra() -> None:
    """Without the store's library the line tells how to install it."""
    known = sys.modules["fsspec.registry"]._registry
    with patch.dict("sys.modules", {"s3fs": None}), patch.dict(known):
        # It may have been imported by another test.
        known.pop("s3", None)
        with pytest.raises(ConfigError, match=r"pip install '\.\[tiered\]'"):
            FsspecStorage.open("s3://bucket/logs", {})
    with patch.dict("sys.modules", {"fsspec": None}), pytest.raises(ConfigError, match=r"takes fsspec"):
        FsspecStorage.open("s3://bucket/logs", {})
