"""
The brokers of which a backup is made: asks them for snapshots over HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

from attrs import define, field

from logbus.cli.admin_api import FAILURES, AdminApi
from logbus.cli.backup.backup_format import BackupError
from logbus.cli.rebalance_plan import machines

KEPT_SECONDS = 600
RENEWED_SECONDS = 60.0
READ_SECONDS = 30.0
"""To wait for what a broker knows; a snapshot may take longer."""
ASKED_AGAIN_SECONDS = 1.0
"""After which a broker is asked for a snapshot that was not made within its time for a request."""


@define(eq=False)
class BackupSource:
    """
    A broker, and the workers of its machine.

    :ivar snapshots: the directories of the snapshots that there are, by broker.
    """

    api: AdminApi
    snapshots: dict[int, list[str]] = field(factory=dict, init=False)
    pause: Callable[[float], object] = time.sleep
    _names: dict[int, str] = field(factory=dict, init=False)
    _renewed: float = field(default=0.0, init=False)

    def brokers(self) -> tuple[int, ...]:
        """
        Return the broker that answers, or the workers of its machine in their order.

        :raise BackupError: it does not answer.
        """
        answering = int(self._ask("GET", "/api/v1/cluster")["broker"])
        directories: dict[int, tuple[str, list[str]]] = {}
        for each in self._ask("GET", "/api/v1/brokers")["items"]:
            hosts = sorted(endpoint["host"] for endpoint in each["endpoints"].values())
            paths = self._ask("GET", f"/api/v1/brokers/{each['id']}/log-dirs")["items"]
            directories[each["id"]] = (",".join(hosts), [one["path"] for one in paths])
        return next((found for found in machines(directories) if answering in found), (answering,))

    @contextmanager
    def snapshots_of(self, brokers: tuple[int, ...]) -> Iterator[Mapping[int, list[str]]]:
        """
        Have brokers make snapshots, which are removed at the end.

        :raise BackupError: one cannot make any.
        """
        try:
            for broker in brokers:
                made = self._made(broker)
                self._names[broker], self.snapshots[broker] = made["name"], made["directories"]
            self._renewed = time.monotonic()
            yield self.snapshots
        finally:
            for broker, name in self._names.items():
                # It goes by itself after a while.
                with suppress(BackupError):
                    self._ask("DELETE", f"/api/v1/brokers/{broker}/snapshots/{name}")

    def keep(self) -> None:
        """
        Keep the snapshots for another while; to be called often.

        :raise BackupError: they are gone.
        """
        now = time.monotonic()
        if now - self._renewed >= RENEWED_SECONDS:
            self._renewed = now
            for broker, name in self._names.items():
                self._ask("PUT", f"/api/v1/brokers/{broker}/snapshots/{name}", {"kept_seconds": KEPT_SECONDS})

    def _made(self, broker: int) -> dict[str, Any]:
        """
        Have a broker make a snapshot. Its answer may be that the request took too long, while it goes on with its work.

        :raise BackupError: it cannot make any.
        """
        path, late = f"/api/v1/brokers/{broker}/snapshots", False
        while True:
            status, answer = self._answer("POST", path, {"kept_seconds": KEPT_SECONDS})
            late = late or status == HTTPStatus.GATEWAY_TIMEOUT
            if not (late and status in (HTTPStatus.GATEWAY_TIMEOUT, HTTPStatus.CONFLICT)):
                return self._checked(status, answer)
            # It is still being made, or is there, or could not be made: then the next request says why.
            if found := self._ask("GET", path)["items"]:
                made: dict[str, Any] = found[0]
                return made
            self.pause(ASKED_AGAIN_SECONDS)

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        return self._checked(*self._answer(method, path, body))

    def _answer(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        try:
            return self.api.ask(method, path, body, READ_SECONDS if method == "GET" else None)
        except FAILURES as e:
            raise BackupError(self.api.no_answer(e)) from None

    def _checked(self, status: int, answer: dict[str, Any]) -> dict[str, Any]:
        if status >= HTTPStatus.BAD_REQUEST:
            raise BackupError(self.api.refusal(status, answer))
        return answer
