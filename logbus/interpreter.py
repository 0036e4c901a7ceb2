"""
The build of the running Python, and advice where another build would be faster. Pure.

Most of a broker's processor time is the interpreter's: a profile-guided build of the same version needs about a fifth
less.
"""

from __future__ import annotations

import platform
import re
import sysconfig
from typing import Self

from attrs import frozen

_LEVEL = re.compile(r"-O\S*")


@frozen
class InterpreterBuild:
    """
    A build of Python.

    :ivar implementation: such as ``CPython``.
    :ivar version: such as ``3.11.7``.
    :ivar configured: the arguments of its ``configure``; empty if they are unknown.
    :ivar flags: the compiler's; empty if they are unknown.
    """

    implementation: str
    version: str
    configured: str = ""
    flags: str = ""

    @classmethod
    def running(cls) -> Self:
        """The one that runs this."""
        configured, flags = (sysconfig.get_config_var(name) or "" for name in ("CONFIG_ARGS", "PY_CFLAGS"))
        return cls(platform.python_implementation(), platform.python_version(), configured, flags)

    @property
    def is_profile_guided(self) -> bool | None:
        """Whether a profile guided its compiler; None if that cannot be told."""
        if self.implementation != "CPython" or not self.configured:
            return None
        if "--enable-optimizations" in self.configured:
            return True
        # Debian profiles in its packaging, and leaves no trace of it.
        return None if "'--prefix=/usr'" in self.configured else False

    @property
    def level(self) -> str:
        """The compiler's level of optimisation, such as ``-O3``: of several the last; empty if it is unknown."""
        levels = _LEVEL.findall(self.flags)
        return levels[-1] if levels else ""

    @property
    def name(self) -> str:
        """A line that tells builds apart, for measurements."""
        guided = {True: "profile-guided", False: "not profile-guided", None: ""}[self.is_profile_guided]
        traits = ", ".join(trait for trait in (self.level, guided) if trait)
        return f"{self.implementation} {self.version}" + (f" ({traits})" if traits else "")

    @property
    def advice(self) -> str | None:
        """The advice to users who could have a faster build; None: there is none."""
        if self.level in ("-O0", "-Og") or "--with-pydebug" in self.configured:
            slow = "it is built for debugging, and several times slower"
        elif self.is_profile_guided is False:
            slow = "a profile-guided build needs about a fifth less processor time"
        else:
            return None
        return (
            f"{self.name} runs this broker: {slow}. Distributions and the python container images have such a build; "
            "your own is made by ./configure --enable-optimizations --with-lto"
        )


def advice(is_compiled: bool, build: InterpreterBuild) -> list[str]:
    """
    The lines that a broker logs at its start for users who could have a faster one.

    :param is_compiled: whether the compiled modules of logbus are in use.
    """
    lines = []
    if not is_compiled:
        lines.append(
            "logbus is interpreted, and slower, as its compiled modules are not in use: LOGBUS_PURE is set, the "
            "installation found no C compiler, or the sources have changed since (install gcc and the headers of "
            "Python, then logbus again)"
        )
    if build.advice is not None:
        lines.append(build.advice)
    return lines
