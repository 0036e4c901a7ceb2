"""Arguments are parsed by the rules of joptsimple."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.cli.kafka_scripts.option_parser import Option, OptionParser, UsageError

PARSER = OptionParser(
    "Does things.",
    [
        Option("topic", "topic", "A topic."),
        Option("topics", help="Topics."),
        Option("codec", "codec", is_optional=True),
        Option("num", "number", bits=32),
        Option(("include", "whitelist"), "regex"),
        Option("gone", refusal="there is --topic"),
    ],
)

NAMES = ("topic", "codec", "num", "include", "command-config")
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


def parsed(*arguments: str) -> list[tuple[str, str | None]]:
    """The options and their arguments, in order."""
    return list(PARSER.parse(arguments).given)


def refused(*arguments: str) -> str:
    """Why arguments are refused."""
    try:
        PARSER.parse(arguments)
    except UsageError as e:
        return str(e)
    raise AssertionError(f"{arguments} are taken")


class OptionParserTest(SynchronousTestCase):
    """What joptsimple 5.0.4 answers to the same arguments."""

    def test_forms(self) -> None:
        """An argument follows its option, or an equals sign; one hyphen is as good as two."""
        for words in (["--topic", "a=b"], ["--topic=a=b"], ["-topic", "a=b"], ["-topic=a=b"]):
            self.assertEqual(parsed(*words), [("topic", "a=b")])

    def test_required_argument(self) -> None:
        """An option takes the next word whatever it looks like; without one it is refused."""
        self.assertEqual(parsed("--topic", "--num"), [("topic", "--num")])
        self.assertEqual(parsed("--num", "-5"), [("num", "-5")])
        self.assertEqual(parsed("--topic=", "x"), [("topic", "")])
        self.assertEqual(refused("--topic"), "Option topic requires an argument")

    def test_optional_argument(self) -> None:
        """An optional argument is not what looks like an option."""
        self.assertEqual(parsed("--codec"), [("codec", None)])
        self.assertEqual(parsed("--codec", "gzip"), [("codec", "gzip")])
        self.assertEqual(parsed("--codec", "--topics"), [("codec", None), ("topics", None)])
        self.assertIn("5 is not a recognized option", refused("--codec", "-5"))

    def test_abbreviations(self) -> None:
        """The beginning of one name stands for it; a whole name does so even if others begin with it."""
        self.assertEqual(parsed("--cod=z"), [("codec", "z")])
        self.assertEqual(parsed("--white", "x"), [("include", "x")])
        self.assertEqual(parsed("--topic", "x"), [("topic", "x")])
        self.assertIn("to is not a recognized option; it may be --topic, --topics", refused("--to", "x"))

    def test_unknown(self) -> None:
        """An unknown option is refused in one line, with what there is."""
        message = refused("--frob", "x")
        self.assertTrue(message.startswith("frob is not a recognized option; there are --"))
        self.assertIn("topc is not a recognized option; it may be --topic", refused("--topc", "x"))
        for former in ("--broker-list", "--zookeeper"):
            self.assertIn("since Kafka 4.0 it is --bootstrap-server", refused(former, "x:1"))
        self.assertIn("--bootstrap-server", message)
        self.assertNotIn("\n", message)

    def test_not_served(self) -> None:
        """An option that is not served says what there is instead."""
        self.assertEqual(refused("--gone"), "gone is not served; there is --topic")

    def test_integers(self) -> None:
        """Integers have the bits of their type in Java."""
        self.assertEqual(PARSER.parse(["--num", "+5"]).integer("num"), 5)
        for text in ("x", "", "2147483648", "1.0", "٣", "9" * 30):
            self.assertEqual(refused("--num", text), f"Cannot parse argument '{text}' of option num")

    def test_others(self) -> None:
        """Other words are kept apart, and what follows "--" is one."""
        self.assertEqual(PARSER.parse(["x", "-", "--topics=3", "--", "--num"]).words, ["x", "-", "--num"])
        self.assertEqual(parsed("x", "-", "--topics=3", "--", "--num"), [("topics", None)])

    def test_repeated(self) -> None:
        """Only some options may be repeated, as their commands say."""
        options = PARSER.parse(["--topic", "a", "--topic", "b"])
        self.assertEqual(options.values("topic"), ["a", "b"])
        with self.assertRaisesRegex(
            UsageError, "Found multiple arguments for option topic, but you asked for only one"
        ):
            options.value("topic")

    @given(st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5), st.lists(st.booleans(), min_size=5))
    def test_round_trip(self, options: list[tuple[str, str]], forms: list[bool]) -> None:
        """What is given is found, in order, whichever way it is written."""
        words: list[str] = []
        wanted = [(name, "7" if name == "num" else value) for name, value in options]
        for (name, value), joined in zip(wanted, forms, strict=False):
            # An optional argument that looks like an option needs the equals sign.
            words += [f"--{name}={value}"] if joined or name == "codec" else [f"--{name}", value]
        self.assertEqual(parsed(*words), wanted)

    @given(st.lists(st.text(max_size=6) | st.sampled_from(["--topic", "--num", "--codec", "-n", "--", "--x=y"])))
    def test_any_words(self, words: list[str]) -> None:
        """Any words are parsed, or refused in words."""
        try:
            PARSER.parse(words)
        except UsageError as e:
            self.assertTrue(str(e))

    def test_usage(self) -> None:
        """The text of --help has every option, and why some are not served."""
        text = PARSER.usage()
        for option in PARSER.options:
            self.assertIn(f"--{option.name}", text)
        self.assertIn("--include, --whitelist <regex>", text)
        self.assertIn("Not served: there is --topic.", text)
