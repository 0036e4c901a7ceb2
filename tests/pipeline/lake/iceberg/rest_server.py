"""
An Iceberg REST catalog for tests: a small HTTP server over PyIceberg's catalog in SQLite.

    python -m tests.pipeline.lake.iceberg.rest_server DIRECTORY [PORT]

prints its port and serves until its standard input ends. It has the routes that PyIceberg and Iceberg's Java client use
to make, load, list, change and drop tables; commits are one at a time. Source: Iceberg's REST catalog specification.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pyiceberg import exceptions
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

Names = tuple[str, ...]
Query = dict[str, list[str]]

STATUS = {
    exceptions.NoSuchNamespaceError: 404,
    exceptions.NoSuchTableError: 404,
    exceptions.NamespaceAlreadyExistsError: 409,
    exceptions.TableAlreadyExistsError: 409,
    exceptions.NamespaceNotEmptyError: 409,
    exceptions.CommitFailedException: 409,
}
"""The status of each of PyIceberg's errors, whose names are also those of the protocol but for their last word."""


def _loaded(table: Table) -> dict[str, Any]:
    found: dict[str, Any] = {"metadata": json.loads(table.metadata.model_dump_json()), "config": GIVEN}
    return found if table.metadata_location is None else {**found, "metadata-location": table.metadata_location}


class RestCatalog:
    """The answers to requests: each method has the namespace and table of the path, the query and the body."""

    def __init__(self, directory: Path) -> None:
        uri, warehouse = f"sqlite:///{directory}/rest.db", f"file://{directory}/warehouse"
        self.catalog = SqlCatalog("rest", uri=uri, warehouse=warehouse)
        self.fault, self.repeats = directory / FAULT, directory / REPEATS

    def config(self, names: Names, table: str, query: Query, body: bytes) -> Any:
        return {"defaults": {}, "overrides": {}}

    def namespaces(self, names: Names, table: str, query: Query, body: bytes) -> Any:
        parents = query.get("parent", [])
        return {"namespaces": self.catalog.list_namespaces(tuple(parents[0].split("\x1f")) if parents else ())}

    def create_namespace(self, names: Names, table: str, query: Query, body: bytes) -> Any:
        wanted = json.loads(body)
        self.catalog.create_namespace(tuple(wanted["namespace"]), wanted.get("properties") or {})
        return {"namespace": wanted["namespace"], "properties": wanted.get("properties") or {}}

    def namespace(self, names: Names, table: str, query: Query, body: bytes) -> Any:
        return {"namespace": names, "properties": self.catalog.load_namespace_properties(names)}

    def drop_namespace(self, names: Names, table: str, query: Query, body: bytes) -> Any:
        self.catalog.drop_namespace(names)

    def tables(self, names: Names, table: str, query: Query, body: bytes) -> Any:
        found = self.catalog.list_tables(names)
        return {"identifiers": [{"namespace": each[:-1], "name": each[-1]} for each in found]}

    def create_table(self, names: Names, table: str, query: Query, body: bytes) -> Any:
        unsaid = {"location": None, "partition-spec": None, "write-order": None}
        wanted = CreateTableRequest.model_validate(unsaid | json.loads(body))
        # With ``stage-create`` a table comes to exist by its first commit.
        make = self.catalog._create_staged_table if wanted.stage_create else self.catalog.create_table
        return _loaded(
            make(
                (*names, wanted.name),
                wanted.table_schema,
                wanted.location,
                wanted.partition_spec or UNPARTITIONED_PARTITION_SPEC,
                wanted.write_order or UNSORTED_SORT_ORDER,
                wanted.properties,
            )
        )

    def table(self, names: Names, table: str, query: Query, body: bytes) -> Any:
        return _loaded(self.catalog.load_table((*names, table)))

    def drop_table(self, names: Names, table: str, query: Query, body: bytes) -> Any:
        self.catalog.drop_table((*names, table))

    def commit(self, names: Names, table: str, query: Query, body: bytes) -> Any:
        identifier = {"namespace": names, "name": table}
        change = CommitTableRequest.model_validate({"identifier": identifier} | json.loads(body))
        named: Any = SimpleNamespace(name=lambda: (*names, table))
        self.catalog.commit_table(named, change.requirements, change.updates)
        if self.fault.exists():
            self.fault.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.repeats.exists():
            self.repeats.unlink()
            self.catalog.commit_table(named, change.requirements, change.updates)
        return _loaded(self.catalog.load_table((*names, table)))

    def no_view(self, names: Names, table: str, query: Query, body: bytes) -> Any:
        raise exceptions.NoSuchTableError(f"there is no view {'.'.join((*names, table))}")


