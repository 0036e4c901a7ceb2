"""Tests what is said of a catalog's store of S3 that is away, silent, empty, or refuses access; no Spark is started."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("pyspark")

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.iceberg import file_io
from logbus.pipeline.lake.iceberg.file_io import LakeFileIO
from logbus.pipeline.lake.iceberg.quarantine import quarantine_of
from logbus.pipeline.lake.iceberg.store_access import check_warehouse, with_advice
from logbus.pipeline.lake.iceberg.table import IcebergTable
from tests.pipeline.lake.iceberg.fixtures import NAME, SCHEMA, catalog_in


class _Answering(BaseHTTPRequestHandler):
    """Answers every request with its server's status, and no body, as S3 does HEAD."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.requests.append(self.path)  # type: ignore[attr-defined]
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("content-length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def answering(status: int) -> Iterator[Any]:
    """A server; ``requests`` are the paths that were asked for."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answering) as made:
        made.status, made.requests = status, []  # type: ignore[attr-defined]
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@contextmanager
def store_at(directory: Path, port: int) -> Iterator[str]:
    """A catalog whose warehouse is there."""
    endpoint = f"http://127.0.0.1:{port}"
    properties = {"s3__access_key_id": "me", "s3__secret_access_key": "secret", "s3__region": "us-east-1"}
    with catalog_in(directory, warehouse="s3://lake/warehouse", s3__endpoint=endpoint, **properties) as name:
        yield name


def test_away(tmp_path: Path) -> None:
    """An endpoint that nobody listens at is said at once, before Spark is started."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]
        words = rf"^lake\.views: no store \(s3\.endpoint\) can be reached at 127\.0\.0\.1:{port}"
        with store_at(tmp_path, port) as name, pytest.raises(LakeError, match=words):
            IcebergTable.at(None, NAME, name)


def test_behind_a_proxy() -> None:
    """An endpoint need not be reached directly then."""
    given = {"s3.endpoint": "https://store.invalid", "warehouse": "lake"}
    with pytest.raises(LakeError, match="no store"):
        check_warehouse(NAME, given, object)
    check_warehouse(NAME, {**given, "s3.proxy-uri": "http://proxy:8080"}, object)


def test_no_bucket(tmp_path: Path) -> None:
    """A bucket that is not there is named."""
    with (
        answering(404) as server,
        store_at(tmp_path, server.server_port) as name,
        pytest.raises(LakeError, match=r"there is no bucket 'lake', in which the catalog's warehouse is: s3://lake/wa"),
    ):
        IcebergTable.at(None, NAME, name)


def test_refused(tmp_path: Path) -> None:
    """
    Whether a bucket is there may be secret. A table that cannot be created for that is not tried again; the key is
    named, and what to set.
    """
    with answering(403) as server, store_at(tmp_path, server.server_port) as name:
        table = IcebergTable.at(None, NAME, name)
        with pytest.raises(
            LakeError, match=r"cannot be created: the store refuses access with s3\.access-key-id=me; set"
        ):
            table.claim(SCHEMA.jsonValue())
        assert len([path for path in server.requests if path.endswith(".json")]) == 1


def test_silent_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the store does not answer for is named, whatever is done to it."""
    said: list[str] = []

    class Telling:
        def __init__(self, sentence: str) -> None:
            said.append(sentence)

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(file_io, "telling", Telling)
    with answering(403) as server:
        properties = {"s3.endpoint": f"http://127.0.0.1:{server.server_port}", "s3.region": "us-east-1"}
        files = LakeFileIO({**properties, "s3.access-key-id": "me", "s3.secret-access-key": "secret"})
        url = "s3://lake/metadata"
        for use in (files.new_input(url).open, files.new_input(url).exists, files.new_output(url).create):
            said.clear()
            with pytest.raises(OSError, match="ACCESS_DENIED"):
                use()
            assert said == [f"{url}: its store has not answered for 5 s; still trying"]


def test_silent_end_of_a_file() -> None:
    """A file is sent when it is closed: that is told of, too, whether it is closed by name or by its context."""
    told: list[str] = []

    @contextmanager
    def telling() -> Iterator[None]:
        told.append("begun")
        yield
        told.append("ended")

    for is_context in (False, True):
        told.clear()
        under = io.BytesIO()
        stream = file_io._StoreStream(under, telling)
        stream.write(b"rows")
        assert (stream.tell(), told) == (4, [])
        if is_context:
            with stream:
                pass
        else:
            stream.close()
        assert (under.closed, told) == (True, ["begun", "ended"])


def test_quarantine(tmp_path: Path) -> None:
    """A quarantine that cannot be read is named, as the table is."""
    with catalog_in(tmp_path) as name:
        table = IcebergTable.at(None, NAME, name)
        table.claim(SCHEMA.jsonValue())
        assert table._table is not None
        gone = mock.patch.object(table.catalog, "load_table", side_effect=OSError("gone"))
        with gone, pytest.raises(LakeError, match=r"^lake\.views_quarantine cannot be read: gone"):
            quarantine_of(table.catalog, table._table)


def test_advice() -> None:
    """It is for refusals of S3, by the credentials that were used."""
    refusal = "AWS Error REQUEST_TIME_TOO_SKEWED during CreateMultipartUpload operation"
    assert with_advice("no such file", {}) == "no such file"
    assert with_advice("AWS Error NO_SUCH_BUCKET", {}) == "AWS Error NO_SUCH_BUCKET"
    assert "access with AWS_ACCESS_KEY_ID=ours; set" in with_advice(refusal, {}, {"AWS_ACCESS_KEY_ID": "ours"})
    assert "or none, since s3.access-key-id is not set; set" in with_advice(refusal, {}, {})
    assert "this machine's clock is right" in with_advice(refusal, {}, {})
