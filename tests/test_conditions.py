"""Tests of :mod:`logbus.conditions`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logbus.conditions import (
    KINDS,
    LOG_DIRECTORY_FULL,
    MAX_SUBJECTS,
    OTHERS,
    REACTOR_LATE,
    Condition,
    ConditionKind,
    Conditions,
    Finding,
    Severity,
)

SUBJECTS = st.sampled_from("abcde")
LOOKS = st.lists(st.tuples(st.sampled_from([LOG_DIRECTORY_FULL, REACTOR_LATE]), st.dictionaries(SUBJECTS, st.text())))


@given(LOOKS)
def test_each_begins_and_ends_once(looks: list[tuple[ConditionKind, dict[str, str]]]) -> None:
    """What begins and ends is what differs between looks; it holds since the look that it began with."""
    conditions = Conditions()
    since: dict[tuple[str, str], float] = {}
    for now, (kind, found) in enumerate(looks):
        before = {subject for name, subject in since if name == kind.name}
        changes = conditions.found(kind, [Finding(*each) for each in found.items()], now)
        assert {each.subject for each in changes.began} == found.keys() - before
        assert {each.subject for each in changes.ended} == before - found.keys()
        since = {key: at for key, at in since.items() if key[0] != kind.name or key[1] in found}
        for subject in found:
            since.setdefault((kind.name, subject), now)
        assert {each.key: each.since for each in conditions} == since
        assert {each.subject: each.message for each in conditions if each.kind is kind} == found
        assert sum(conditions.counts().values()) == len(since)


def test_bounded() -> None:
    """Of ten thousand directories a hundred are told, and how many there are besides; later looks agree."""
    conditions = Conditions()
    findings = [Finding(f"/{number:05}", "full") for number in range(10_000)]
    for now in (1, 2):
        changes = conditions.found(LOG_DIRECTORY_FULL, findings, now)
        assert len(changes.began) == (MAX_SUBJECTS + 1 if now == 1 else 0)
        assert len(list(conditions)) == MAX_SUBJECTS + 1
        [others] = [each for each in conditions if each.subject == OTHERS]
        assert others.message == "9900 more, which are not told one by one"
    assert len(conditions.found(LOG_DIRECTORY_FULL, [], 3).ended) == MAX_SUBJECTS + 1
    assert list(conditions) == []


def test_the_worst_first() -> None:
    """Critical ones come before warnings, and the oldest first."""
    conditions = Conditions()
    conditions.found(REACTOR_LATE, [Finding("r", "late")], 1)
    conditions.found(LOG_DIRECTORY_FULL, [Finding("b", "full")], 2)
    conditions.found(LOG_DIRECTORY_FULL, [Finding("b", "full"), Finding("a", "full")], 3)
    assert [each.subject for each in conditions] == ["b", "a", "r"]


def test_kinds() -> None:
    """Each says what it means and what to do, in sentences."""
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    for kind in KINDS:
        assert kind.summary.endswith(".")
        assert kind.advice.endswith(".")
        assert isinstance(kind.severity, Severity)
        assert Condition(kind, "s", "m", 0.0, "a").key == (kind.name, "s")