ROUTES: dict[tuple[str, str], Callable[..., Any]] = {
    ("GET", "/v1/config"): RestCatalog.config,
    ("GET", "/v1/namespaces"): RestCatalog.namespaces,
    ("POST", "/v1/namespaces"): RestCatalog.create_namespace,
    ("GET", "/v1/namespaces/N"): RestCatalog.namespace,
    ("DELETE", "/v1/namespaces/N"): RestCatalog.drop_namespace,
    ("GET", "/v1/namespaces/N/tables"): RestCatalog.tables,
    ("POST", "/v1/namespaces/N/tables"): RestCatalog.create_table,
    ("GET", "/v1/namespaces/N/tables/T"): RestCatalog.table,
    ("POST", "/v1/namespaces/N/tables/T"): RestCatalog.commit,
    ("DELETE", "/v1/namespaces/N/tables/T"): RestCatalog.drop_table,
    ("GET", "/v1/namespaces/N/views/T"): RestCatalog.no_view,
}
"""By method and path, with N for a namespace and T for a table; HEAD is as GET."""

GIVEN = {"s3.session-token": "given by the server"}
"""What it gives its clients for the store of a table, such as keys."""

FAULT = "die-after-a-commit"
"""A file by which the server kills itself once, after a commit and before its answer."""

REPEATS = "repeat-a-commit"
"""A file by which the server gets a commit twice, once, as from a proxy that has lost the first answer."""

_PATH = re.compile(r"(/v1/(?:config|namespaces))(?:/([^/]+)(?:(/tables|/views)(?:/([^/]+))?)?)?")


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    served: RestCatalog
    lock = threading.Lock()

    def do_GET(self) -> None:
        self._answer(self.command.replace("HEAD", "GET"))

    do_HEAD = do_POST = do_DELETE = do_GET

    def _answer(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        where = urlsplit(self.path)
        try:
            status, found = 200, self._found(method, where.path, parse_qs(where.query), body)
        except Exception as e:
            status, name = STATUS.get(type(e), 400), type(e).__name__.replace("Error", "Exception")
            found = {"error": {"message": str(e), "type": name, "code": status}}
        data = b"" if found is None or self.command == "HEAD" else json.dumps(found).encode()
        self.send_response(204 if status == 200 and not data else status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _found(self, method: str, path: str, query: Query, body: bytes) -> Any:
        matched = _PATH.fullmatch(path)
        first, names, kind, table = matched.groups() if matched else (path, None, None, None)
        route = f"{first}{'/N' if names else ''}{kind or ''}{'/T' if table else ''}"
        answer = ROUTES.get((method, route))
        if answer is None:
            raise ValueError(f"no route {method} {path}")
        with self.lock:
            return answer(self.served, tuple(unquote(names or "").split("\x1f")), unquote(table or ""), query, body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def rest_server(directory: Path, port: int = 0) -> Iterator[int]:
    """A server in a process of its own: its port."""
    command = [sys.executable, "-m", __name__, str(directory), str(port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    with process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()


if __name__ == "__main__":
    Handler.served = RestCatalog(Path(sys.argv[1]))
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
