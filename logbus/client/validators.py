"""Validates options and arguments of the client; each error names the option and says what is valid."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec

from logbus.errors import ConfigError
from logbus.model import TopicPartition

P = ParamSpec("P")

MAX_INT32 = 2**31 - 1
MAX_SECONDS = MAX_INT32 / 1000
"""Requests carry durations in 32 bits of milliseconds."""
_SHOWN = 100


class InvalidOption(ConfigError, ValueError):
    """An option or argument is invalid; the message names it and says what is valid."""


def unknown_options(what: str, unknown: Iterable[str], known: Iterable[str], otherwise: str = "") -> TypeError:
    """
    Make the error for options that there are not, with the most similar ones that there are.

    :param what: has the options, such as ``a producer``.
    :param otherwise: where else it may belong that is like none of them.
    """
    import difflib  # needed only here

    names, known = sorted(unknown), sorted(known)
    near = [each for name in names for each in difflib.get_close_matches(name, known, n=1, cutoff=0.7)]
    if len(near) == len(names):
        hint = f"did you mean {' and '.join(near)}?"
    else:
        hint = f"it has {', '.join(known)}" + (f"; {otherwise}" if otherwise else "")
    return TypeError(f"{what} has no option {', '.join(names)}; {hint}")


def names_options(what: str, otherwise: str = "") -> Callable[[Callable[P, None]], Callable[P, None]]:
    """
    Decorate an ``__init__``, so that its error for an unknown option says which there are.

    :param what: has the options, such as ``a producer``.
    :param otherwise: where else it may belong that is like none of them.
    """

    def decorate(init: Callable[P, None]) -> Callable[P, None]:
        of = init.__code__
        known = of.co_varnames[1 : of.co_argcount + of.co_kwonlyargcount]

        @wraps(init)
        def check(*args: P.args, **options: P.kwargs) -> None:
            if unknown := options.keys() - known:
                raise unknown_options(what, unknown, known[of.co_argcount - 1 :] or known, otherwise)
            init(*args, **options)

        return check

    return decorate


def choice(name: str, value: object, choices: Sequence[str]) -> None:
    """
    :raises InvalidOption: the value is not one of the choices.
    """
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise InvalidOption(f"{name} is {shown(value)}; it can be {', '.join(others)} or {last}")


def seconds(name: str, value: object, *, positive: bool = False, is_sent: bool = False) -> None:
    """
    :param positive: 0 is invalid.
    :param is_sent: it is sent to brokers, as milliseconds in 32 bits.
    :raises InvalidOption: it is not a number of seconds, or out of range.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or value < 0 or (positive and value == 0):  # type: ignore[operator]
        least = "more than 0" if positive else "0 or more"
        raise InvalidOption(f"{name} is {shown(value)}; it is a number of seconds, {least}")
    if is_sent and value > MAX_SECONDS:  # type: ignore[operator]
        raise InvalidOption(f"{name} is {shown(value)}; it is a number of seconds, at most {int(MAX_SECONDS)}")


def integer(name: str, value: object, least: int, most: int = MAX_INT32) -> None:
    """
    :raises InvalidOption: it is not an integer within these bounds.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidOption(f"{name} is {shown(value)}; it is an integer from {least} to {most}")


def flag(name: str, value: object) -> None:
    """
    :raises InvalidOption: it is not a bool.
    """
    if not isinstance(value, bool):
        raise InvalidOption(f"{name} is {shown(value)}; it can be True or False")


def text(name: str, value: object, *, optional: bool = False) -> None:
    """
    :raises InvalidOption: it is not a string, or empty.
    """
    if (optional and value is None) or (isinstance(value, str) and value):
        return
    raise InvalidOption(f"{name} is {shown(value)}; it is a text that is not empty{', or None' if optional else ''}")


def texts(name: str, values: object) -> list[str]:
    """
    A sequence of names; a single text is none, though it can be iterated over.

    :raises InvalidOption: it is not a sequence of strings.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidOption(f"{name} is {shown(values)}; it is a list of texts")
    found = list(values)
    for each in found:
        if not isinstance(each, str):
            raise InvalidOption(f"{name} has {shown(each)}; it is a list of texts")
    return found


def function(name: str, value: object, *, optional: bool = True) -> None:
    """
    :raises InvalidOption: it is not callable, or a class instead of an instance.
    """
    if optional and value is None:
        return
    if isinstance(value, type):
        raise InvalidOption(f"{name} is the class {value.__name__}; give an instance of it: {value.__name__}()")
    if not callable(value):
        raise InvalidOption(f"{name} is {shown(value)}; it is something to call, such as a function")


def objects(name: str, values: object, method: str) -> tuple[Any, ...]:
    """
    Validate a sequence of objects that have a method, such as interceptors.

    :raises InvalidOption: it is not a sequence of such objects.
    """
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise InvalidOption(f"{name} is {shown(values)}; it is a list")
    found = tuple(values)
    for each in found:
        if isinstance(each, type):
            raise InvalidOption(f"{name}: {each.__name__} is a class; give an instance of it: {each.__name__}()")
        if not callable(getattr(each, method, None)):
            raise InvalidOption(f"{name}: {shown(each)} has no method {method}")
    return found


def cluster(value: object) -> None:
    """
    :raises InvalidOption: it is not a :class:`~logbus.client.Cluster`.
    """
    if not hasattr(value, "reactor"):
        raise InvalidOption(f"cluster is {shown(value)}; it is a Cluster, such as Cluster(reactor, '127.0.0.1:9092')")


def partition(value: object) -> None:
    """
    :raises InvalidOption: it is not a :class:`~logbus.model.TopicPartition`.
    """
    if not isinstance(value, TopicPartition):
        raise InvalidOption(f"{shown(value)} is no partition; give TopicPartition('orders', 0), of logbus.model")
    text("the topic of a partition", value.topic)
    integer(f"the partition of topic {value.topic!r}", value.partition, 0)


def partitions(values: object) -> tuple[TopicPartition, ...]:
    """
    :raises InvalidOption: it is not a collection of partitions.
    """
    if isinstance(values, (str, bytes, TopicPartition)) or not isinstance(values, Iterable):
        raise InvalidOption(f"{shown(values)} are no partitions; give a list of TopicPartition")
    found = tuple(values)
    for each in found:
        partition(each)
    return found


def mapping_of_offsets(values: object) -> None:
    """
    :raises InvalidOption: it is not a mapping.
    """
    if not isinstance(values, Mapping):
        raise InvalidOption(f"offsets are {shown(values)}; give a mapping of TopicPartition to the next offset to read")


def offsets(values: Any) -> None:
    """
    :raises InvalidOption: it is not a mapping of partitions to offsets that can be committed.
    """
    mapping_of_offsets(values)
    for each, at in values.items():
        partition(each)
        offset = getattr(at, "offset", at)
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
            raise InvalidOption(f"the offset of {each} is {shown(at)}; it is an integer from 0, or a CommittedOffset")


def shown(value: object) -> str:
    """A value as quoted in errors, shortened."""
    found = repr(value)
    return found if len(found) <= _SHOWN else f"{found[:_SHOWN]}..."


def checked(check: Callable[..., object], **how: Any) -> Callable[[object, Any, Any], None]:
    """
    Make an attrs validator of a check.

    :param how: arguments of the check after name and value.
    """
    return lambda _, attribute, value: (check(attribute.name, value, **how), None)[1]
