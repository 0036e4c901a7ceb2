"""
Rules for faults: which requests they apply to, and what happens to these. Pure.

A rule is a value that has a form in JSON, so that it can be sent to a broker in another process::

    {"action": "fail", "api": "Produce", "topic": "orders", "error": "NOT_ENOUGH_REPLICAS", "times": 2}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Final

from attrs import evolve, fields_dict, frozen

from logbus.errors import ErrorCode
from logbus.testing.requests.apis import ANY, WrongRequest, alike, api_key_of
from logbus.testing.requests.partitions import names_partitions, names_topics
from logbus.testing.settings import KIT_CLIENT_ID
from logbus.wire.messages import api_name

FAIL: Final = "fail"
DELAY: Final = "delay"
DROP: Final = "drop"
DISCONNECT: Final = "disconnect"
CORRUPT: Final = "corrupt"
THROTTLE: Final = "throttle"

ACTIONS: Mapping[str, tuple[str, ...]] = {
    FAIL: ("error", "message", "after"),
    DELAY: ("seconds", "after"),
    DROP: ("after",),
    DISCONNECT: ("after",),
    CORRUPT: ("how",),
    THROTTLE: ("bytes_per_second",),
}
"""What can happen to a request, and the members of a rule that say more about it."""

DAMAGES = ("flip", "garbage", "cut", "correlation")
"""How an answer can be corrupted: one bit, the whole body, its second half missing, the answer to another request."""

_LOGIN_APIS = (17, 36)
_MATCH = ("action", "api", "client_id", "topic", "partition", "times", "skip")


@frozen
class Rule:
    """
    A fault, and the requests that it happens to.

    :ivar action: one of :data:`ACTIONS`.
    :ivar api: the API's key; None: all APIs.
    :ivar client_id: a pattern (``*``, ``?``); None: all clients but the test kit's own.
    :ivar topic: a pattern; None: all topics, and requests without any.
    :ivar partition: None: all partitions.
    :ivar times: how many requests it happens to; None: all.
    :ivar skip: how many requests are let through before.
    :ivar after: whether the request is carried out first, so that only its answer is lost, late or wrong.
    :ivar error: of ``fail``.
    :ivar message: the text that goes with the error, where an API has one; None: Kafka's.
    :ivar seconds: of ``delay``.
    :ivar how: of ``corrupt``, one of :data:`DAMAGES`.
    :ivar bytes_per_second: of ``throttle``: the rate of the answers.
    """

    action: str
    api: int | None = None
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    times: int | None = None
    skip: int = 0
    after: bool = False
    error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    message: str | None = None
    seconds: float = 0.0
    how: str = "flip"
    bytes_per_second: float = 0.0

    def concerns(self, api_key: int, client_id: str | None) -> bool:
        """Whether a request of this API and client may be one of its requests, whatever it names."""
        if self.api is not None and self.api != api_key:
            return False
        if self.client_id is None:
            # The kit itself only looks at what a test's clients have done.
            return client_id != KIT_CLIENT_ID
        return client_id is not None and fnmatchcase(client_id, self.client_id)

    @property
    def is_about_topics(self) -> bool:
        """Whether it depends on the topics that a request names."""
        return self.topic is not None or self.partition is not None

    def names(self, topic: str, partition: int | None) -> bool:
        """Whether it is about a topic and partition; a request that names no partition is about all of the topic."""
        return (self.topic is None or fnmatchcase(topic, self.topic)) and (
            self.partition is None or partition is None or partition == self.partition
        )

    def as_json(self) -> dict[str, object]:
        """The rule as values that JSON has; what is left out is the default. :func:`rule_from_json` reads it."""
        found: dict[str, object] = {"action": self.action, "api": ANY if self.api is None else api_name(self.api)}
        for name in (*_MATCH[2:], *ACTIONS[self.action]):
            value = getattr(self, name)
            if value != fields_dict(Rule)[name].default or name in ("error", "how"):
                found[name] = value.name if isinstance(value, ErrorCode) else value
        return found

    def __str__(self) -> str:
        said = [f"{name}={value}" for name, value in self.as_json().items() if name not in ("action", "api")]
        return f"{self.action} {ANY if self.api is None else api_name(self.api)}" + (
            f" ({', '.join(said)})" * bool(said)
        )


def rule_from_json(values: Mapping[str, Any]) -> Rule:
    """
    The rule that :meth:`Rule.as_json` describes.

    :raise WrongRequest: it is none: the message names the member, and what would be right.
    """
    if not isinstance(values, Mapping):
        raise WrongRequest(f"a rule is an object with an action and an API, not {values!r}")
    rest = dict(values)
    action = rest.pop("action", None)
    if action is None:
        raise WrongRequest(f"a rule has an action: one of {', '.join(ACTIONS)}")
    return make_rule(action, rest.pop("api", ANY), **rest)


def make_rule(action: Any, api: str | int, **values: Any) -> Rule:
    """
    A rule, after its values were looked at.

    :param values: by the names of :class:`Rule`; None stands for the default.
    :raise WrongRequest: a value cannot be: the message names it, and what would be right.
    """
    if action not in ACTIONS:
        raise WrongRequest(f"action: {action!r} is none of {', '.join(ACTIONS)}")
    given = {name: value for name, value in values.items() if value is not None}
    known = (*_MATCH[2:], *ACTIONS[action])
    for name in given:
        if name not in known:
            raise WrongRequest(f"a rule to {action} has no {name!r}: it has {', '.join(known)}")
    key = api_key_of(api)
    if key in _LOGIN_APIS:
        raise WrongRequest(f"{api_name(key)} is answered before a client is known: use '*' with disconnect instead")
    rule = Rule(action, key)
    for name, value in given.items():
        rule = evolve(rule, **{name: _CHECKS[name](name, value)})
    _check_whole(rule, given)
    return rule


def _check_whole(rule: Rule, given: Mapping[str, Any]) -> None:
    """Refuse a rule whose parts do not fit together, or that lacks one."""
    needed = {FAIL: "error", DELAY: "seconds", THROTTLE: "bytes_per_second"}.get(rule.action)
    if needed is not None and needed not in given:
        example = {"error": "'NOT_LEADER_OR_FOLLOWER'", "seconds": "0.5", "bytes_per_second": "100_000"}[needed]
        raise WrongRequest(f"a rule to {rule.action} needs {needed}, such as {needed}={example}")
    if rule.api is None:
        return
    for name, has in (("topic", names_topics), ("partition", names_partitions)):
        if name in given and not has(rule.api):
            raise WrongRequest(f"{name}: requests of {api_name(rule.api)} name no {name}s; leave it out")


# The checks of single values; each takes the name of the member.


def _count(name: str, value: Any) -> int:
    least = 1 if name == "times" else 0
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        forever = "; leave it out for all requests" if name == "times" else ""
        raise WrongRequest(f"{name}: {value!r} is no count: expected {least} or more{forever}")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise WrongRequest(f"{name}: {value!r} is no text: expected a name, in which * stands for anything")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise WrongRequest(f"{name}: {value!r} is neither True nor False")
    return value


def _error(name: str, value: Any) -> ErrorCode:
    """An error by its name, its code, or as it is; NONE is no error."""
    found: ErrorCode | None = None
    if isinstance(value, str):
        found = ErrorCode.__members__.get(value.upper())
        if found is None:
            raise WrongRequest(f"{name}: Kafka has no error {value!r}{alike(value, ErrorCode.__members__)}")
    elif isinstance(value, int) and not isinstance(value, bool):
        found = next((each for each in ErrorCode if each == value), None)
    if not found:
        raise WrongRequest(f"{name}: {value!r} is no error of Kafka: expected one such as 'NOT_LEADER_OR_FOLLOWER'")
    return found


def _positive(name: str, value: Any) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) and name == "seconds" else value
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 < seconds < float("inf"):
        what = "seconds or a timedelta" if name == "seconds" else "bytes per second"
        raise WrongRequest(f"{name}: {value!r} is not more than 0 {what}")
    return float(seconds)


def _how(name: str, value: Any) -> str:
    if value not in DAMAGES:
        raise WrongRequest(f"{name}: {value!r} is none of {', '.join(DAMAGES)}")
    return str(value)


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "client_id": _text,
    "topic": _text,
    "partition": _count,
    "times": _count,
    "skip": _count,
    "after": _flag,
    "error": _error,
    "message": _text,
    "seconds": _positive,
    "how": _how,
    "bytes_per_second": _positive,
}
