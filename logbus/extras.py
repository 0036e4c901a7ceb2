"""Hints for installing optional dependencies. Pure."""

from __future__ import annotations


def install_hint(extra: str) -> str:
    """
    Return the command that installs an extra. logbus is on no package index, so pip needs its source directory.

    :param extra: a name in ``[options.extras_require]`` of ``setup.cfg``.
    """
    return f"run pip install '.[{extra}]' in the source directory of logbus"
