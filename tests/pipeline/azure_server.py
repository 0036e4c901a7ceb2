"""
Azurite, Microsoft's emulator of Azure's blob storage: a package of npm, fetched into a cache.

It ignores ``startFrom`` in a request for a list, by which delta-rs looks for later versions only: names before it are
left out here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from attrs import define, evolve, field

from tests.pipeline.store_front import Answer, Ask, Front, Request

VERSION = "3.35.0"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's own, which its documentation publishes."""

_LISTENS = re.compile(r"successfully listens on (http://\S+)")
_BLOB = re.compile(rb"<Blob><Name>([^<]*)</Name>.*?</Blob>", re.DOTALL)
_SECONDS = 900


@define(eq=False)
class AzureServer:
    """
    A server with one container, in memory; a context manager.

    :ivar address: ``http://127.0.0.1:PORT``.
    :raise RuntimeError: it cannot be fetched.
    """

    container: str
    cache: Path
    address: str = ""
    _front: Front = field(init=False)
    _process: subprocess.Popen[str] = field(init=False)
    _reader: threading.Thread = field(init=False)

    def __enter__(self) -> AzureServer:
        from pyarrow import fs

        where = ("--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence")
        self._process = subprocess.Popen(
            [str(_fetched(self.cache)), *where, "--skipApiVersionCheck", "--disableTelemetry"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        said = []
        for line in self._process.stdout:
            said.append(line)
            if found := _LISTENS.search(line):
                port = int(found[1].rpartition(":")[2])
                break
        else:
            raise AssertionError(f"Azurite has not started: {''.join(said)}")
        self._reader = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._reader.start()
        self._front = Front(_answer, port).__enter__()
        host = self._front.host
        self.address = f"http://{host}"
        ours = {"blob_storage_scheme": "http", "dfs_storage_scheme": "http"}
        fs.AzureFileSystem(
            ACCOUNT, account_key=KEY, blob_storage_authority=host, dfs_storage_authority=host, **ours
        ).create_dir(self.container)
        return self

    def __exit__(self, *_: object) -> None:
        self._front.__exit__()
        self._process.kill()
        self._process.wait()
        self._reader.join()

    @property
    def options(self) -> dict[str, str]:
        """Of a store."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": f"{self.address}/{ACCOUNT}",
        }

    @property
    def properties(self) -> dict[str, str]:
        """Of a catalog of PyIceberg, for the environment."""
        host = self.address.partition("://")[2]
        return {
            "adls__account_name": ACCOUNT,
            "adls__account_key": KEY,
            "adls__blob_storage_authority": host,
            "adls__blob_storage_scheme": "http",
            "adls__dfs_storage_authority": host,
            "adls__dfs_storage_scheme": "http",
        }


def _answer(request: Request, ask: Ask) -> Answer:
    answer = ask(request)
    first = parse_qs(urlsplit(request.target).query).get("startFrom", [""])[0].encode()
    if answer.status != 200 or not first:
        return answer
    return evolve(answer, body=_BLOB.sub(lambda found: found[0] if found[1] >= first else b"", answer.body))


def _fetched(cache: Path) -> Path:
    """The program."""
    home = cache / f"azurite-{VERSION}"
    program = home / "node_modules" / ".bin" / "azurite-blob"
    if program.exists():
        return program
    if shutil.which("npm") is None:
        raise RuntimeError("npm is not installed")
    home.mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", f"azurite@{VERSION}"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"npm could not fetch Azurite: {done.stderr[-500:]}")
    return program
