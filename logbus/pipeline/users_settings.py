"""The settings of Spark that the user has made outside of the program, in ``spark-defaults.conf`` and by ``--conf``."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

_NAME = re.compile(r"\s*([^\s=:#!][^\s=:]*)")
"""The beginning of a line of a properties file."""


def users_settings(environ: Mapping[str, str], home: Path) -> set[str]:
    """
    Their names, as far as they can be seen before Java starts.

    :param home: Spark's, in which its ``conf`` is unless the user says where.
    """
    path = Path(environ.get("SPARK_CONF_DIR") or home / "conf", "spark-defaults.conf")
    names: set[str] = set()
    with contextlib.suppress(OSError, UnicodeDecodeError):
        names.update(found[1] for line in path.read_text().splitlines() if (found := _NAME.match(line)))
    with contextlib.suppress(ValueError):
        words = shlex.split(environ.get("PYSPARK_SUBMIT_ARGS", ""))
        given = [word for option, word in pairwise(words) if option in ("--conf", "-c")]
        given += [word.removeprefix("--conf=") for word in words if word.startswith("--conf=")]
        names.update(word.partition("=")[0] for word in given)
    return names
