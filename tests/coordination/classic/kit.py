"""
A classic group with a manual clock and a fake log, for tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from attrs import define, evolve, field

from logbus.coordination.classic.classic_group import (
    ClassicGroup,
    ClassicGroupSettings,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from logbus.coordination.classic.response_queue import Stored
from logbus.coordination.group import Change
from logbus.errors import ApiError, ErrorCode
from logbus.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from logbus.wire.schema import encode_versioned


def subscription(*topics: str) -> bytes:
    """The metadata of a consumer of these topics."""
    return encode_versioned(ConsumerProtocolSubscription(topics=list(topics)), 1)


RANGE = (("range", subscription("orders")),)


def joining(member_id: str = "", instance_id: str | None = None, **changes: Any) -> JoinRequest:
    """A JoinGroup of version 3: one that needs no second."""
    given: dict[str, Any] = {
        "client_id": "app",
        "client_host": "/127.0.0.1",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": RANGE,
        "requires_known_member_id": False,
        **changes,
    }
    return JoinRequest(member_id, instance_id, **given)


@define(eq=False)
class Answer:
    """Hears a reply, and that there is one only."""

    results: list[Any] = field(factory=list)

    def __call__(self, result: Any) -> None:
        assert not self.results, f"answered twice: {self.results[0]}, {result}"
        self.results.append(result)

    @property
    def waits(self) -> bool:
        return not self.results

    @property
    def error(self) -> ErrorCode:
        return self.result.error

    @property
    def result(self) -> Any:
        assert self.results, "not answered"
        return self.results[0]


@define(eq=False)
class Bench:
    """
    :ivar now: seconds.
    :ivar log: the changes that were to be written.
    :ivar storing: what is to be told of those that are under way.
    :ivar holds: whether writes stay under way until :meth:`stored`.
    :ivar fails: what every write fails with.
    """

    settings: ClassicGroupSettings = field(factory=lambda: ClassicGroupSettings(initial_rebalance_delay_ms=0))
    now: float = 1000.0
    log: list[Change] = field(factory=list)
    storing: list[Stored] = field(factory=list)
    holds: bool = False
    fails: ApiError | None = None
    answers: list[Answer] = field(factory=list)
    group: ClassicGroup = field(init=False)
    _numbers: Any = field(factory=count)

    def __attrs_post_init__(self) -> None:
        self.group = ClassicGroup("g", *self._surroundings())

    def _surroundings(self) -> tuple[Any, ...]:
        return lambda: self.settings, self._save, self._member_id, self.now_ms, lambda: self.now

    def now_ms(self) -> int:
        return int(self.now * 1000) + 1_700_000_000_000

    def _member_id(self, name: str) -> str:
        return f"{name}-{next(self._numbers)}"

    def _save(self, change: Change, stored: Stored) -> None:
        if self.holds:
            self.log.append(change)
            self.storing.append(stored)
        elif self.fails is not None:
            stored(self.fails)
        else:
            self.log.append(change)
            stored(None)

    def stored(self, error: ApiError | None = None) -> None:
        """The oldest write that is under way is durable, or failed."""
        self.storing.pop(0)(error)

    def set(self, **changes: int) -> None:
        """Change the broker's settings."""
        self.settings = evolve(self.settings, **changes)

    def restart(self) -> None:
        """Another broker reads the last record back."""
        self.group = ClassicGroup("g", *self._surroundings())
        self.group.load(self.now, self.log[-1][1])

    # What members do.

    def join(self, member_id: str = "", instance_id: str | None = None, **changes: Any) -> Answer:
        answer = Answer()
        self.answers.append(answer)
        self.group.join(self.now, joining(member_id, instance_id, **changes), answer)
        return answer

    def sync(
        self,
        joined: JoinResult,
        assignments: Mapping[str, bytes] | None = None,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Answer:
        answer = Answer()
        self.answers.append(answer)
        request = SyncRequest(
            joined.member_id, instance_id, joined.generation, protocol_type, protocol, assignments or {}
        )
        self.group.sync(self.now, request, answer)
        return answer

    def beat(self, joined: JoinResult, instance_id: str | None = None) -> ErrorCode:
        return self.group.heartbeat(self.now, joined.member_id, instance_id, joined.generation)

    def leave(self, *member_ids: str) -> list[ErrorCode]:
        return self.group.leave(self.now, [LeavingMember(member_id) for member_id in member_ids])

    def advance(self, seconds: float) -> None:
        """Let time pass, with the one timer that the group asks for."""
        end = self.now + seconds
        steps = 0
        while (deadline := self.group.deadline) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.group.expire(self.now)
            steps += 1
            assert steps < 10_000, "the deadline does not move"
        self.now = end

    # Whole stories.

    def stable(self, members: int, **changes: Any) -> list[JoinResult]:
        """A stable group of so many, its leader first; each is assigned its own id."""
        first = self.join(**changes)
        joined = [first.result]
        others = [self.join(**changes) for _ in range(members - 1)]
        if others:
            joined = [self.join(joined[0].member_id, **changes).result] + [other.result for other in others]
        self.assign(joined)
        return joined

    def assign(self, joined: list[JoinResult]) -> list[SyncResult]:
        """All sync, the leader last."""
        ordered = sorted(joined, key=lambda one: one.leader == one.member_id)
        given = {one.member_id: one.member_id.encode() for one in joined}
        answers = [self.sync(one, given if one.leader == one.member_id else None) for one in ordered]
        return [answer.result for answer in answers]

    @property
    def state(self) -> str:
        return self.group.state_name

    @property
    def members(self) -> list[str]:
        return [member.member_id for member in self.group.describe().members]

    def record(self) -> Any:
        """The last record written."""
        return self.log[-1][1]
