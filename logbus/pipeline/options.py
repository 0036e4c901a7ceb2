"""
Parses options of ``format("logbus")`` from text to typed values, with errors that say what is accepted. Pure.

Option names are not case-sensitive, as in Spark. Values are trimmed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from logbus.pipeline.errors import OptionError

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_DURATION = re.compile(r"([0-9]{1,18})\s*(ms|s|m|min|h|d|)", re.IGNORECASE)
_SECONDS = {"": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_HIDDEN = "(hidden)"


@frozen(eq=False)
class OptionType:
    """
    The type of an option's value.

    :ivar parse: makes a value of trimmed text; raises ValueError, whose message is not shown, if the text is invalid.
    :ivar accepts: what ``parse`` accepts, as it reads after "it takes".
    """

    parse: Callable[[str], Any]
    accepts: str


@frozen(eq=False)
class Option:
    """
    An option: name, type, default and documentation.

    :ivar name: as it is documented.
    :ivar default: the value where it is not given; None: there is none.
    :ivar doc: what it does, for people (reST).
    :ivar secret: its value is not shown in errors.
    """

    name: str
    kind: OptionType
    default: Any
    doc: str
    secret: bool = False

    def read(self, text: str, name: str | None = None) -> Any:
        """
        Parse a text.

        :param name: what to call the option in an error; default: its own.
        :raises OptionError: the text is invalid; names the option and what it takes.
        """
        try:
            return self.kind.parse(text.strip())
        except ValueError:
            shown = _HIDDEN if self.secret else repr(text)
            raise OptionError(
                f"option {name or self.name!r}: {shown} cannot be used; it takes {self.kind.accepts}"
            ) from None


def text() -> OptionType:
    """Any text that is not empty."""

    def parse(given: str) -> str:
        if not given:
            raise ValueError(given)
        return given

    return OptionType(parse, "a text that is not empty")


def boolean() -> OptionType:
    """``true`` or ``false``, in any case."""

    def parse(given: str) -> bool:
        try:
            return {"true": True, "false": False}[given.lower()]
        except KeyError:
            raise ValueError(given) from None

    return OptionType(parse, "true or false")


def integer(at_least: int, at_most: int = 2**63 - 1) -> OptionType:
    """A whole number within bounds, both included."""

    def parse(given: str) -> int:
        value = int(given) if _INTEGER.fullmatch(given) else at_least - 1
        if not at_least <= value <= at_most:
            raise ValueError(given)
        return value

    return OptionType(parse, f"a whole number from {at_least} to {at_most}")


def milliseconds(at_least: int = 0) -> OptionType:
    """Milliseconds in the option; the value is in seconds."""
    whole = integer(at_least, 2**31 - 1)
    return OptionType(lambda given: whole.parse(given) / 1000, f"milliseconds, {whole.accepts}")


def duration() -> OptionType:
    """A time such as ``15m`` or ``30s``, as seconds."""

    def parse(given: str) -> float:
        found = _DURATION.fullmatch(given)
        if not found:
            raise ValueError(given)
        return int(found[1]) * _SECONDS[found[2].lower()]

    return OptionType(parse, "a time such as 500ms, 30s, 15m, 2h or 1d; a bare number is milliseconds")


def one_of(*choices: str) -> OptionType:
    """One of a few words, in any case."""
    words = {choice.lower(): choice for choice in choices}

    def parse(given: str) -> str:
        try:
            return words[given.lower()]
        except KeyError:
            raise ValueError(given) from None

    return OptionType(parse, "one of " + ", ".join(choice or "(empty)" for choice in choices))


class OptionTable:
    """
    A set of options by name.

    :param options: no two names may differ in case only.
    """

    def __init__(self, options: Iterable[Option]) -> None:
        self._options = {each.name.lower(): each for each in options}

    def __iter__(self) -> Any:
        return iter(self._options.values())

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._options

    def read(self, given: Mapping[str, str], prefix: str = "") -> dict[str, Any]:
        """
        Parse the value of each option; names that are not in the table are ignored.

        :param prefix: what the names in ``given`` begin with, such as ``kafka.``.
        :returns: values by the documented names.
        :raises OptionError: a value is wrong.
        """
        lowered = {name.lower(): value for name, value in given.items()}
        values = {}
        for name, option in self._options.items():
            found = lowered.get(prefix + name)
            # Errors show the documented name: Spark passes on its own spelling of it.
            values[option.name] = option.default if found is None else option.read(found, prefix + option.name)
        return values


@frozen
class Refusal:
    """
    The reason why an option of Spark's Kafka connector cannot be used.

    :ivar why: what happens instead, and what to do.
    :ivar unless: the value that asks for just what happens, and is accepted; None: there is none.
    """

    why: str
    unless: str | None = None


def check_names(
    given: Mapping[str, str],
    table: OptionTable,
    kafka: Sequence[OptionTable],
    *,
    prefix: str,
    refused: Mapping[str, Refusal],
    passed_over: Collection[str] = (),
) -> None:
    """
    Check that all options are known.

    :param given: values by names in any case.
    :param table: options without a prefix;  ``kafka``: options with one.
    :param refused: options that cannot be used, by name.
    :param passed_over: lower-case names without a prefix that belong to others, such as Spark.
    :raises OptionError: a name is unknown (the message suggests similar ones) or refused.
    """
    spelled = {each.name.lower(): each.name for each in table}
    spelled |= {(prefix + each.name).lower(): prefix + each.name for one in kafka for each in one}
    refusals = {name.lower(): (name, each) for name, each in refused.items()}
    for name, value in given.items():
        lower = name.lower()
        bare = lower.removeprefix(prefix)
        if lower in refusals:
            documented, refusal = refusals[lower]
            if refusal.unless is None or value.strip().lower() != refusal.unless:
                accepted = "" if refusal.unless is None else f"; it takes {refusal.unless}"
                raise OptionError(f"option {documented!r} cannot be used: {refusal.why}{accepted}")
            continue
        if lower.startswith(prefix):
            if any(bare in one for one in kafka):
                continue
        elif name in table or lower in passed_over:
            continue
        near = difflib.get_close_matches(lower, spelled, 3, 0.6)
        if near:
            hint = f"did you mean {' or '.join(spelled[each] for each in near)}?"
        else:
            mine = [name for name in spelled.values() if name.startswith(prefix) is lower.startswith(prefix)]
            hint = f"there are {', '.join(mine)}"
        raise OptionError(f"option {name!r} is not known; {hint}")
