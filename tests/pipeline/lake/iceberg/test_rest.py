"""Loads through a REST catalog: each record is there once, whichever of loader and server is killed."""

from __future__ import annotations

import json
import pickle
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("pyspark")
from pydantic import ValidationError
from pyiceberg.catalog.rest.auth import OAuth2TokenProvider
from pyiceberg.table import CommitTableResponse
from requests import Response, Session, Timeout

from logbus.pipeline.errors import LakeError
from logbus.pipeline.lake.iceberg import rest_catalog
from logbus.pipeline.lake.iceberg.files import store_of
from logbus.pipeline.lake.iceberg.snapshots import first_line
from logbus.pipeline.lake.iceberg.table import IcebergTable
from tests.pipeline.lake.iceberg.fixtures import NAME, SCHEMA, catalog_in, change, rows
from tests.pipeline.lake.iceberg.kills import REST_STEPS, run
from tests.pipeline.lake.iceberg.rest_server import FAULT, GIVEN, REPEATS, rest_server


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A server's."""
    with rest_server(tmp_path) as found:
        yield found


def options(port: int) -> dict[str, str]:
    """Of the catalog."""
    return {"uri": f"http://127.0.0.1:{port}"}


def offsets(table: IcebergTable) -> list[int]:
    """Of all rows, as PyIceberg sees them."""
    return sorted(table.catalog.load_table(NAME).scan().to_arrow()["offset"].to_pylist())


def test_kills(tmp_path: Path, port: int) -> None:
    """A loader is killed at each step of its first batch with a quarantine, and the next one goes on."""
    points = [(step, 2 if step.startswith("commit") else 1) for step in REST_STEPS]
    assert set(run(tmp_path, points, Random(1), 1, options(port)).kills) == set(REST_STEPS)


@pytest.mark.long
def test_many_kills(tmp_path: Path, port: int) -> None:
    """At any step of any batch, also where two loaders fence each other."""
    chance = Random(3)
    points = [(chance.choice(REST_STEPS), chance.randint(1, 6)) for _ in range(100)]
    assert run(tmp_path, points, chance, 2, options(port)).kills.total() > 50


def test_answer_lost(tmp_path: Path) -> None:
    """A server that dies after a commit, and before its answer, makes the load fail in one line, and loses nothing."""
    with rest_server(tmp_path) as port, catalog_in(tmp_path, **options(port)):
        table = IcebergTable.at(None, NAME, "test")
        table.claim(SCHEMA.jsonValue())
        for start in (0, 10):
            table.stage(rows(start, start + 10))  # type: ignore[arg-type]
            if start:
                (tmp_path / FAULT).touch()
                with pytest.raises(LakeError, match=r"lake\.views: .*, and the catalog does not answer"):
                    table.commit(change(start, start + 10))
                table.discard()  # A further attempt begins so: the files may be the table's.
            else:
                table.commit(change(start, start + 10))
    with rest_server(tmp_path) as port, catalog_in(tmp_path, **options(port)):
        again = IcebergTable.at(None, NAME, "test")
        assert again.state.held("views", 0).ranges == ((0, 20),)
        assert offsets(again) == list(range(20))


def test_repeated(tmp_path: Path, port: int) -> None:
    """A commit that a proxy sends twice, so that the catalog refuses it after it was made, leaves the table whole."""
    with catalog_in(tmp_path, **options(port)):
        table = IcebergTable.at(None, NAME, "test")
        table.claim(SCHEMA.jsonValue())
        for start in (0, 10):
            table.stage(rows(start, start + 10))  # type: ignore[arg-type]
            (tmp_path / REPEATS).touch()
            table.commit(change(start, start + 10))
        assert not (tmp_path / REPEATS).exists()
        assert offsets(table) == list(range(20))


@pytest.fixture
def silent() -> Iterator[str]:
    """Where a server is that takes connections and does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said while an answer is waited for, which is not for long."""
    sentences: list[str] = []

    def telling(sentence: str) -> AbstractContextManager[None]:
        sentences.append(sentence)
        return nullcontext()

    monkeypatch.setattr(rest_catalog, "telling", telling)
    monkeypatch.setattr(rest_catalog, "ANSWER_SECONDS", 0.01)
    return sentences


