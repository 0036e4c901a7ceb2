"""The requests and the hits of a broker in a process of its own, which tells its test of them."""

from __future__ import annotations

from collections.abc import Callable

from logbus.testing.control.channel_lines import ANSWER, COUNT, REQUEST, line_of
from logbus.testing.faults.rule_book import ActiveRule
from logbus.testing.requests.history import RequestHistory
from logbus.testing.requests.recorded import RecordedRequest, Subject


class ToldHistory(RequestHistory):
    """
    A history that is kept elsewhere.

    :param tell: sends a line.
    """

    def __init__(self, tell: Callable[[bytes], object], now: Callable[[], float]) -> None:
        super().__init__(now)
        self._tell = tell
        self._told = 0

    def add(
        self,
        api_key: int,
        version: int,
        client_id: str | None,
        connection: int,
        subjects: tuple[Subject, ...] = (),
        text: str = "",
        received: float | None = None,
    ) -> RecordedRequest:
        self._told += 1
        made = RecordedRequest(self._told, api_key, version, client_id, connection, self._now(), subjects, text)
        self._tell(
            line_of(
                REQUEST,
                number=made.number,
                api=api_key,
                version=version,
                client=client_id,
                connection=connection,
                at=made.received,
                subjects=subjects,
            )
        )
        return made

    def answered(
        self,
        request: RecordedRequest,
        codes: tuple[int, ...] = (),
        body: bytes | None = None,
        at: float | None = None,
    ) -> None:
        request.done(self._now(), codes, body)
        self._tell(line_of(ANSWER, number=request.number, at=request.answered, codes=request.codes))


def count_line(active: ActiveRule) -> bytes:
    """The line that says how often a rule has happened."""
    return line_of(COUNT, number=active.number, seen=active.seen, hits=active.hits)
