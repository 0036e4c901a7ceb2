"""
Parses arguments by the rules of joptsimple, with which Kafka's commands read theirs. Pure.

``--name value``, ``--name=value`` and ``-name value`` are the same, and so is a beginning of a name that only one
option has. An option with an argument takes the next word, whatever it is; one with an optional argument takes it
unless it looks like an option. ``--`` ends the options. Words that are not part of an option are ignored, as by Kafka's
commands, unless a command asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen

_FORMER = {"broker-list": "bootstrap-server", "zookeeper": "bootstrap-server"}
"""Options that Kafka's commands had, and those that are instead of them."""
_LIKENESS = 0.7
"""Of a name and the one that may be meant, as difflib has it."""
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


class UsageError(Exception):
    """
    The arguments are wrong; the message is what Kafka's command says of it.

    No :class:`~logbus.errors.LogbusError`: commands catch those of brokers, each with words of its own around them.
    """


def _names(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


@frozen
class Option:
    """
    An option of a command.

    :ivar names: the first is its main one.
    :ivar argument: what its argument is; "": it takes none.
    :ivar help: a line about it.
    :ivar bits: its argument is an integer of so many bits; 0: any text.
    :ivar is_optional: the argument may be left out.
    :ivar refusal: why it is not served; "": it is.
    """

    names: tuple[str, ...] = field(converter=_names)
    argument: str = ""
    help: str = ""
    bits: int = 0
    is_optional: bool = False
    refusal: str = ""

    @property
    def name(self) -> str:
        return self.names[0]


COMMON = (
    Option("bootstrap-server", "server to connect to", "Brokers to connect to, as HOST:PORT, separated by commas."),
    Option("command-config", "config property file", "Properties of Kafka's clients: how to connect."),
    Option("help", help="Print this."),
    Option("version", help="Print the version of logbus."),
)
"""The options of all commands."""


class ParsedOptions:
    """
    The options in the arguments of a command.

    :ivar given: their names and arguments, in order.
    :ivar words: the arguments that are neither.
    """

    def __init__(self, given: Sequence[tuple[str, str | None]], words: Sequence[str] = ()) -> None:
        self.given = given
        self.words = words
        found: dict[str, list[str | None]] = {}
        for name, argument in given:
            found.setdefault(name, []).append(argument)
        self._found: Mapping[str, Sequence[str | None]] = found

    def has(self, name: str) -> bool:
        """Whether an option is given."""
        return name in self._found

    def values(self, name: str) -> list[str]:
        """All arguments of an option."""
        return [each for each in self._found.get(name, ()) if each is not None]

    def value(self, name: str, default: str | None = None) -> str | None:
        """
        The argument of an option.

        :raise UsageError: it is given several times.
        """
        values = self.values(name)
        if len(values) > 1:
            raise UsageError(f"Found multiple arguments for option {name}, but you asked for only one")
        return values[0] if values else default

    def text(self, name: str) -> str:
        """
        The argument of a required option.

        :raise UsageError: it is absent, or given several times.
        """
        self.require(name)
        value = self.value(name)
        assert value is not None
        return value

    def integer(self, name: str) -> int | None:
        """
        The argument of an option whose arguments are integers.

        :raise UsageError: it is given several times.
        """
        value = self.value(name)
        return None if value is None else int(value)

    def require(self, *names: str) -> None:
        """
        Check that options are given.

        :raise UsageError: one is not.
        """
        for name in names:
            if name not in self._found:
                raise UsageError(f'Missing required argument "[{name}]"')

    def forbid(self, name: str, others: Iterable[str]) -> None:
        """
        Check that options that do not go with another one are absent.

        :raise UsageError: one is given beside it.
        """
        for other in others:
            if name in self._found and other in self._found:
                raise UsageError(f'Option "[{name}]" can\'t be used with option "[{other}]"')

    def only_one(self, names: Sequence[str], message: str) -> str:
        """
        The one option of several that is given.

        :raise UsageError: none is, or several are.
        """
        given = [name for name in names if name in self._found]
        if len(given) != 1:
            raise UsageError(message)
        return given[0]


class OptionParser:
    """
    Parses the arguments of a command.

    :param purpose: a line about the command.
    :param options: besides :data:`COMMON`; one of the same name replaces that one.
    """

    def __init__(self, purpose: str, options: Iterable[Option]) -> None:
        own = list(options)
        named = {each.name for each in own}
        self.purpose = purpose
        self.options = sorted(
            [*own, *(each for each in COMMON if each.name not in named)], key=lambda option: option.name
        )
        self._by_name = {name: each for each in self.options for name in each.names}

    def parse(self, arguments: Sequence[str]) -> ParsedOptions:
        """
        Parse arguments.

        :raise UsageError: an option is unknown, not served, or lacks its argument, or the argument is wrong.
        """
        given: list[tuple[str, str | None]] = []
        others: list[str] = []
        words = list(arguments)
        while words:
            word = words.pop(0)
            if word == "--":
                others += words
                break
            if not _looks_like_an_option(word):
                others.append(word)
                continue
            name, equals, value = word[2 if word.startswith("--") else 1 :].partition("=")
            option = self._option(name)
            argument = value if equals else None
            if option.refusal:
                raise UsageError(f"{option.name} is not served; {option.refusal}")
            if not option.argument:
                argument = None
            elif argument is None and words and not (option.is_optional and _looks_like_an_option(words[0])):
                argument = words.pop(0)
            elif argument is None and not option.is_optional:
                raise UsageError(f"Option {option.name} requires an argument")
            if argument is not None and option.bits:
                _check_integer(option, argument)
            given.append((option.name, argument))
        return ParsedOptions(given, others)

    def usage(self) -> str:
        """A text about all options."""
        names = [
            ", ".join(f"--{name}" for name in each.names) + (f" <{each.argument}>" if each.argument else "")
            for each in self.options
        ]
        lines = [self.purpose, f"{'Option':<40} Description", f"{'------':<40} -----------"]
        for name, each in zip(names, self.options, strict=True):
            about = f"Not served: {each.refusal}." if each.refusal else each.help
            lines += [f"{name:<40} {about}"] if len(name) <= 40 else [name, f"{'':<40} {about}"]
        return "\n".join(lines) + "\n"

    def _option(self, name: str) -> Option:
        exact = self._by_name.get(name)
        if exact is not None:
            return exact
        begun = [each for each in self._by_name if each.startswith(name)] if name else []
        if len(begun) == 1:
            return self._by_name[begun[0]]
        if name in _FORMER and _FORMER[name] in self._by_name:
            raise UsageError(f"{name} is not a recognized option; since Kafka 4.0 it is --{_FORMER[name]}")
        import difflib  # needed only here

        near = begun or difflib.get_close_matches(name, self._by_name, 3, cutoff=_LIKENESS)
        there = ", ".join(f"--{each}" for each in near or self._by_name)
        which = "it may be" if near else "there are"
        raise UsageError(f"{name} is not a recognized option; {which} {there}")


def _looks_like_an_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _check_integer(option: Option, text: str) -> None:
    most = 1 << (option.bits - 1)
    if not (_INTEGER.fullmatch(text) and len(text) < 25 and -most <= int(text) < most):
        raise UsageError(f"Cannot parse argument '{text}' of option {option.name}")
