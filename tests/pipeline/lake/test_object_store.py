"""Tests the options of stores, and where they are."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from logbus.pipeline.errors import LakeError, OptionError
from logbus.pipeline.lake import formats
from logbus.pipeline.lake.object_store import ArrowStore, split_scheme, store_options


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("s3://bucket/views", "bucket/views"),
        ("s3a://bucket/a/b?c#d/", "bucket/a/b?c#d"),
        ("gs://bucket", "bucket"),
        ("abfss://container@account.dfs.core.windows.net/views", "container/views"),
        ("/lake/at 12:30", "/lake/at 12:30"),
        ("file:/lake/views", "/lake/views"),
        ("file:///lake/views/", "/lake/views"),
        ("views", f"{os.getcwd()}/views"),
    ],
)
def test_root(url: str, root: str) -> None:
    """Arrow's file systems take paths that begin with the bucket or container."""
    assert ArrowStore(url).root() == root


def test_local_root() -> None:
    """Only paths and ``file:`` are this machine's."""
    assert ArrowStore("file:///lake").local_root() == Path("/lake")
    assert ArrowStore("s3://lake").local_root() is None
    assert split_scheme("a/b:c") == ("", "a/b:c")


def test_options() -> None:
    """The environment's options are taken along to where a task runs; those that are given are preferred."""
    environ = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "theirs", "GOOGLE": "no"}
    given = {"AWS_ACCESS_KEY_ID": "mine"}
    assert store_options("s3://b", given, environ) == {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "mine"}
    assert store_options("/lake", {}, environ) == {}
    with mock.patch.dict("os.environ", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}):
        store = ArrowStore("s3://b")
    assert pickle.loads(pickle.dumps(store))._options["AWS_ENDPOINT_URL"] == "http://127.0.0.1:9"


def test_secrets_are_not_shown() -> None:
    assert "hidden" not in repr(ArrowStore("s3://b", {"AWS_SECRET_ACCESS_KEY": "hidden"}))


def test_refusals() -> None:
    """The URL and what it takes are named."""
    with pytest.raises(LakeError, match=r"ftp://host/lake: .* to ftp: directly; a table can be at /lake/views"):
        ArrowStore("ftp://host/lake")
    for url in ("hdfs:///lake", "hdfs:/lake"):
        with pytest.raises(LakeError, match=f"^{url}: the namenode is not known; give hdfs://HOST:PORT/PATH, or "):
            ArrowStore(url)
    with (
        mock.patch("logbus.pipeline.lake.object_store.find_spec", return_value=None),
        pytest.raises(OptionError, match=r"on HDFS needs the package hdfs-native: run pip install '.\[hdfs\]'"),
    ):
        ArrowStore("hdfs://host/lake")
    with pytest.raises(OptionError, match="AWS_REGION is no option of a local directory; it takes none"):
        ArrowStore("/lake", {"AWS_REGION": "eu"})
    with pytest.raises(OptionError, match="ENDPOINT is no option of s3; it takes AWS_ENDPOINT_URL, "):
        ArrowStore("s3://b", {"ENDPOINT": "http://127.0.0.1:9"})


def test_azure_account() -> None:
    """It is in the URL, as Hadoop has it, or an option; hosts of other clouds are an endpoint."""
    key = {"AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}
    store = ArrowStore("abfss://container@account.dfs.core.windows.net/views", key)
    assert store.file_system().type_name == "abfs"
    with pytest.raises(
        LakeError, match=r"^abfss://lake/views: the account is not known; give abfss://CONTAINER@ACCOUNT"
    ):
        ArrowStore("abfss://lake/views", key)
    with pytest.raises(
        LakeError, match=r"account.dfs.example.org is not ACCOUNT.dfs.core.windows.net; of another cloud"
    ):
        ArrowStore("abfss://lake@account.dfs.example.org/views", key)


def test_azure_endpoint() -> None:
    """Of an emulator the account is the path; of another cloud it is the host's first name."""
    named = {"AZURE_STORAGE_ACCOUNT_NAME": "me", "AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}
    for endpoint in ("http://127.0.0.1:9/me", "https://me.blob.core.example.org/"):
        options = {**named, "AZURE_STORAGE_ENDPOINT": endpoint}
        assert ArrowStore("abfss://lake/views", options).file_system().type_name == "abfs"
    for endpoint in ("127.0.0.1:9", "http://127.0.0.1:9", "https://you.blob.core.example.org"):
        with pytest.raises(
            OptionError, match=r"it takes https://me.blob.SUFFIX, or http://HOST:PORT/me of an emulator"
        ):
            ArrowStore("abfss://lake/views", {**named, "AZURE_STORAGE_ENDPOINT": endpoint})


def test_google() -> None:
    store = ArrowStore("gs://bucket/views", {"STORAGE_EMULATOR_HOST": "http://127.0.0.1:9"})
    assert store.file_system().type_name == "gcs"


def test_silent_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a store that does not answer that is said long before the attempts to reach it end."""
    said: list[str] = []
    told = threading.Event()

    def tell(sentence: str) -> None:
        said.append(sentence)
        told.set()

    def no_answer(selector: object) -> list[object]:
        assert told.wait(60)
        raise OSError("no route to host error_info={reason=, metadata={}}")

    monkeypatch.setattr(formats, "check_endpoint", lambda *_: None)
    monkeypatch.setattr(formats, "warn", tell)
    monkeypatch.setattr(formats, "PATIENCE", 0.01)
    monkeypatch.setattr(ArrowStore, "file_system", lambda _: SimpleNamespace(get_file_info=no_answer))
    with pytest.raises(LakeError, match=r"^gs://bucket/views cannot be listed: no route to host$"):
        formats.table_at(None, "gs://bucket/views")
    assert said == [
        "gs://bucket/views: its store has not answered for 0.01 s; still trying; see its address and credentials"
    ]
