"""
How to install what an optional part of logbus needs.
"""

from __future__ import annotations


def install_hint(extra: str) -> str:
    """
    The command that installs an extra. logbus is on no package index, so pip has to be given its source directory.

    :param extra: a name in ``[options.extras_require]`` of ``setup.cfg``.
    """
    return f"run pip install '.[{extra}]' in the source directory of logbus"