def test_silent(tmp_path: Path, silent: str, said: list[str]) -> None:
    """A catalog that takes connections and does not answer: that is said, and the job ends."""
    with (
        catalog_in(tmp_path, uri=f"http://{silent}"),
        pytest.raises(LakeError, match=r"catalog 'test' cannot be opened: .*timed out"),
    ):
        IcebergTable.at(None, NAME, "test")
    assert said == [f"catalog 'test' has not answered at {silent} for 5 s; still waiting"]


@pytest.mark.parametrize("way", ["credential", "oauth2"])
def test_silent_tokens(silent: str, said: list[str], way: str) -> None:
    """A server of tokens that takes connections and does not answer: that is said, and the job ends."""
    url = f"http://{silent}/tokens"
    settings = {"client_id": "a", "client_secret": "b", "token_url": url}
    given: dict[str, Any] = (
        {"credential": "a:b", "oauth2-server-uri": url}
        if way == "credential"
        else {"auth": {"type": "oauth2", "oauth2": settings}}
    )
    with pytest.raises(Timeout):
        rest_catalog.LimitedRestCatalog("test", uri="http://127.0.0.1:9", **given)
    assert said == [f"catalog 'test' has not answered at {silent} for 5 s; still waiting"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"access_token": "ours", "expires_in": 3600}, ""),
        ({"access_token": "ours"}, "the answer has no expires_in"),
        ({"error": "x"}, "the answer has no access_token"),
        ([], "the answer has no access_token"),
    ],
)
def test_tokens(monkeypatch: pytest.MonkeyPatch, answer: Any, words: str) -> None:
    """Tokens are requested as PyIceberg does; what is no token is said with the URL."""
    response = Response()
    response.status_code, response._content = 200, json.dumps(answer).encode()
    asked: list[Any] = []

    def send(session: Session, request: Any, **_: Any) -> Response:
        asked.append((request.url, request.body, request.headers["Authorization"]))
        return response

    monkeypatch.setattr(Session, "send", send)
    plain = OAuth2TokenProvider("a", "b", "http://tokens/", scope="lake")
    tokens = rest_catalog._LimitedTokens("test", plain)
    if words:
        with pytest.raises(ValueError, match=f"http://tokens/: {words}"):
            tokens.get_token()
    else:
        assert [tokens.get_token(), tokens.get_token()] == ["ours"] * 2
    assert asked == [("http://tokens/", "grant_type=client_credentials&scope=lake", "Basic YTpi")]


def test_garbage() -> None:
    """An answer that is none of a catalog's is said in one line: what it should be, and what it lacks."""
    for text, words in {
        "<html>": "what came is no CommitTableResponse: Invalid JSON: expected value at line 1 column 1",
        "{}": "what came is no CommitTableResponse: metadata Field required",
    }.items():
        with pytest.raises(ValidationError) as caught:
            CommitTableResponse.model_validate_json(text)
        assert first_line(caught.value) == words


def test_others(tmp_path: Path, port: int) -> None:
    """Another program appends by the same catalog, and the load goes on after it; two loaders fence each other."""
    with catalog_in(tmp_path, **options(port)):
        table = IcebergTable.at(None, NAME, "test")
        table.claim(SCHEMA.jsonValue())
        table.stage(rows(0, 10))  # type: ignore[arg-type]
        table.commit(change(0, 10))
        plain = table.catalog.load_table(NAME)
        assert store_of(plain).properties.items() >= GIVEN.items(), "where Spark's tasks write"
        plain.io.properties["auth.manager"] = threading.Lock()  # Some have one, which does not go to Spark's tasks.
        assert pickle.loads(pickle.dumps(store_of(plain))).properties.items() >= GIVEN.items()
        del plain.io.properties["auth.manager"]
        plain.append(plain.scan().to_arrow().slice(0, 1))
        table.stage(rows(10, 20))  # type: ignore[arg-type]
        assert table.commit(change(10, 20)).notes
        assert offsets(table) == [0, *range(20)]
        assert table.catalog.list_tables("lake") == [("lake", "views")]


def test_no_catalog(tmp_path: Path, port: int) -> None:
    """What is no REST catalog, and a server that is not there, are each said in one line."""
    with (
        catalog_in(tmp_path, uri=f"http://127.0.0.1:{port}/elsewhere"),
        pytest.raises(LakeError, match="catalog 'test'"),
    ):
        IcebergTable.at(None, NAME, "test")
    with pytest.raises(HTTPError) as caught:
        urlopen(f"http://127.0.0.1:{port}/v1/namespaces/none")
    assert json.load(caught.value)["error"]["type"] == "NoSuchNamespaceException"
