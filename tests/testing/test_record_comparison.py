"""Records are compared with what a test expects."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.client.consumer.consumer_record import ConsumerRecord
from logbus.testing.record_comparison import Expected, as_fields, differences

values = st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=8)


def records(*values: bytes | None) -> list[ConsumerRecord]:
    """Records of one partition."""
    return [ConsumerRecord("t", 0, offset, 7, b"k", value, ()) for offset, value in enumerate(values)]


class ComparisonTests(SynchronousTestCase):
    """``differences``."""

    @given(values, values)
    def test_equality(self, there: list[bytes], expected: list[bytes]) -> None:
        """There are differences if there is one, in order or without it."""
        self.assertEqual(differences(records(*there), expected) == [], there == expected)
        unordered = differences(records(*there), expected, in_order=False)
        self.assertEqual(unordered == [], sorted(there) == sorted(expected))

    @given(
        st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=5), st.lists(st.sampled_from([None, *"abc"]), max_size=4)
    )
    def test_some_fields_in_any_order(self, there: list[bytes], wanted: list[str | None]) -> None:
        """Whatever the order of expectations that any record fulfils, as many are fulfilled as can be."""
        expected: list[Expected] = [{"key": "k"} if each is None else each for each in wanted]
        found = differences(records(*there), expected, in_order=False)
        padded = [*there, *[b""] * len(wanted)]
        most = max(
            sum(bool(value) and each in (None, value.decode()) for value, each in zip(some, wanted, strict=True))
            for some in permutations(padded, len(wanted))
        )
        signs = [line[0] for line in found]
        self.assertEqual((signs.count("-"), signs.count("+")), (len(wanted) - most, len(there) - most))

    def test_which_is_left(self) -> None:
        """As many expectations are fulfilled as can be."""
        some = [{"key": "k"}, {"value": "1"}, {"value": "1", "key": "k"}, "2"]
        self.assertEqual(
            differences(records(b"1", b"3", b"1"), some, in_order=False),
            ["- value=b'2'"],
        )
        self.assertEqual(
            differences(records(b"1", b"3"), ["1", "1", {"key": "k"}], in_order=False),
            ["- value=b'1'"],
        )

    def test_lines(self) -> None:
        """What is missing, what is there instead, and what is right around it."""
        found = differences(records(b"1", b"2", b"3", b"4", b"5", b"6", b"x", b"8"), [*"12345678"])
        self.assertEqual(
            found,
            [
                "  ... 3 as expected",
                "  0:3 key=b'k' value=b'4'",
                "  0:4 key=b'k' value=b'5'",
                "  0:5 key=b'k' value=b'6'",
                "- value=b'7'",
                "+ 0:6 key=b'k' value=b'x'",
                "  0:7 key=b'k' value=b'8'",
            ],
        )

    def test_ways_to_say_it(self) -> None:
        """A value, a pair, some fields; texts are UTF-8, headers a dict or pairs."""
        [record] = [each._replace(headers=(("trace", b"1"),)) for each in records("é".encode())]
        self.assertEqual(differences([record], ["é"]), [])
        self.assertEqual(differences([record], [("k", "é")]), [])
        self.assertEqual(differences([record], [{"headers": {"trace": "1"}, "offset": 0, "timestamp": 7}]), [])
        self.assertEqual(differences([record], [{"headers": [("trace", b"1")], "partition": 0}]), [])
        self.assertEqual(differences(records(None), [None]), [])
        self.assertEqual(
            differences([record], [{"headers": {}}]),
            ["- headers=()", "+ 0:0 key=b'k' value=b'\\xc3\\xa9' headers=[('trace', b'1')]"],
        )

    def test_what_cannot_be_expected(self) -> None:
        """A wrong field and a wrong type are named."""
        error = self.assertRaises(TypeError, as_fields, {"vaule": b"x"})
        self.assertEqual(
            str(error), "'vaule' is no field of a record; there are key, value, headers, timestamp, partition, offset"
        )
        self.assertIn("42: expected of a record are a value, a pair", str(self.assertRaises(TypeError, as_fields, 42)))

    def test_long_values_that_differ_late(self) -> None:
        """Two are told apart although what is shown of them is the same."""
        one, other = b"x" * 1000 + b"1", b"x" * 1000 + b"2"
        found = differences(records(one, other), [other, one])
        self.assertEqual(sorted({line[0] for line in found}), [" ", "+", "-"])

    def test_long_values(self) -> None:
        """They are shown in part."""
        [plus] = [line for line in differences(records(b"x" * 10_000), [None]) if line.startswith("+")]
        self.assertIn("... (10003 characters)", plus)
        self.assertLess(len(plus), 300)
