"""
Builds the compiled modules; everything else about the package is in ``setup.cfg``.

* those of ``logbus/compiled.py``: from the source that also runs interpreted
* in ``logbus/records`` the compiled implementations of ``kernel.py``, ``columnar.py``, ``gathering.py``, ``packing.py``
* in ``logbus/storage/cleaner`` that of ``offset_map.py``
* the threads that sync and write files in ``logbus/storage/filesystem``, and those in ``logbus/net`` that send slices
  of files and answer fetches
* what tells which bytes of a file are in memory, in ``logbus/storage/filesystem``
* what sends small responses of many connections by one system call, in ``logbus/net``

They are optional: without a C compiler, or with ``LOGBUS_PURE`` set, the package is installed without them.
"""

import os
import runpy
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

compiled = runpy.run_path("logbus/compiled.py")
processors = runpy.run_path("logbus/processors.py")["processors"]

MODULES = [
    Extension("logbus.records._kernel", ["logbus/records/kernel.py"]),
    Extension("logbus.records._columnar", ["logbus/records/_columnar.pyx"]),
    Extension("logbus.records._gathering", ["logbus/records/_gathering.pyx"]),
    Extension("logbus.records._packing", ["logbus/records/_packing.pyx"]),
    Extension("logbus.net._batched_send", ["logbus/net/_batched_send.pyx"]),
    Extension("logbus.net._fetch_threads", ["logbus/net/_fetch_threads.pyx"]),
    Extension("logbus.net._send_threads", ["logbus/net/_send_threads.pyx"]),
    Extension("logbus.storage.cleaner._offset_map", ["logbus/storage/cleaner/_offset_map.pyx"]),
    Extension("logbus.storage.filesystem._page_cache", ["logbus/storage/filesystem/_page_cache.pyx"]),
    Extension("logbus.storage.filesystem._sync_threads", ["logbus/storage/filesystem/_sync_threads.pyx"]),
    Extension("logbus.storage.filesystem._write_threads", ["logbus/storage/filesystem/_write_threads.pyx"]),
    *(Extension(name, [str(compiled["source"](name, Path("logbus")))]) for name in compiled["MODULES"]),
]


def extensions() -> list[Extension]:
    if os.environ.get("LOGBUS_PURE"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    # Annotations are for mypy: Cython takes `int` for a C type, which a number may not fit. Types are in .pxd files.
    found: list[Extension] = cythonize(
        MODULES, language_level=3, build_dir="build/cython", compiler_directives={"annotation_typing": False}
    )
    for extension in found:
        extension.optional = True  # cythonize() does not keep the attribute of its arguments.
        extension.extra_compile_args = ["-g0"]  # Information for debuggers takes a fifth of the time.
    return found


class BuildExt(build_ext):
    """Compiles on every core, and leaves a checksum of the sources beside the modules if all were compiled."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or processors()

    def run(self) -> None:
        super().run()
        files = {name: Path(self.get_ext_fullpath(name)) for name in compiled["MODULES"]}
        if all(file.exists() for file in files.values()):
            name, file = next(iter(files.items()))
            package = file.parents[name.count(".") - 1]
            (package / compiled["CHECKSUM"]).write_text(compiled["checksum"](Path("logbus")))


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExt})
