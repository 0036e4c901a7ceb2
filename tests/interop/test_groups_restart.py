"""Restarts the broker while a group works: nothing is lost, and commits stay exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from logbus.testing import Broker
from tests.interop.conftest import QUICK_GROUPS, MakeBroker
from tests.interop.consumers import LIBRARIES
from tests.interop.group_workload import PARTITIONS, places_of, produce
from tests.interop.member_groups import Group
from tests.interop.test_offsets import create
from tests.interop.test_restart import STOPS

pytestmark = pytest.mark.long

#: Longer than any restart takes: no member is missed.
SESSION_MS = 30_000

#: Seconds for the rest of the work: who loses its id in the middle of a rebalance is waited for as long as a session.
PATIENCE = 40


@pytest.fixture(params=STOPS)
def stop(request: pytest.FixtureRequest) -> Callable[[Broker], None]:
    """Each way of ending a broker in turn."""
    return STOPS[request.param]


@pytest.fixture
def start_groups() -> Iterator[Callable[[Broker], dict[str, Group]]]:
    """Start a group of each library, with a topic of its own, both named after it."""
    with ExitStack() as stack:

        def start(broker: Broker) -> dict[str, Group]:
            for kind in LIBRARIES:
                create(broker, kind, PARTITIONS)
            return {kind: stack.enter_context(Group(broker.bootstrap, f"group-{kind}", [kind])) for kind in LIBRARIES}

        yield start


StartGroups = Callable[[Broker], dict[str, Group]]


def test_restart_in_the_middle(
    make_broker: MakeBroker, start_groups: StartGroups, stop: Callable[[Broker], None]
) -> None:
    """Groups of every library go on with their members; who comes later begins where they ended."""
    broker = make_broker(QUICK_GROUPS)
    groups = start_groups(broker)
    values = {kind: produce(broker, "before", kind, each=200) for kind in groups}
    for kind, group in groups.items():
        group.join(kind), group.join(kind)
    for group in groups.values():
        group.until_processing(100)
    stop(broker)
    broker.start()
    for kind, known in values.items():
        known |= produce(broker, "after", kind)
    for kind, group in groups.items():
        group.until_processed(values[kind], PATIENCE)
        group.until_balanced(places_of(kind))
        group.until_committed(dict.fromkeys(places_of(kind), 210))
        group.close(*group.members)
    for kind, group in groups.items():
        late = produce(broker, "late", kind)
        third = group.join(kind)
        group.until_processed(late)
        assert {record.value for record in third.records} == late


def test_members_outlive_the_broker(
    make_broker: MakeBroker, start_groups: StartGroups, stop: Callable[[Broker], None]
) -> None:
    """A restart shorter than a session is none to a group: each member keeps its partitions, without a rebalance."""
    broker = make_broker(QUICK_GROUPS)
    groups = start_groups(broker)
    for kind, group in groups.items():
        group.join(kind, session_timeout_ms=SESSION_MS), group.join(kind, session_timeout_ms=SESSION_MS)
    for kind, group in groups.items():
        group.until_balanced(places_of(kind))
    before = {kind: [(member.owned, member.rebalances()) for member in groups[kind].live] for kind in groups}
    stop(broker)
    broker.start()
    for kind, group in groups.items():
        group.until_processed(produce(broker, "after", kind))
        group.until_committed(dict.fromkeys(places_of(kind), 10))
        for member in group.live:
            assert [group.call(member, "position", place) for place in member.owned] == [10] * len(member.owned)
        assert [(member.owned, member.rebalances()) for member in group.live] == before[kind]
