"""
Replaces what modules of the standard library give of the real world, while a simulation runs.

``time`` tells virtual time, ``random`` and ``os.urandom`` (so ``uuid`` and ``secrets``) give numbers of the seed.
Threads, sleeps, sockets, processes and the process's reactor are refused. Other threads than the simulation's see no
difference.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from random import Random
from typing import Any
from unittest.mock import patch

from logbus.testing.simulation.application.refusals import Refusals

_SLEEP = "wait with asyncio.sleep(), or with twisted.internet.task.deferLater(simulation.reactor, ...)"
_THREAD = "all of a simulation is one thread; call the function itself, or one that stands for it"
_SOCKET = "connect to simulation.bootstrap by asyncio or simulation.reactor; other services need a stand-in in memory"
_PROCESS = "there are no other processes; call something in memory that stands for it"
_REACTOR = "use simulation.reactor, also as the clock of deferLater() and LoopingCall"

_REFUSED: tuple[tuple[Any, str, str, str], ...] = (
    (time, "sleep", "time.sleep()", _SLEEP),
    (threading.Thread, "start", "threading.Thread.start()", _THREAD),
    (socket.socket, "connect", "socket.connect()", _SOCKET),
    (socket.socket, "connect_ex", "socket.connect_ex()", _SOCKET),
    (socket.socket, "bind", "socket.bind()", _SOCKET),
    (socket, "getaddrinfo", "socket.getaddrinfo()", _SOCKET),
    (socket, "gethostbyname", "socket.gethostbyname()", _SOCKET),
    (subprocess.Popen, "__init__", "subprocess.Popen()", _PROCESS),
    (os, "system", "os.system()", _PROCESS),
    (os, "fork", "os.fork()", _PROCESS),
)
"""Object, attribute, what the error calls it, and what it advises."""

_REACTOR_METHODS = (
    *("callLater", "callFromThread", "callInThread", "getThreadPool", "run", "resolve"),
    *("connectTCP", "connectSSL", "connectUNIX", "listenTCP", "listenSSL", "listenUDP", "spawnProcess"),
)


@contextmanager
def virtual_modules(
    seed: Random, monotonic: Callable[[], float], wall: Callable[[], float], no: Refusals
) -> Iterator[None]:
    """
    Replace them for a while.

    :param seed: gives the numbers.
    :param monotonic: seconds of virtual time; ``wall``: seconds since 1970.
    :param no: is told what is refused.
    """
    here = threading.get_ident()

    def replace(where: Any, name: str, fake: Callable[..., Any]) -> Any:
        real = getattr(where, name)

        @wraps(real)
        def chosen(*args: Any, **kwargs: Any) -> Any:
            return (fake if threading.get_ident() == here else real)(*args, **kwargs)

        return patch.object(where, name, chosen)

    entropy = Random(seed.getrandbits(64))
    state = random.getstate()
    with ExitStack() as stack:
        for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
            stack.enter_context(replace(time, name, monotonic))
            stack.enter_context(replace(time, f"{name}_ns", lambda: int(monotonic() * 1_000_000_000)))
        stack.enter_context(replace(time, "time", wall))
        stack.enter_context(replace(time, "time_ns", lambda: int(wall() * 1_000_000_000)))
        for where in (os, random):
            stack.enter_context(replace(where, "urandom" if where is os else "_urandom", entropy.randbytes))
        for where, name, what, instead in _REFUSED:
            if hasattr(where, name):
                stack.enter_context(replace(where, name, no.refusing(what, instead)))
        reactor = sys.modules.get("twisted.internet.reactor")
        for name in _REACTOR_METHODS:
            if hasattr(reactor, name):
                what = f"{name}() of twisted.internet.reactor"
                stack.enter_context(replace(reactor, name, no.refusing(what, _REACTOR)))
        random.seed(seed.getrandbits(64))
        try:
            yield
        finally:
            random.setstate(state)
