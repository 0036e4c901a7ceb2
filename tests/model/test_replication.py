"""
The rules of replication hold, within bounds; without any one of them a committed record is lost.

``pytest -s tests/model`` shows the shortest way to each loss. ``LOGBUS_HYPOTHESIS_PROFILE=long`` searches further.
"""

from __future__ import annotations

import os

import pytest

from tests.model.explorer import Found, explore
from tests.model.partition import Partition
from tests.model.rules import Rules, Scope
from tests.model.symmetry import canonical

LONG = os.environ.get("LOGBUS_HYPOTHESIS_PROFILE") == "long"

SCOPES = {
    "three epochs": Scope(records=2, prompt=True),
    "late messages": Scope(records=1, delayed=1, prompt=True),
    "changes of the ISR": Scope(records=1, epochs=2, asked=1, lossy=True, prompt=True),
    "two requests to the controller": Scope(records=2, epochs=1, asked=2, lossy=True),
    "killed processes": Scope(records=1, epochs=2, kills=2, prompt=True),
    "a power cut": Scope(records=1, cuts=1, prompt=True),
    "a power cut while the ISR changes": Scope(records=1, replicas=2, asked=1, cuts=1),
    "a disk that lies": Scope(records=1, lies=1, prompt=True),
    "a disk that lies, all killed": Scope(records=1, epochs=3, replicas=2, kills=1, lies=1, flush=True),
    "power cuts of all, with flush before ack": Scope(records=2, epochs=2, replicas=2, cuts=2, flush=True),
    "a minimum of one, with flush before ack": Scope(
        records=1, epochs=2, replicas=2, minimum=1, asked=1, cuts=1, flush=True
    ),
}
FURTHER = {
    "three epochs, three records": Scope(),
    "late messages, two records": Scope(records=2, epochs=2, delayed=1),
    "changes of the ISR, two records": Scope(records=2, epochs=2, asked=1),
    "changes of the ISR, three epochs": Scope(records=1, asked=1),
    "late messages while the ISR changes": Scope(records=1, epochs=2, asked=1, delayed=1, prompt=True),
    "a power cut while the ISR of three changes": Scope(records=1, epochs=2, asked=1, cuts=1, prompt=True),
    "power cuts of three, with flush before ack": Scope(records=1, epochs=2, cuts=3, flush=True, prompt=True),
}

ABLATIONS: dict[str, tuple[Scope, str]] = {
    # Leader epochs
    "epoch_stamped": (SCOPES["three epochs"], "is committed"),
    # Fetches
    "divergence_found": (SCOPES["three epochs"], "is committed"),
    "current_epoch_checked": (SCOPES["late messages"], "is committed"),
    # Truncation
    "cut_by_divergence": (Scope(records=1), "is committed"),
    "divergence_kept divergence_by_epoch": (Scope(prompt=True), "differ"),  # KIP-101 alone
    "divergence_kept current_epoch_checked": (SCOPES["three epochs"], ""),  # KIP-279 alone
    "answers_checked": (SCOPES["late messages"], ""),
    # The maximal ISR
    "maximal_isr": (SCOPES["changes of the ISR"], "is committed"),
    "unknown_kept": (SCOPES["changes of the ISR"], "is committed"),
    # Replicas that join the ISR
    "join_at_high_watermark": (SCOPES["changes of the ISR"], "is committed"),
    "join_at_epoch_start": (SCOPES["changes of the ISR"], "is committed"),
    "compare_and_set": (SCOPES["changes of the ISR"], "is committed"),
    "lives_compared": (SCOPES["a power cut while the ISR changes"], "is committed"),
    # The minimum
    "strict_minimum": (SCOPES["changes of the ISR"], "is committed"),
    # Replicas that may lead
    "eligible_kept": (SCOPES["a power cut"], "is committed"),
    "eligible_cleared": (SCOPES["changes of the ISR"], "is committed"),
    "unclean_not_electable": (SCOPES["a disk that lies"], "committed"),
    "longest_elected": (SCOPES["a disk that lies, all killed"], "is committed"),
    "synced_fetched": (SCOPES["a minimum of one, with flush before ack"], "is committed"),
    "leader_synced": (SCOPES["a minimum of one, with flush before ack"], "is committed"),
    # Fencing
    "restart_renews_epoch": (Scope(records=2, epochs=2, cuts=1, prompt=True), "differ"),
    "old_announcements_refused": (Scope(records=1), ""),
    "controller_fenced": (Scope(records=1), ""),
}


def search(rules: Rules, scope: Scope) -> Found:
    """See all there is."""
    partition = Partition(rules, scope)
    return explore(partition.start(), partition.steps, canonical)


@pytest.mark.parametrize("name", [*SCOPES, *(FURTHER if LONG else ())])
def test_the_rules_hold(name: str) -> None:
    """What is committed is in every log that may lead, and logs agree below what they share, in every state."""
    found = search(Rules(), (SCOPES | FURTHER)[name])
    print(f"\n{name}: {found}")
    assert not found.problem, str(found)
    assert found.states > 1000


@pytest.mark.parametrize("names", ABLATIONS)
def test_each_rule_is_needed(names: str) -> None:
    """Without the rule the search finds a loss."""
    scope, said = ABLATIONS[names]
    found = search(Rules(**dict.fromkeys(names.split(), False)), scope)
    print(f"\nwithout {names}: {found}")
    assert found.problem
    assert said in found.problem


def test_the_high_watermark_may_move_below_the_start_of_an_epoch() -> None:
    """That it does not is a promise to readers, who would see it go back: nothing is lost by it."""
    assert not search(Rules(epoch_start_covered=False), SCOPES["changes of the ISR"]).problem


def test_without_rule_8_one_absent_follower_ends_all_progress() -> None:
    """Nothing is lost when the slow stay in the ISR, but nothing more is committed either."""
    scope = Scope(records=1, epochs=1, asked=1)
    assert commits_without_replica(2, Rules(), scope)
    assert not commits_without_replica(2, Rules(slow_leave=False), scope)


def commits_without_replica(absent: int, rules: Rules, scope: Scope) -> bool:
    """Whether a record is ever committed that this replica does not have."""
    partition = Partition(rules, scope)
    seen, reached = {partition.start()}, [partition.start()]
    for state in reached:  # grows while it is read
        if state.committed and not state.replicas[absent].log:
            return True
        for _, after in partition.steps(state):
            assert not isinstance(after, Exception)
            if after not in seen:
                seen.add(after)
                reached.append(after)
    return False
