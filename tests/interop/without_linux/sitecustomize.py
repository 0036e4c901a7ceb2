"""
Takes away from a process what Python has on Linux only, as far as logbus or Twisted might use it, and gives it what
macOS has instead. Python imports it at its start where its directory is in ``PYTHONPATH``.

What kqueue and the system's own behaviour are like it cannot show.
"""

import builtins
import errno
import fcntl
import io
import os
import resource
import select
import selectors
import socket
import stat
import sys
import sysconfig
import time
from types import ModuleType
from typing import Any

F_FULLFSYNC = 51

_ONLY_LINUX: dict[Any, tuple[str, ...]] = {
    os: (
        "EFD_", "GRND_", "MFD_", "O_NOATIME", "O_PATH", "O_TMPFILE", "POSIX_FADV_", "P_PIDFD", "RWF_",
        "SCHED_", "SPLICE_", "copy_file_range", "eventfd", "fdatasync", "getrandom", "getresgid", "getresuid",
        "getxattr", "listxattr", "memfd_create", "pidfd_open", "pipe2", "posix_fadvise", "posix_fallocate",
        "removexattr", "sched_get", "sched_set", "setns", "setresgid", "setresuid", "setxattr", "splice", "unshare",
    ),
    select: ("EPOLL", "epoll"),
    socket: (
        "AF_ALG", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "MSG_CMSG_CLOEXEC", "MSG_CONFIRM", "MSG_MORE", "MSG_NOSIGNAL",
        "SOCK_CLOEXEC", "SOCK_NONBLOCK", "SO_BINDTODEVICE", "SO_DOMAIN", "SO_INCOMING_CPU", "SO_MARK", "SO_PEERCRED",
        "SO_PROTOCOL", "TCP_CONGESTION", "TCP_CORK", "TCP_DEFER_ACCEPT", "TCP_INFO", "TCP_KEEPIDLE", "TCP_QUICKACK",
        "TCP_USER_TIMEOUT",
    ),
    resource: ("prlimit",),
    fcntl: ("F_ADD_SEALS", "F_GETPIPE", "F_GET_SEALS", "F_OFD_", "F_SEAL", "F_SETPIPE"),
    time: ("CLOCK_BOOTTIME", "CLOCK_TAI"),
}  # fmt: skip


class _Open:
    """As :func:`open`, without ``/proc``. An object, since Twisted has ``open`` as an attribute of a class."""

    _open = staticmethod(io.open)

    def __call__(self, file: Any, *args: Any, **options: Any) -> Any:
        if not isinstance(file, int) and os.fsdecode(file).startswith("/proc/"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
        return self._open(file, *args, **options)


def _take_away() -> None:
    # It looks for a file that is named after the platform.
    sysconfig.get_config_vars()
    import _socket

    for module, names in _ONLY_LINUX.items():
        for name in [each for each in vars(module) if each.startswith(names)]:
            delattr(module, name)
            if module is socket and hasattr(_socket, name):
                delattr(_socket, name)
    # The module was imported with socket, before epoll was gone.
    selectors.DefaultSelector = selectors.PollSelector  # type: ignore[misc]
    control, send = fcntl.fcntl, os.sendfile

    def fcntl_(fd: Any, command: int, argument: Any = 0) -> Any:
        if command == F_FULLFSYNC:
            os.fsync(fd)
            return 0
        return control(fd, command, argument)

    def sendfile(out: int, source: int, offset: int, count: int) -> int:
        if not stat.S_ISSOCK(os.fstat(out).st_mode):
            raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
        return send(out, source, offset, count)

    fcntl.fcntl, os.sendfile = fcntl_, sendfile  # type: ignore[assignment]
    fcntl.F_FULLFSYNC = F_FULLFSYNC  # type: ignore[attr-defined]
    builtins.open = io.open = _Open()  # type: ignore[assignment]
    # What urllib asks for proxies there.
    proxies: Any = ModuleType("_scproxy")
    proxies._get_proxy_settings = proxies._get_proxies = dict
    sys.modules["_scproxy"] = proxies
    sys.platform = "darwin"


_take_away()
