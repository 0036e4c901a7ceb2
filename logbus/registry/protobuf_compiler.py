"""
Compiles Protobuf schemas with protoc, which grpcio-tools brings along.

protoc runs in a process of its own, which takes some 80 ms, since within this one it would keep Python from doing
anything else; so the caller runs it in a thread. What was compiled last is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import re
import resource
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import define, field

from logbus.extras import install_hint
from logbus.registry.errors import Code, RegistryRefusal, invalid_schema

SECONDS = 10
"""Of processor time for protoc, which takes 0.2 seconds for the largest schema: a busy machine lets it have them."""
LONGEST_WAIT = 60.0
"""Seconds."""
KEPT_BYTES = 16_777_216
MOST_ERRORS = 5
LONGEST_NAME = 200

_PLACE = re.compile(r"(?:main\.proto:)?(?:(\d+):(\d+):)? *(.*)")


@define
class _Kept:
    """The last results, up to a number of bytes."""

    _found: OrderedDict[bytes, bytes] = field(factory=OrderedDict)
    _size: int = 0
    _lock: threading.Lock = field(factory=threading.Lock)

    def get(self, key: bytes) -> bytes | None:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
            return self._found.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        with self._lock:
            self._size += len(value) - len(self._found.pop(key, b""))
            self._found[key] = value
            while self._size > KEPT_BYTES:
                self._size -= len(self._found.popitem(last=False)[1])


_KEPT = _Kept()


def check_installed() -> None:
    """
    Check that protoc can be run.

    :raise RegistryRefusal: its package is not installed.
    """
    if importlib.util.find_spec("grpc_tools") is None:
        raise RegistryRefusal(
            Code.NOT_IMPLEMENTED,
            f"This broker cannot read Protobuf, as grpcio-tools is not installed: {install_hint('protobuf')}",
        )


def compiled(text: str, imports: Mapping[str, str]) -> list[Any]:
    """
    Compile a schema; blocks, so it is for a thread.

    :param imports: the texts of the files it may import, besides ``google/protobuf/*.proto``, by name.
    :return: FileDescriptorProto of each file, after those it imports; the schema's is the last.
    :raise RegistryRefusal: protoc refuses it, with lines and columns; or cannot be run.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    key = _key(text, imports)
    data = _KEPT.get(key)
    if data is None:
        data = _run(text, imports)
        _KEPT.put(key, data)
    files = list(FileDescriptorSet.FromString(data).file)
    files[-1].ClearField("name")
    return files


def check_file_name(name: str) -> None:
    """
    Check the name under which a file is imported; it becomes one in a temporary directory.

    :raise RegistryRefusal: it is no relative path of a ``.proto`` file.
    """
    parts = name.split("/")
    if (
        len(name) > LONGEST_NAME
        or not name.endswith(".proto")
        or not name.isprintable()
        or "\\" in name
        or any(part in ("", ".", "..") for part in parts)
    ):
        raise invalid_schema(
            f"the reference {name[:100]!r} is no name of a file to import, such as 'shop/price.proto', "
            f"of at most {LONGEST_NAME} characters"
        )


def _key(text: str, imports: Mapping[str, str]) -> bytes:
    found = hashlib.sha256()
    for part in [text, *(part for name in sorted(imports) for part in (name, imports[name]))]:
        data = part.encode("utf-8", "surrogatepass")
        found.update(b"%d:" % len(data) + data)
    return found.digest()


def _run(text: str, imports: Mapping[str, str]) -> bytes:
    try:
        with TemporaryDirectory(prefix="logbus-protoc-") as name:
            root = Path(name)
            # In directories of their own, since a file to import may have any name.
            theirs, own = root / "imports", root / "own"
            for place, content in [(own / "main.proto", text), *((theirs / key, imports[key]) for key in imports)]:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content.encode())
            theirs.mkdir(exist_ok=True)
            out = root / "descriptors"
            # -P: modules are not looked up in the working directory.
            command = [sys.executable, "-P", "-m", "grpc_tools.protoc", f"-I{own}", f"-I{theirs}", "--include_imports"]
            status, said = _limited([*command, f"--descriptor_set_out={out}", str(own / "main.proto")])
            if status == -signal.SIGXCPU:
                raise invalid_schema(f"protoc did not come to an end within {SECONDS} seconds of processor time")
            if status != 0:
                told = said.decode("utf-8", "replace").replace(f"{own}/", "").replace(f"{theirs}/", "")
                raise invalid_schema(_errors(told) or f"protoc ended with {status}")
            return out.read_bytes()
    except UnicodeEncodeError:
        raise invalid_schema("it has half of a surrogate pair, which is no character") from None
    except subprocess.TimeoutExpired:
        raise invalid_schema(f"protoc did not come to an end within {LONGEST_WAIT:g} seconds") from None
    except OSError as e:
        raise RegistryRefusal(Code.STORE, f"protoc cannot be run on this broker: {e.strerror or e}") from None


def _limited(command: list[str]) -> tuple[int, bytes]:
    """
    Run a command within the limits.

    :return: its exit status, and its standard error.
    :raise TimeoutExpired: it has waited too long.
    """
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        try:
            if sys.platform == "linux":
                # It may have ended already.
                with contextlib.suppress(ProcessLookupError):
                    resource.prlimit(process.pid, resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
            _, said = process.communicate(timeout=LONGEST_WAIT)
        except BaseException:
            process.kill()
            raise
        return process.returncode, said


def _errors(told: str) -> str:
    lines = [line for line in told.splitlines() if line.strip() and "warning:" not in line]
    found = list[str]()
    for line in lines[:MOST_ERRORS]:
        match = _PLACE.fullmatch(line)
        if match is not None and match[1]:
            line = f"line {match[1]}, column {match[2]}: {match[3]}"
        found.append(line)
    return "; ".join(found) + ("; …" if len(lines) > MOST_ERRORS else "")
