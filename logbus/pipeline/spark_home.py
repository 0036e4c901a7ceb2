"""
A home directory of Spark from which Python processes start in a third of the processor time.

Spark has its Python processes import pyspark from ``python/lib/pyspark.zip`` in its home. Python compiles what it
imports from a zip again in each process, and a small job starts five daemons and as many workers. In this home there is
no such file, and the processes import the installed package, of which Python keeps the compiled modules. All else is
links to the real home.

Where Spark looks for the zip is a directory of that name, in which Python finds two modules. As Spark looks for data
sources, its process imports all modules whose names begin with ``pyspark_``: the one in there keeps this process from
printing a traceback when it ends. ``sitecustomize`` does that in processes that plan, which may find that Java has gone
before they import anything else of this package; it runs the module of the same name that it hides, if there is one.

It is for jobs on one machine whose Python processes are those of the driver's environment. Where executors have
environments of their own, or are sent the zip, it is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from logbus.pipeline.class_archive import cache_directory

_LINKED = ("bin", "jars", "sbin", "conf")
_FIND = "from importlib.util import find_spec as f; print(f('pyspark').origin); print(f('py4j').origin)"
_MODULES = Path("python", "lib", "pyspark.zip")
_HOOKS = {
    "pyspark_logbus.py": """\
try:
    from logbus.pipeline.worker_daemon import begin_work
except ImportError:
    pass
else:
    begin_work()
""",
    "sitecustomize.py": """\
import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_here = os.path.realpath(os.path.dirname(__file__))
_others = [each for each in sys.path if os.path.realpath(each) != _here]
_hidden = PathFinder.find_spec(__name__, _others)
if _hidden is not None and _hidden.loader is not None:
    sys.modules[__name__] = module_from_spec(_hidden)
    _hidden.loader.exec_module(sys.modules[__name__])
if "pyspark.daemon" in sys.orig_argv:
    # Of tasks, or of workers that plan, whose module is named behind it.
    try:
        from logbus.pipeline.worker_daemon import quieten
    except ImportError:
        pass
    else:
        os.register_at_fork(after_in_child=quieten)
elif any(each.startswith("pyspark.sql.") for each in sys.orig_argv):
    try:
        from logbus.pipeline.hang_ups import expect_hang_up
    except ImportError:
        pass
    else:
        expect_hang_up()
""",
}
_PATIENCE = 60.0
_PYTHON_SETTINGS = ("spark.pyspark.", "spark.python.", "spark.executorEnv.PYTHON")
"""Beginnings of Spark's settings that choose another Python."""
_NOT_OF_PYTHON = "spark.python.unix.domain.socket."
"""The beginning of those among them that do not."""


def lean_home(environ: Mapping[str, str], master: str, settings: Mapping[str, str]) -> Path | None:
    """
    The home directory for a job, which is made if it is not there.

    :param master: where the job runs.
    :param settings: Spark's, as the user gave them.
    :returns: None: the job needs the real one, or there is no directory for this one that is the user's own.
    """
    if master != "local" and not master.startswith("local["):
        return None
    if "SPARK_HOME" in environ or environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        return None
    of_python = [each for each in settings if each.startswith(_PYTHON_SETTINGS) and not each.startswith(_NOT_OF_PYTHON)]
    if of_python or "PYSPARK_DRIVER_PYTHON" in environ:
        return None
    cache = cache_directory(environ)
    if cache is None:
        return None
    import pyspark

    package = Path(pyspark.__file__).parent
    what = (sys.executable, str(package), environ.get("PYTHONPATH", ""))
    home = cache / f"spark-home-{hashlib.sha256(repr(what).encode()).hexdigest()[:16]}"
    try:
        if not home.is_dir():
            if not _finds(environ, package):
                return None
            home.mkdir(mode=0o700, exist_ok=True)
        for name in _LINKED:
            if (package / name).is_dir() and not (home / name).is_dir():
                with contextlib.suppress(FileExistsError):
                    (home / name).symlink_to(package / name)
        for name, text in _HOOKS.items():
            _write(home / _MODULES / name, text)
    except OSError:
        return None
    return home if (home / "bin" / "spark-submit").is_file() else None


def _write(path: Path, text: str) -> None:
    """Write a module, unless it is there; other processes may do the same now."""
    if path.is_file() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.stem}.{os.getpid()}.new")
    draft.write_text(text)
    draft.replace(path)


def _finds(environ: Mapping[str, str], package: Path) -> bool:
    """Whether a new Python process finds the same package, as when this one was not told where it is by a program."""
    command = [sys.executable, "-c", _FIND]
    try:
        found = subprocess.run(
            command, env=dict(environ), capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0 and found.stdout.splitlines()[:1] == [str(package / "__init__.py")]


@contextlib.contextmanager
def spark_home(home: Path | None) -> Iterator[None]:
    """Have a Java process that is started meanwhile take a directory for Spark's home; None: as it would be."""
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]
