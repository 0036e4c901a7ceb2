"""
fake-gcs-server, an emulator of Google's cloud storage: a Go program, built into a cache.

It has no uploads by ``PUT /BUCKET/NAME``, which delta-rs makes: those are translated here to uploads that it has, with
their conditions.  It also ignores ``start-after`` in a request for a list: names up to it are left out here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

from attrs import define, evolve, field

from tests.pipeline.store_front import Answer, Ask, Front, Request, ask

VERSION = "1.56.1"
_PACKAGE = f"github.com/fsouza/fake-gcs-server@v{VERSION}"
_CONDITION = "x-goog-if-generation-match"
_OBJECT = re.compile(rb"<Contents><Key>([^<]*)</Key>.*?</Contents>", re.DOTALL)
_SECONDS = 1800
_START_SECONDS = 60.0
_LOOK = 0.05


@define(eq=False)
class GcsServer:
    """
    A server with one bucket, in memory; a context manager.

    :ivar address: ``http://127.0.0.1:PORT``.
    :raise RuntimeError: it cannot be built.
    """

    bucket: str
    cache: Path
    address: str = ""
    _front: Front = field(init=False)
    _process: subprocess.Popen[bytes] = field(init=False)

    def __enter__(self) -> GcsServer:
        program = _built(self.cache)
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        self._front = Front(_answer, port).__enter__()
        self.address = f"http://{self._front.host}"
        command = [str(program), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-log-level", "error"]
        command += ["-port", str(port), "-external-url", self.address, "-public-host", self._front.host]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        body, headers = json.dumps({"name": self.bucket}).encode(), {"content-type": "application/json"}
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                made = ask(port, Request("POST", "/storage/v1/b?project=test", headers, body))
                break
            except ConnectionError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.__exit__()
                    raise
                time.sleep(_LOOK)
        assert made.status == 200, made
        return self

    def __exit__(self, *_: object) -> None:
        self._front.__exit__()
        self._process.kill()
        self._process.wait()

    @property
    def options(self) -> dict[str, str]:
        """Of a store."""
        return {"STORAGE_EMULATOR_HOST": self.address}

    @property
    def properties(self) -> dict[str, str]:
        """Of a catalog of PyIceberg, for the environment."""
        return {
            "gcs__service__host": self.address,
            "gcs__oauth2__token": "test",
            "gcs__oauth2__token_expires_at": str(2**42),
            "gcs__project_id": "test",
        }


def _answer(request: Request, behind: Ask) -> Answer:
    target = request.target
    if after := parse_qs(urlsplit(target).query).get("start-after", [""])[0].encode():
        listed = behind(request)
        return evolve(listed, body=_OBJECT.sub(lambda found: found[0] if found[1] > after else b"", listed.body))
    if request.method != "PUT" or "?" in target or target.startswith(("/storage/", "/upload/")):
        return behind(request)
    bucket, _, name = target.lstrip("/").partition("/")
    where = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(unquote(name), safe='')}"
    if _CONDITION in request.headers:
        where += f"&ifGenerationMatch={request.headers[_CONDITION]}"
    headers = {"content-type": request.headers.get("content-type", "application/octet-stream")}
    made = behind(Request("POST", where, headers, request.body))
    if made.status != 200:
        return made
    said = json.loads(made.body)
    return Answer(200, {"etag": f'"{said["etag"]}"', "x-goog-generation": str(said["generation"])}, b"")


def _built(cache: Path) -> Path:
    """The program."""
    home = cache / f"fake-gcs-server-{VERSION}"
    program = home / "fake-gcs-server"
    if program.exists():
        return program
    if shutil.which("go") is None:
        raise RuntimeError("go is not installed")
    home.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, "GOBIN": str(home)}
    command = ["go", "install", _PACKAGE]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"go could not build fake-gcs-server: {done.stderr[-500:]}")
    return program
