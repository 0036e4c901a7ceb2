"""The settings of Spark that the user has made outside of the program, in files and as options of ``spark-submit``."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

_NAME = re.compile(r"\s*([^\s=:#!][^\s=:]*)")
"""The beginning of a line of a properties file."""
_OPTION = re.compile(r"(--[^=]+)=(.+)", re.DOTALL)
_NAMED = {
    "--driver-class-path": "spark.driver.extraClassPath",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--jars": "spark.jars",
}
"""Options of spark-submit that are spellings of a setting."""


def usual_home(environ: Mapping[str, str]) -> Path:
    """Spark's home directory, as it is without this package."""
    if home := environ.get("SPARK_HOME"):
        return Path(home)
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def settings_directory(environ: Mapping[str, str], home: Path) -> Path:
    """The directory with the user's files of settings, unless they are named one by one; it need not be there."""
    return Path(environ.get("SPARK_CONF_DIR") or home / "conf")


def users_settings(environ: Mapping[str, str], home: Path) -> set[str]:
    """
    Their names, as far as they can be seen before Java starts.

    :param home: Spark's, in which its ``conf`` is unless the user says where.
    """
    words: list[str] = []
    with contextlib.suppress(ValueError):
        words = shlex.split(environ.get("PYSPARK_SUBMIT_ARGS", ""))
    given = list(_options(words))
    files = [Path(value) for option, value in given if option == "--properties-file"][-1:]
    if not files or "--load-spark-defaults" in words:
        files.append(settings_directory(environ, home) / "spark-defaults.conf")
    names = {value.partition("=")[0] for option, value in given if option in ("--conf", "-c")}
    names.update(_NAMED[option] for option, _ in given if option in _NAMED)
    for path in files:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            names.update(found[1] for line in path.read_text().splitlines() if (found := _NAME.match(line)))
    return names


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """The words that begin with a hyphen, each with its value, or with the next word."""
    for word, following in pairwise([*words, ""]):
        if found := _OPTION.fullmatch(word):
            yield found[1], found[2]
        elif word.startswith("-"):
            yield word, following
