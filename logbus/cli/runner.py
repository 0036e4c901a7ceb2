"""Runs a command's coroutine on the reactor, with its signals and its connection to a cluster."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import CancelledError, Deferred, FirstError
from twisted.logger import globalLogBeginner, textFileLogObserver
from twisted.python.failure import Failure

from logbus.cli.app import exit_by_signal
from logbus.cli.client_security import client_security
from logbus.cli.missing_rights import missing_rights
from logbus.client.admin.admin_client import AdminClient
from logbus.client.cluster.cluster import Cluster
from logbus.client.retry import NoBroker, UnknownBroker, Unreachable
from logbus.errors import ApiError, Disconnected, ErrorCode, LogbusError, RequestTimedOut
from logbus.wire.frame_buffer import SPEAKS_HTTP

T = TypeVar("T")

_OTHER_LISTENER = "does its listener ask for TLS or a login? --command-config and -X say how to connect"
_NO_CONTROLLER = (
    "no broker can change anything at present: if that lasts, look whether the brokers reach ZooKeeper (their logs say)"
)
_NO_LOGIN = "log in as a user (not by a token) to work with tokens: --command-config and -X say how"


class CommandFailed(LogbusError):
    """A command was refused or failed; the message is its line of error."""


def run(work: Callable[[Any], Coroutine[Deferred[Any], Any, T]]) -> T:
    """
    Run a coroutine on the reactor.

    SIGINT and SIGTERM cancel it, so that it ends in order; if it does not catch that, the process ends by the signal.

    :param work: called with the reactor.
    :returns: the coroutine's result.
    """
    from twisted.internet import reactor as installed

    reactor: Any = installed
    # Before any timer exists: a step of the wall clock must not affect timers.
    reactor.seconds = time.monotonic
    debug = bool(os.environ.get("LOGBUS_DEBUG"))
    globalLogBeginner.beginLoggingTo(
        [textFileLogObserver(sys.stderr)] if debug else [], redirectStandardIO=False, discardBuffer=not debug
    )
    results: list[T | Failure] = []
    signals: list[signal.Signals] = []

    def start() -> None:
        running = Deferred.fromCoroutine(work(reactor))

        def interrupt(number: int, frame: object) -> None:
            # The second signal does not wait for an orderly end.
            if signals:
                exit_by_signal(signal.Signals(number))
            signals.append(signal.Signals(number))
            reactor.callFromThread(running.cancel)

        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, interrupt)

        def ended(result: T | Failure) -> None:
            results.append(result)
            reactor.stop()

        running.addBoth(ended)

    reactor.callWhenRunning(start)
    reactor.run()
    result = results[0]
    if isinstance(result, Failure):
        if signals and _is_cancelled(result):
            exit_by_signal(signals[0])
        result.raiseException()
    assert not isinstance(result, Failure)
    return result


def _is_cancelled(failure: Failure) -> bool:
    """Whether work, or one of several things that went on side by side (``gatherResults``), was cancelled."""
    while isinstance(failure.value, FirstError):
        failure = failure.value.subFailure
    return failure.check(CancelledError) is not None


def with_cluster(bootstrap: str, timeout: float, work: Callable[[Cluster], Coroutine[Deferred[Any], Any, T]]) -> T:
    """
    Run a coroutine with a cluster, and close its connections afterwards.

    :param bootstrap: ``HOST:PORT``, or several, separated by commas.
    :param timeout: seconds to wait for a response.
    """
    security = client_security()

    async def session(reactor: Any) -> T:
        cluster = Cluster(
            reactor,
            bootstrap,
            client_id="logbus-cli",
            timeout=timeout,
            connect_timeout=min(timeout, 10.0),
            security=security,
        )
        try:
            return await work(cluster)
        except UnknownBroker as e:
            raise CommandFailed(str(e)) from None
        except NoBroker as e:
            hint = _OTHER_LISTENER if security is None else "is this the listener for this security.protocol?"
            if SPEAKS_HTTP in str(e):
                hint = "--bootstrap names the address for Kafka clients"
            raise CommandFailed(f"{e}; {hint}") from None
        except Unreachable as e:
            hint = "is a broker running there? 'logbus start' starts one; --bootstrap names another address"
            raise CommandFailed(f"{e}; {hint}") from None
        except ApiError as e:
            if not _hints([e]):
                raise
            raise CommandFailed(_with_hints([e])) from None
        except Disconnected as e:
            if isinstance(e, RequestTimedOut) or (security is not None and security.login is not None):
                raise
            raise CommandFailed(f"{str(e).removesuffix('.')}; {_OTHER_LISTENER}") from None
        finally:
            await cluster.close()

    return run(session)


def with_admin(bootstrap: str, timeout: float, work: Callable[[AdminClient], Awaitable[T]]) -> T:
    """Wait for an admin client's answer; see :func:`with_cluster`."""

    async def session(cluster: Cluster) -> T:
        return await work(AdminClient(cluster, timeout=timeout))

    return with_cluster(bootstrap, timeout, session)


def raise_errors(answers: Mapping[Any, ApiError | None]) -> None:
    """
    Report the errors among a command's results.

    :raises CommandFailed: there are errors.
    """
    errors = [error for error in answers.values() if error is not None]
    if errors:
        raise CommandFailed(_with_hints(errors))


def _with_hints(errors: Sequence[ApiError]) -> str:
    """Their messages, and what can be done."""
    said, hints = "; ".join(error.message for error in errors), _hints(errors)
    return f"{said.removesuffix('.')}; {hints}" if hints else said


def _hints(errors: Sequence[ApiError]) -> str:
    if any(error.code is ErrorCode.NOT_CONTROLLER for error in errors):
        # The client has asked several times.
        return _NO_CONTROLLER
    if any(error.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for error in errors):
        return _NO_LOGIN
    return missing_rights(errors)


def results(answers: Mapping[Any, T | ApiError]) -> list[T]:
    """
    Return a command's results.

    :raises CommandFailed: there are errors among them.
    """
    raise_errors({name: each if isinstance(each, ApiError) else None for name, each in answers.items()})
    return [each for each in answers.values() if not isinstance(each, ApiError)]


def without_error(answers: Mapping[Any, ApiError | None], code: ErrorCode) -> dict[Any, ApiError | None]:
    """Return the answers with errors of one kind counted as success, as for ``--if-exists``."""
    return {name: None if e is not None and e.code is code else e for name, e in answers.items()}
