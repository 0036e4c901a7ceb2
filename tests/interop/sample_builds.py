"""
Builds the samples in languages whose compilers take long: ``python -m tests.interop.sample_builds``.

``tests/run`` does so beside something else, so that :mod:`tests.interop.test_samples` finds what it tests in caches.
First builds fetch modules and take a minute of processor time each, and later ones next to nothing: the sources are
copied to a place of their own in the user's cache, so that compilers find them where they were.  It imports nothing but
Python's own library: ``tests/run`` starts it before there is anything else.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
CACHE = Path(os.environ.get("LOGBUS_SAMPLES_CACHE", "~/.cache/logbus-samples")).expanduser()
"""What a build leaves for the next one."""
SOURCES = ("testkit", "tests/samples")
LEFT_BY_BUILDS = ("target", "node_modules", "Cargo.lock", "package-lock.json", "__pycache__", "log")
SECONDS = 900


@dataclass(frozen=True)
class Build:
    """
    How a sample is compiled, with its tests.

    :ivar fetch: the command that fetches what it needs, in its directory.
    :ivar compile: the command that compiles it.
    :ivar variables: of the environment, for these and those that run it.
    """

    fetch: tuple[str, ...]
    compile: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


BUILDS = {
    "go": Build(("go", "mod", "download"), ("go", "test", "-run", "^$", "./...")),
    "rust": Build(
        ("cargo", "fetch", "--quiet"),
        ("cargo", "test", "--no-run", "--quiet"),
        {"CARGO_TARGET_DIR": str(CACHE / "cargo")},
    ),
}


class BuildFailed(Exception):
    """A sample could not be built."""


class FetchFailed(Exception):
    """What a sample needs could not be fetched."""


def copied(where: Path) -> Path:
    """Copy the samples and what they use; the directory of the samples."""
    for each in SOURCES:
        shutil.copytree(ROOT / each, where / each, ignore=shutil.ignore_patterns(*LEFT_BY_BUILDS))
    return where / "tests" / "samples"


def build(language: str) -> Path:
    """
    Compile a sample, unless it is compiled.

    :return: its directory, in a copy of the sources as they are now.
    :raise FetchFailed: what it needs is not to be had.
    :raise BuildFailed: it does not compile.
    """
    plan = BUILDS[language]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{language}.lock").open("w") as lock:
        # Of several processes the others wait for the first.
        fcntl.flock(lock, fcntl.LOCK_EX)
        home = CACHE / f"{language}-sources"
        digest, noted = _digest(), home / "digest"
        if not noted.exists() or noted.read_text() != digest:
            shutil.rmtree(home, ignore_errors=True)
            copied(home)
            noted.write_text(digest)
        directory = home / "tests" / "samples" / language
        _run(plan.fetch, directory, plan, FetchFailed)
        _run(plan.compile, directory, plan, BuildFailed)
    return directory


def _run(command: tuple[str, ...], directory: Path, plan: Build, error: type[Exception]) -> None:
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **plan.variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise error(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-4000:]}")


def _digest() -> str:
    """Of all sources."""
    found = hashlib.sha256()
    for each in SOURCES:
        for path in sorted((ROOT / each).rglob("*")):
            if path.is_file() and not set(LEFT_BY_BUILDS) & set(path.relative_to(ROOT).parts):
                found.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return found.hexdigest()


def main() -> int:
    """Build what can be built here; the exit status."""
    for language, plan in BUILDS.items():
        program = plan.fetch[0]
        if shutil.which(program) is None:
            print(f"{program} is missing: the sample in {language} is skipped")
            continue
        try:
            build(language)
        except (FetchFailed, BuildFailed) as e:
            print(f"the sample in {language}: {e}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
