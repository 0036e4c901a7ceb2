"""Schedules of faults: data, drawn from a seed. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

from attrs import frozen

Arguments: TypeAlias = dict[str, Any]

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


def schedule_from_json(text: str, brokers: int) -> list[Fault]:
    """
    Read a list of faults.

    :param text: JSON; or ``@`` and the name of a file with it.
    :raise ValueError: it is none.
    """
    if text.startswith("@"):
        with open(text[1:], encoding="utf-8") as file:
            text = file.read()
    try:
        values = json.loads(text)
    except ValueError as e:
        raise ValueError(f"it is neither JSON nor @ and the name of a file with it: {e}") from None
    if not isinstance(values, list):
        raise ValueError("it is not a list of faults")
    return [fault_from_json(value, brokers) for value in values]


Draw: TypeAlias = Callable[[Random, Sequence[int]], Any]
"""Draws a value; the second argument is the ids of the brokers."""


def _arguments(**draws: Draw) -> Draw:
    return lambda random, brokers: {name: draw(random, brokers) for name, draw in draws.items()}


def _seconds(least: float, most: float) -> Draw:
    return lambda random, brokers: round(least * (most / least) ** random.random(), 3)


def _choice(*values: str) -> Draw:
    return lambda random, brokers: random.choice(values)


def _below(end: int, least: int = 0) -> Draw:
    return lambda random, brokers: random.randrange(least, end)


def _share(digits: int) -> Draw:
    return lambda random, brokers: round(random.random(), digits)


def _broker(random: Random, brokers: Sequence[int]) -> int:
    return random.choice(brokers)


def _of_one(least: float, most: float, **more: Draw) -> Draw:
    return _arguments(broker=_broker, seconds=_seconds(least, most), **more)


_DOWN = _seconds(0.05, 20)
_MODE = _choice("lose", "lose", "tear", "reorder", "keep")
_KILL: dict[str, Draw] = {"broker": _broker, "down": _DOWN}
# At a step of its disk: between the decision, the markers, and the end.
_KILL_COORDINATOR: dict[str, Draw] = {"number": _below(2), "down": _DOWN, "steps": _below(12)}


def _blackout(random: Random, brokers: Sequence[int]) -> Arguments:
    order = list(brokers)
    random.shuffle(order)
    return {"mode": _MODE(random, brokers), "down": [[each, _DOWN(random, brokers)] for each in order]}


def _kill_all(random: Random, brokers: Sequence[int]) -> Arguments:
    return {"down": _blackout(random, brokers)["down"]}


def _pair(random: Random, brokers: Sequence[int]) -> Arguments:
    one, other = random.sample(list(brokers), 2)
    return {"from": one, "to": other, "seconds": _seconds(0.2, 40)(random, brokers)}


def _slow_link(random: Random, brokers: Sequence[int]) -> Arguments:
    return {**_pair(random, brokers), "latency": _seconds(0.01, 2)(random, brokers)}


def _clock_jump(random: Random, brokers: Sequence[int]) -> Arguments:
    by = random.choice([DAY, -DAY, round(random.uniform(-DAY, DAY), 3), round(random.uniform(-30, 30), 3)])
    return {"broker": random.choice([*brokers, None]), "by": by}


def _islands(random: Random, brokers: Sequence[int]) -> Arguments:
    how = random.choice(("expire", "kill", "power-cut"))
    return {"seconds": _seconds(3, 40)(random, brokers), "times": random.randrange(1, 4), "how": how}


def _order(random: Random, brokers: Sequence[int]) -> list[int]:
    return random.sample(list(brokers), len(brokers))


KINDS: dict[str, tuple[float, int, Draw]] = {
    # How often, at how many brokers or more, and what with.
    "kill": (2, 1, _arguments(**_KILL)),
    "kill-at-step": (2, 1, _arguments(**_KILL, steps=_below(40))),
    "kill-all": (0.5, 2, _kill_all),
    "power-cut": (2, 1, _arguments(**_KILL, mode=_MODE)),
    "power-cut-at-step": (2, 1, _arguments(**_KILL, mode=_MODE, steps=_below(40))),
    "blackout": (0.5, 2, _blackout),
    "restart": (1, 1, _arguments(broker=_broker)),
    "freeze": (2, 1, _of_one(0.2, 30)),
    "cut": (1.5, 2, _pair),
    "one-way-cut": (1.5, 2, _pair),
    "isolate": (1.5, 2, _of_one(0.2, 30)),
    "cut-off": (1, 1, _of_one(0.2, 30)),
    "slow-link": (1, 2, _slow_link),
    "reset": (1, 1, _arguments(broker=_broker)),
    "slow-sync": (1, 1, _of_one(1, 20, latency=_seconds(0.02, 2))),
    "disk-error": (1, 1, _arguments(broker=_broker, op=_choice("write", "sync"), down=_seconds(1, 20))),
    "no-space": (1, 1, _of_one(0.2, 10)),
    "store-cut": (1.5, 1, _of_one(0.1, 20, noticed=lambda random, brokers: random.random() < 0.5)),
    "store-outage": (0.7, 1, _arguments(seconds=_seconds(0.5, 30))),
    "slow-store": (0.7, 1, _arguments(seconds=_seconds(1, 20), latency=_seconds(0.01, 3))),
    "expire": (1, 1, _arguments(broker=_broker)),
    "clock-jump": (1, 1, _clock_jump),
    "flap": (
        1.5,
        2,
        _arguments(times=_below(6, 2), seconds=_seconds(0.3, 5), how=_choice("expire", "kill", "isolate", "power-cut")),
    ),
    "islands": (1.5, 2, _islands),
    "elect": (1, 2, _arguments()),
    "reassign": (1, 2, _arguments(order=_order)),
    "configure": (0.3, 1, _arguments(name=lambda *_: "segment.bytes", value=_choice("2048", "4096", "16384"))),
    "topic": (
        0.5,
        1,
        _arguments(name=lambda random, _: f"passing-{random.randrange(1 << 32)}", seconds=_seconds(0.1, 20)),
    ),
    # Mostly back before anybody misses it.
    "lying-disk": (1, 2, _arguments(broker=_broker, down=_seconds(0.05, 5), share=_share(3))),
    # Where: as a share of the bytes that may be hit.
    "bit-flip": (1.5, 2, _arguments(broker=_broker, at=_share(6), bit=_below(8))),
}
"""All kinds of faults of brokers, links and disks, for any workload."""

TRANSACTION_KINDS: dict[str, tuple[float, int, Draw]] = {
    "kill-coordinator": (3, 1, _arguments(**_KILL_COORDINATOR)),
    "power-cut-coordinator": (2, 1, _arguments(**_KILL_COORDINATOR, mode=_MODE)),
    "kill-participant": (1.5, 1, _arguments(number=_below(100), down=_seconds(5, 30))),
    "kill-client": (3, 1, _arguments(number=_below(100), down=_DOWN)),
    "lose-answers": (2, 1, _of_one(0.2, 20)),
}
"""Kinds of faults of transactions' participants."""

