"""
Builds the compiled implementations of ``kernel.py``, ``columnar.py``, ``gathering.py`` and ``packing.py`` in
``logbus/records``, the threads that sync files in ``logbus/storage/filesystem`` and those that send slices of files in
``logbus/net``; everything else about the package is in ``setup.cfg``.

They are optional: without a C compiler, or with ``LOGBUS_PURE`` set, the package is installed without them.
"""

import os

from setuptools import Extension, setup

MODULES = [
    Extension("logbus.records._kernel", ["logbus/records/kernel.py"]),
    Extension("logbus.records._columnar", ["logbus/records/_columnar.pyx"]),
    Extension("logbus.records._gathering", ["logbus/records/_gathering.pyx"]),
    Extension("logbus.records._packing", ["logbus/records/_packing.pyx"]),
    Extension("logbus.net._send_threads", ["logbus/net/_send_threads.pyx"]),
    Extension("logbus.storage.filesystem._sync_threads", ["logbus/storage/filesystem/_sync_threads.pyx"]),
]


def extensions() -> list[Extension]:
    if os.environ.get("LOGBUS_PURE"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    found: list[Extension] = cythonize(MODULES, language_level=3, build_dir="build/cython")
    for extension in found:
        extension.optional = True  # cythonize() does not keep the attribute of its arguments.
    return found


setup(ext_modules=extensions())
