"""Compiles the C programs of ``benchmarks/native`` on first use, in a scratch directory."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import attrs

SOURCES = Path(__file__).parent.parent / "native"


@attrs.frozen
class Programs:
    """
    :ivar load: Replays requests over raw sockets.
    :ivar rdload: Drives librdkafka.
    :ivar slow_sync: The library that counts and delays fsync, fdatasync and syncfs.
    :ivar librdkafka: The shared library ``rdload`` opens, or None: then its cells are left out.
    """

    load: Path
    rdload: Path
    slow_sync: Path
    librdkafka: Path | None


def build(directory: Path, librdkafka: Path | None = None) -> Programs:
    """
    Compile all three.

    :raise RuntimeError: There is no C compiler, or it failed; the text has its words.
    """
    load, rdload, slow_sync = directory / "load", directory / "rdload", directory / "slow_sync.so"
    _compile(["-O2", "-o", str(load), *map(str, sorted((SOURCES / "load").glob("*.c")))])
    _compile(["-O2", "-o", str(rdload), str(SOURCES / "rdload.c"), "-ldl"])
    compile_library("slow_sync.c", slow_sync)
    return Programs(load, rdload, slow_sync, librdkafka or find_librdkafka())


def compile_program(source: str, program: Path) -> None:
    """
    Compile one of the directory's single files.

    :raise RuntimeError: As :func:`build`.
    """
    _compile(["-O2", "-o", str(program), str(SOURCES / source)])


def compile_library(source: str, library: Path) -> None:
    """
    Compile one of the directory's single files that are for LD_PRELOAD.

    :raise RuntimeError: As :func:`build`.
    """
    _compile(["-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCES / source), "-ldl"])


def find_librdkafka() -> Path | None:
    """The library inside an installed confluent-kafka wheel, or None."""
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        return None
    found = sorted((Path(spec.origin).parent.parent / "confluent_kafka.libs").glob("librdkafka-*.so*"))
    return found[0] if found else None


def _compile(arguments: list[str]) -> None:
    try:
        done = subprocess.run(["cc", "-Wall", *arguments], capture_output=True, text=True, timeout=120, check=False)
    except FileNotFoundError:
        raise RuntimeError("cc is not installed (Debian: apt-get install gcc libc6-dev)") from None
    if done.returncode:
        raise RuntimeError(f"cc failed:\n{done.stderr}")
