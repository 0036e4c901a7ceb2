"""
Groups of member processes: who owns which partitions, and which records are processed.

Whatever a member is told comes with the time, so that it can be seen whether two of them ever owned one partition.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Mapping
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import Any

import attrs

from tests.interop.consumers import SECONDS, Place, Record, Settings
from tests.interop.member_process import live

# Members are forked from a process that has the libraries loaded and no threads: that takes milliseconds.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.interop.member_process"])


class MemberFailed(Exception):
    """A member, or what it was told to do, failed; the text is its traceback."""


@attrs.define(eq=False)
class Member:
    """
    A member as the test sees it.

    :ivar owned: the partitions it has, as far as it was told.
    :ivar records: what it has processed.
    :ivar news: when it was told what: "assigned" and "revoked" with partitions, "leaving", "closed", "killed", ...
    :ivar failure: why it ended by itself; None: it did not.
    """

    name: str
    process: Any
    pipe: Connection
    owned: frozenset[Place] = frozenset()
    records: list[Record] = attrs.Factory(list)
    news: list[tuple[float, str, Any]] = attrs.Factory(list)
    answers: list[tuple[str, Any]] = attrs.Factory(list)
    failure: str | None = None
    running: bool = True

    def hear(self) -> None:
        """Take in one thing that it sent."""
        try:
            word, at, what = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.running = False
            return
        if word == "records":
            self.records += what
        elif word in ("answer", "refused"):
            self.answers.append((word, what))
        else:
            self.news.append((at, word, what))
        if word == "assigned":
            self.owned |= what
        elif word == "revoked":
            self.owned -= what
        elif word == "leaving":
            self.owned = frozenset()
        elif word == "failed":
            self.failure, self.owned = what, frozenset()

    def rebalances(self) -> int:
        """How often it was assigned or lost a partition so far."""
        return sum(bool(what) for _, word, what in self.news if word in ("assigned", "revoked"))

    def __str__(self) -> str:
        said = [f"{word} {sorted(what)}" if isinstance(what, frozenset) else word for _, word, what in self.news]
        told = f"{self.name}: owns {sorted(self.owned)}, processed {len(self.records)}, heard {said[-8:]}"
        return told if self.failure is None else f"{told}\n{self.failure}"


class Group:
    """The members of one group that a test runs; at the end all are gone."""

    def __init__(self, bootstrap: str, group_id: str, topics: Iterable[str]) -> None:
        self.settings = Settings(bootstrap, group_id, tuple(topics))
        self.members: list[Member] = []

    def join(self, kind: str, *, commits: bool = True, **settings: Any) -> Member:
        """Start one more member, and return at once."""
        ours, its = _CONTEXT.Pipe()
        told = attrs.evolve(self.settings, **settings)
        process = _CONTEXT.Process(target=live, args=(its, kind, told, commits), daemon=True)
        process.start()
        its.close()
        self.members.append(Member(f"{kind}-{len(self.members)}", process, ours))
        return self.members[-1]

    @property
    def live(self) -> list[Member]:
        """Those who run."""
        return [member for member in self.members if member.running]

    def until(self, condition: Callable[[], bool], what: str, seconds: float = SECONDS, *, fails: bool = False) -> None:
        """
        Listen to the members until something is so.

        :param fails: a member may fail meanwhile.
        :raise AssertionError: it was not so in time; the text says how things stood.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            left = deadline - time.monotonic()
            failed = [] if fails else [member for member in self.members if member.failure]
            if left <= 0 or failed:
                stood = "\n".join(map(str, self.members))
                raise AssertionError(f"{'not ' + what + f' after {seconds:g} s' if left <= 0 else 'failed'}:\n{stood}")
            for pipe in connection.wait([member.pipe for member in self.live], left):
                next(member for member in self.members if member.pipe is pipe).hear()

    def until_balanced(self, places: Iterable[Place], seconds: float = SECONDS) -> None:
        """Wait until each partition is owned by exactly one member, and each member owns one."""
        wanted = sorted(places)

        def balanced() -> bool:
            owned = [member.owned for member in self.live]
            return all(owned) and sorted(place for each in owned for place in each) == wanted

        self.until(balanced, f"balanced over {wanted}", seconds)

    def until_processing(self, count: int, seconds: float = SECONDS) -> None:
        """Wait until more than so many messages were processed."""
        self.until(lambda: sum(len(member.records) for member in self.members) > count, "at work", seconds)

    def until_processed(self, values: Iterable[bytes], seconds: float = SECONDS) -> None:
        """Wait until each value was processed by somebody, at least once."""
        wanted = set(values)

        def missing() -> set[bytes]:
            return wanted - {record.value for member in self.members for record in member.records}

        self.until(lambda: not missing(), f"processed all of {len(wanted)}", seconds)

    def until_committed(self, offsets: Mapping[Place, int], seconds: float = SECONDS) -> None:
        """Wait until the group has committed exactly these offsets, as a member sees them."""
        [asked, *_] = self.live

        def committed() -> dict[Place, int | None]:
            found = {place: self.call(asked, "committed", place) for place in offsets}
            return {place: held and held[0] for place, held in found.items()}

        seen: dict[Place, int | None] = {}

        def reached() -> bool:
            seen.update(committed())
            return seen == offsets

        deadline = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < deadline, f"committed {seen} rather than {offsets}"

    def call(self, member: Member, name: str, *arguments: Any) -> Any:
        """
        Have a member call a method of its consumer.

        :raise MemberFailed: it raised.
        """
        member.pipe.send((name, arguments))
        self.until(lambda: bool(member.answers) or not member.running, f"done: {name}{arguments}")
        word, found = member.answers.pop()
        if word == "refused":
            raise MemberFailed(found)
        return found

    def close(self, *members: Member) -> float:
        """
        Have members leave, all at once.

        :return: the seconds the slowest took.
        """
        for member in members:
            member.pipe.send(("close", ()))
        self.until(lambda: not any(member.running for member in members), "closed")
        for member in members:
            member.process.join(SECONDS)
        took = [[at for at, word, _ in member.news if word in ("leaving", "closed")] for member in members]
        return max(closed - leaving for leaving, closed in took)

    def kill(self, member: Member) -> None:
        """End a member as a crash does."""
        member.process.kill()
        member.process.join()
        self.until(lambda: not member.running, "dead")
        member.news.append((time.monotonic(), "killed", None))
        member.owned = frozenset()

    def assert_never_shared(self) -> None:
        """No two members ever owned one partition at the same time."""
        owners: dict[Place, Member] = {}
        news = [(at, word, what, member) for member in self.members for at, word, what in member.news]
        for _, word, what, member in sorted(news, key=lambda each: each[0]):
            if word == "assigned":
                for place in what:
                    owner = owners.setdefault(place, member)
                    assert owner is member, f"{place} was {owner}'s when it was given to {member}"
            else:
                gone = what if word == "revoked" else [place for place, owner in owners.items() if owner is member]
                if word != "not committed":
                    for place in gone:
                        owners.pop(place, None)

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.process.kill()
            member.process.join()
            member.pipe.close()
