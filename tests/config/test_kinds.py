"""Tests of :mod:`logbus.config.kinds` and :mod:`logbus.config.listener_address`."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.config import kinds
from logbus.config.kinds import ConfigType, Kind
from logbus.config.listener_address import ListenerAddress, listener_list


class KindsTests(SynchronousTestCase):
    """Accepted and refused texts."""

    def refuses(self, kind: Kind[Any], *texts: str) -> None:
        for text in texts:
            with self.assertRaises(ValueError, msg=text):
                kind.parse(text)

    def test_boolean(self) -> None:
        """true and false in any case, nothing else."""
        kind = kinds.boolean()
        self.assertIs(kind.parse("TRUE"), True)
        self.assertIs(kind.parse("false"), False)
        self.refuses(kind, "", "1", "yes", "on")

    def test_integers_are_read_as_java_reads_them(self) -> None:
        """A sign is allowed; underscores, blanks, hexadecimal and other scripts' digits are not."""
        kind = kinds.integer(ConfigType.INT)
        self.assertEqual([kind.parse("+5"), kind.parse("-5"), kind.parse("007")], [5, -5, 7])
        self.refuses(kind, "", "1_000", "1 0", "0x10", "٣", "1.0", "1e3", "--1", "9" * 5000)

    def test_integer_bounds(self) -> None:
        """Bounds are inclusive, and the width of the type is one."""
        kind = kinds.integer(ConfigType.INT, 1, 3)
        self.assertEqual([kind.parse("1"), kind.parse("3")], [1, 3])
        self.refuses(kind, "0", "4")
        self.refuses(kinds.integer(ConfigType.INT), str(2**31))
        self.refuses(kinds.integer(ConfigType.LONG), str(2**63), str(-(2**63) - 1))
        self.refuses(kinds.integer(ConfigType.SHORT), "32768")
        self.assertIn("from 1 to 3", kind.accepts)

    def test_a_number_beyond_the_bounds(self) -> None:
        """One that means something else is allowed; what lies between is not."""
        kind = kinds.number_or(kinds.integer(ConfigType.INT, 1, 9), -1)
        self.assertEqual([kind.parse(text) for text in ("-1", "1", "+9")], [-1, 1, 9])
        self.refuses(kind, "0", "-2", "10", "", "x", "-1.0")
        self.assertEqual(kind.accepts, "-1, or a whole number from 1 to 9")

    def test_decimal(self) -> None:
        """Plain and scientific notation; no infinity and no NaN."""
        kind = kinds.decimal(0.0, 1.0)
        self.assertEqual([kind.parse(text) for text in ("0.5", "1", ".25", "5e-1")], [0.5, 1.0, 0.25, 0.5])
        self.refuses(kind, "", "nan", "inf", "1.1", "-0.1", "1e999", "0,5", "1_0.0")

    def test_lists(self) -> None:
        """Items are trimmed, empty ones dropped, repeated ones refused."""
        kind = kinds.listed(("compact", "delete"), empty=False)
        self.assertEqual(kind.parse("delete , compact,"), ("delete", "compact"))
        self.refuses(kind, "", ",", "delete,delete", "remove", "Delete")
        self.assertEqual(kinds.listed(separator=";").parse("User:a,b;User:c"), ("User:a,b", "User:c"))

    def test_throttled_replicas(self) -> None:
        """All replicas, some, or none; a topic's name or a broker alone would throttle nothing."""
        kind = kinds.throttled_replicas()
        self.assertEqual([kind.parse(text) for text in ("*", "0:1, 2:30", "")], [("*",), ("0:1", "2:30"), ()])
        self.refuses(kind, "foo", "1", "0:1:2", "-1:0", "orders-0:1", "*,0:1", "0:1,0:1", "*,*")

    def test_optional(self) -> None:
        """The empty text is None."""
        kind = kinds.optional(kinds.integer(ConfigType.INT))
        self.assertEqual([kind.parse(""), kind.parse("1")], [None, 1])
        self.refuses(kind, "x")

    def test_mapping(self) -> None:
        """The last colon separates; both sides must be there, and each key once."""
        kind = kinds.mapping(whole_numbers=True)
        self.assertEqual(kind.parse("10.0.0.1:5, ::1:7"), {"10.0.0.1": "5", "::1": "7"})
        self.assertEqual(kind.parse(""), {})
        self.refuses(kind, "a", "a:", ":1", "a:1,a:2", "a:-1", "a:x", "a:2147483648")
        self.refuses(kinds.mapping(("SSL",)), "a:TLS")

    def test_listeners(self) -> None:
        """Names are upper case, hosts may be empty or IPv6 in brackets."""
        kind = listener_list()
        self.assertEqual(
            kind.parse("PLAINTEXT://:9092, secure://[::1]:0,x://broker-1.example:9094"),
            (
                ListenerAddress("PLAINTEXT", "", 9092),
                ListenerAddress("SECURE", "::1", 0),
                ListenerAddress("X", "broker-1.example", 9094),
            ),
        )
        self.refuses(
            kind,
            "",
            "9092",
            "PLAINTEXT:9092",
            "PLAINTEXT://h",
            "PLAINTEXT://h:65536",
            "A://h:1,a://h:2",
            "A://::1:9092",
        )

    @given(st.one_of(st.integers(-(2**63), 2**63 - 1)))
    def test_round_trip(self, number: int) -> None:
        """format and parse are inverse."""
        kind = kinds.integer(ConfigType.LONG)
        self.assertEqual(kind.parse(kind.format(number)), number)

    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_decimals_survive(self, number: float) -> None:
        """format and parse are inverse for decimals."""
        kind = kinds.decimal()
        self.assertEqual(kind.parse(kind.format(number)), number)

    @given(st.text(max_size=20))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        """Only ValueError comes out of parse."""
        for kind in (
            kinds.boolean(),
            kinds.integer(ConfigType.INT),
            kinds.decimal(),
            kinds.listed(("a",)),
            kinds.mapping(whole_numbers=True),
            listener_list(),
        ):
            try:
                kind.parse(text.strip())
            except ValueError:
                pass
