"""
The compiled twin of ``logbus/records/kernel.py``; everything else about the package is in ``setup.cfg``.

It is optional: without a C compiler, or with ``LOGBUS_PURE`` set, the package is installed without it.
"""

import os

from setuptools import Extension, setup

KERNEL = Extension("logbus.records._kernel", ["logbus/records/kernel.py"])


def extensions() -> list[Extension]:
    if os.environ.get("LOGBUS_PURE"):
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    found: list[Extension] = cythonize([KERNEL], language_level=3, build_dir="build/cython")
    for extension in found:
        extension.optional = True  # cythonize drops it from what it is given.
    return found


setup(ext_modules=extensions())
