"""Schedules of faults: data, drawn from a seed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

from attrs import frozen

Arguments: TypeAlias = dict[str, Any]

MODES = ("lose", "lose", "tear", "reorder", "keep")
FLAPS = ("expire", "kill", "isolate", "power-cut")
DAY = 86_400.0


@frozen
class Fault:
    """
    A fault.

    :ivar at: seconds after the clients began; ``kind``: a key of :data:`ALL_KINDS`; ``args``: of that kind.
    """

    at: float
    kind: str
    args: Arguments

    def as_json(self) -> list[Any]:
        """For a file, or a command line."""
        return [self.at, self.kind, self.args]


def fault_from_json(value: Any, brokers: int) -> Fault:
    """
    Read what :meth:`Fault.as_json` made.

    :param brokers: their number; ids count from 1.
    :raise ValueError: it is not a fault.
    """
    try:
        at, kind, args = value
        fault = Fault(float(at), kind, dict(args))
        _, least, draw = ALL_KINDS[kind]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f'{value!r} is not a fault such as [12.5, "kill", {{"broker": 1, "down": 3}}]') from None
    wanted = sorted(draw(Random(0), range(1, max(least, brokers) + 1)))
    if sorted(fault.args) != wanted:
        raise ValueError(f"{kind} takes {', '.join(wanted)}, not {', '.join(sorted(fault.args)) or 'nothing'}")
    named = [fault.args[name] for name in ("broker", "from", "to") if fault.args.get(name) is not None]
    if not all(isinstance(each, int) and 1 <= each <= brokers for each in named):
        raise ValueError(f"{value!r}: brokers are numbered from 1 to {brokers}")
    return fault


def _seconds(random: Random, least: float, most: float) -> float:
    seconds: float = least * (most / least) ** random.random()
    return round(seconds, 3)


def _kill(random: Random, brokers: Sequence[int]) -> Arguments:
    return {"broker": random.choice(brokers), "down": _seconds(random, 0.05, 20)}


def _kill_at_step(random: Random, brokers: Sequence[int]) -> Arguments:
    return {**_kill(random, brokers), "steps": random.randrange(40)}


def _power_cut(random: Random, brokers: Sequence[int]) -> Arguments:
    return {**_kill(random, brokers), "mode": random.choice(MODES)}


def _power_cut_at_step(random: Random, brokers: Sequence[int]) -> Arguments:
    return {**_power_cut(random, brokers), "steps": random.randrange(40)}


def _blackout(random: Random, brokers: Sequence[int]) -> Arguments:
    order = list(brokers)
    random.shuffle(order)
    return {
        "mode": random.choice(MODES),
        "down": [[each, _seconds(random, 0.05, 20)] for each in order],
    }


def _kill_all(random: Random, brokers: Sequence[int]) -> Arguments:
    return {"down": _blackout(random, brokers)["down"]}


def _lying_disk(random: Random, brokers: Sequence[int]) -> Arguments:
    # Mostly back before anybody misses it.
    return {"broker": random.choice(brokers), "down": _seconds(random, 0.05, 5), "share": round(random.random(), 3)}


def _bit_flip(random: Random, brokers: Sequence[int]) -> Arguments:
    # Where: as a share of the bytes that may be hit.
    return {"broker": random.choice(brokers), "at": round(random.random(), 6), "bit": random.randrange(8)}


def _of_one(least: float, most: float) -> Callable[[Random, Sequence[int]], Arguments]:
    def draw(random: Random, brokers: Sequence[int]) -> Arguments:
        return {"broker": random.choice(brokers), "seconds": _seconds(random, least, most)}

    return draw


def _pair(random: Random, brokers: Sequence[int]) -> Arguments:
    one, other = random.sample(list(brokers), 2)
    return {"from": one, "to": other, "seconds": _seconds(random, 0.2, 40)}


def _slow_link(random: Random, brokers: Sequence[int]) -> Arguments:
    return {**_pair(random, brokers), "latency": _seconds(random, 0.01, 2)}


def _broker(random: Random, brokers: Sequence[int]) -> Arguments:
    return {"broker": random.choice(brokers)}


def _slow_sync(random: Random, brokers: Sequence[int]) -> Arguments:
    return {**_of_one(1, 20)(random, brokers), "latency": _seconds(random, 0.02, 2)}


def _disk_error(random: Random, brokers: Sequence[int]) -> Arguments:
    return {"broker": random.choice(brokers), "op": random.choice(["write", "sync"]), "down": _seconds(random, 1, 20)}


def _store_cut(random: Random, brokers: Sequence[int]) -> Arguments:
    return {**_of_one(0.1, 20)(random, brokers), "noticed": random.random() < 0.5}


def _of_the_store(least: float, most: float) -> Callable[[Random, Sequence[int]], Arguments]:
    return lambda random, brokers: {"seconds": _seconds(random, least, most)}


def _slow_store(random: Random, brokers: Sequence[int]) -> Arguments:
    return {"seconds": _seconds(random, 1, 20), "latency": _seconds(random, 0.01, 3)}


def _clock_jump(random: Random, brokers: Sequence[int]) -> Arguments:
    by = random.choice([DAY, -DAY, round(random.uniform(-DAY, DAY), 3), round(random.uniform(-30, 30), 3)])
    return {"broker": random.choice([*brokers, None]), "by": by}


def _elect(random: Random, brokers: Sequence[int]) -> Arguments:
    return {}


def _reassign(random: Random, brokers: Sequence[int]) -> Arguments:
    return {"order": random.sample(list(brokers), len(brokers))}


def _configure(random: Random, brokers: Sequence[int]) -> Arguments:
    return {"name": "segment.bytes", "value": str(random.choice([2048, 4096, 16384]))}


def _topic(random: Random, brokers: Sequence[int]) -> Arguments:
    return {"name": f"passing-{random.randrange(1 << 32)}", "seconds": _seconds(random, 0.1, 20)}


def _flap(random: Random, brokers: Sequence[int]) -> Arguments:
    return {"times": random.randrange(2, 6), "seconds": _seconds(random, 0.3, 5), "how": random.choice(FLAPS)}


def _islands(random: Random, brokers: Sequence[int]) -> Arguments:
    how = random.choice(("expire", "kill", "power-cut"))
    return {"seconds": _seconds(random, 3, 40), "times": random.randrange(1, 4), "how": how}


def _kill_coordinator(random: Random, brokers: Sequence[int]) -> Arguments:
    # At a step of its disk: between the decision, the markers, and the end.
    return {"number": random.randrange(2), "down": _seconds(random, 0.05, 20), "steps": random.randrange(12)}


def _power_cut_coordinator(random: Random, brokers: Sequence[int]) -> Arguments:
    return {**_kill_coordinator(random, brokers), "mode": random.choice(MODES)}


def _kill_participant(random: Random, brokers: Sequence[int]) -> Arguments:
    return {"number": random.randrange(100), "down": _seconds(random, 5, 30)}


def _kill_client(random: Random, brokers: Sequence[int]) -> Arguments:
    return {"number": random.randrange(100), "down": _seconds(random, 0.05, 20)}


Draw: TypeAlias = Callable[[Random, Sequence[int]], Arguments]

KINDS: dict[str, tuple[float, int, Draw]] = {
    # How often, at how many brokers or more, and what with.
    "kill": (2, 1, _kill),
    "kill-at-step": (2, 1, _kill_at_step),
    "kill-all": (0.5, 2, _kill_all),
    "power-cut": (2, 1, _power_cut),
    "power-cut-at-step": (2, 1, _power_cut_at_step),
    "blackout": (0.5, 2, _blackout),
    "restart": (1, 1, _broker),
    "freeze": (2, 1, _of_one(0.2, 30)),
    "cut": (1.5, 2, _pair),
    "one-way-cut": (1.5, 2, _pair),
    "isolate": (1.5, 2, _of_one(0.2, 30)),
    "cut-off": (1, 1, _of_one(0.2, 30)),
    "slow-link": (1, 2, _slow_link),
    "reset": (1, 1, _broker),
    "slow-sync": (1, 1, _slow_sync),
    "disk-error": (1, 1, _disk_error),
    "no-space": (1, 1, _of_one(0.2, 10)),
    "store-cut": (1.5, 1, _store_cut),
    "store-outage": (0.7, 1, _of_the_store(0.5, 30)),
    "slow-store": (0.7, 1, _slow_store),
    "expire": (1, 1, _broker),
    "clock-jump": (1, 1, _clock_jump),
    "flap": (1.5, 2, _flap),
    "islands": (1.5, 2, _islands),
    "elect": (1, 2, _elect),
    "reassign": (1, 2, _reassign),
    "configure": (0.3, 1, _configure),
    "topic": (0.5, 1, _topic),
    "lying-disk": (1, 2, _lying_disk),
    "bit-flip": (1.5, 2, _bit_flip),
}
"""All kinds of faults of brokers, links and disks, for any workload."""

TRANSACTION_KINDS: dict[str, tuple[float, int, Draw]] = {
    "kill-coordinator": (3, 1, _kill_coordinator),
    "power-cut-coordinator": (2, 1, _power_cut_coordinator),
    "kill-participant": (1.5, 1, _kill_participant),
    "kill-client": (3, 1, _kill_client),
    "lose-answers": (2, 1, _of_one(0.2, 20)),
}
"""Kinds of faults of transactions' participants."""

ALL_KINDS = {**KINDS, **TRANSACTION_KINDS}


def draw_schedule(
    random: Random, brokers: Sequence[int], seconds: float, kinds: Sequence[str], between: float
) -> list[Fault]:
    """
    Draw faults over a time.

    :param kinds: those to choose from.
    :param between: seconds from one to the next, on average.
    """
    possible = [kind for kind in ALL_KINDS if kind in kinds and ALL_KINDS[kind][1] <= len(brokers)]
    weights = [ALL_KINDS[kind][0] for kind in possible]
    faults: list[Fault] = []
    at = random.uniform(0.5, between)
    while possible and at < seconds:
        kind = random.choices(possible, weights)[0]
        faults.append(Fault(round(at, 3), kind, ALL_KINDS[kind][2](random, brokers)))
        at += random.expovariate(1 / between)
    return faults