WORKER_KINDS: dict[str, tuple[float, int, Draw]] = {
    "supervisor-kill": (2, 1, _arguments(down=_DOWN)),
    "supervisor-freeze": (1, 1, _arguments(seconds=_seconds(0.2, 30))),
    "machine-power-cut": (2, 1, _arguments(down=_DOWN, mode=_MODE)),
    "rebalance": (3, 2, _arguments(by=lambda random, brokers: random.randrange(1, len(brokers)))),
    "slow-metadata-disk": (1, 1, _arguments(seconds=_seconds(1, 20), latency=_seconds(0.01, 3))),
    "metadata-disk-error": (
        1,
        1,
        _arguments(down=_seconds(1, 20), written=lambda random, brokers: random.random() < 0.5),
    ),
    "metadata-no-space": (1, 1, _arguments(seconds=_seconds(0.2, 10))),
}
"""Kinds of faults of workers' supervisor, of its disk and of their machine."""

REMOTE_KINDS: dict[str, tuple[float, int, Draw]] = {
    "remote-outage": (
        2,
        1,
        _arguments(seconds=_seconds(0.5, 20), op=_choice("all", "all", "read", "write", "delete", "list")),
    ),
    "remote-errors": (3, 1, _arguments(seconds=_seconds(1, 20), share=_seconds(0.02, 0.7))),
    "slow-remote": (2, 1, _arguments(seconds=_seconds(1, 20), latency=_seconds(0.05, 5))),
    "kill-copier": (5, 1, _arguments(down=_DOWN, steps=_below(9), how=_choice("kill", "kill", "power-cut", "freeze"))),
    "passing-archive": (
        3,
        1,
        _arguments(name=lambda random, _: f"archive-{random.randrange(1 << 32)}", seconds=_seconds(1, 20)),
    ),
}
"""Kinds of faults of the object store, and of those that copy to it."""

_INSTANCE = _below(100)

APPLICATION_KINDS: dict[str, tuple[float, int, Draw]] = {
    "kill-application": (2, 1, _arguments(number=_INSTANCE, down=_DOWN)),
    "kill-application-at-step": (5, 1, _arguments(number=_INSTANCE, down=_DOWN, steps=_below(12))),
    "stop-application": (2, 1, _arguments(number=_INSTANCE)),
    "freeze-application": (2, 1, _arguments(number=_INSTANCE, seconds=_seconds(0.2, 90))),
    "cut-application": (2, 1, _arguments(number=_INSTANCE, seconds=_seconds(0.2, 60))),
    "add-application": (3, 1, _arguments(seconds=_seconds(1, 30))),
}
"""Kinds of faults of a simulated application's processes."""

ALL_KINDS = {**KINDS, **TRANSACTION_KINDS, **WORKER_KINDS, **APPLICATION_KINDS, **REMOTE_KINDS}


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
