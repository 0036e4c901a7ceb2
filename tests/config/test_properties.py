"""Tests of :mod:`logbus.config.properties`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.config.properties import parse_properties
from logbus.errors import ConfigError


def escaped(text: str, *, key: bool) -> str:
    """Write a text as ``Properties.store`` might."""
    out = []
    for position, character in enumerate(text):
        if character in "\\=:#!" or (character == " " and (key or position == 0)):
            out.append("\\" + character)
        elif character in "\t\n\r\f":
            out.append({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[character])
        elif ord(character) > 126 and ord(character) < 0x10000:
            out.append(f"\\u{ord(character):04X}")
        else:
            out.append(character)
    return "".join(out)


class ParsePropertiesTests(SynchronousTestCase):
    """The syntax of java.util.Properties."""

    def test_separators(self) -> None:
        """The key ends at the first =, : or blank; blanks around the separator belong to neither."""
        text = "a=1\nb:2\nc 3\nd = 4\ne : 5\n  f\t=\t6\ng==7\nh\ni="
        self.assertEqual(
            parse_properties(text),
            {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6", "g": "=7", "h": "", "i": ""},
        )

    def test_comments_and_blank_lines(self) -> None:
        """# and ! begin a comment only at the beginning of a line; a comment does not go on in the next line."""
        text = "# one\\\na=1\n\n   ! two\n \t \nb=2 # not a comment\n"
        self.assertEqual(parse_properties(text), {"a": "1", "b": "2 # not a comment"})

    def test_continuation(self) -> None:
        """A backslash at the end joins the next line without its indentation; an escaped backslash does not."""
        text = "a=one,\\\n    two,\\\n\tthree\nb=c\\\\\nd=4\ne=5\\\n# not a comment"
        self.assertEqual(parse_properties(text), {"a": "one,two,three", "b": "c\\", "d": "4", "e": "5# not a comment"})

    def test_continuation_at_the_end(self) -> None:
        """A backslash at the end of the file joins nothing."""
        self.assertEqual(parse_properties("a=1\\"), {"a": "1"})

    def test_line_ends(self) -> None:
        """Lines end with LF, CR LF or CR; a continued line too."""
        self.assertEqual(parse_properties("a=1\r\nb=2\rc=\\\r\n3\n"), {"a": "1", "b": "2", "c": "3"})

    def test_escapes(self) -> None:
        """Escapes are those of Java; a backslash before any other character is dropped."""
        text = r"path=C\:\\logs" + "\n" + r"t=\t\n\r\f" + "\n" + r"u=\u00e9\u20AC" + "\n" + r"a\ b\=c=\q" + "\n"
        self.assertEqual(parse_properties(text), {"path": "C:\\logs", "t": "\t\n\r\f", "u": "é€", "a b=c": "q"})

    def test_broken_escape_names_the_line(self) -> None:
        """An escape that is cut off is an error that names its line."""
        error = self.assertRaises(ConfigError, parse_properties, "a=1\n\nb=\\u12g4\n")
        self.assertIn("line 3", str(error))

    def test_the_last_of_two_counts(self) -> None:
        """Of a key that comes twice, the last value holds, as in Java."""
        self.assertEqual(parse_properties("a=1\na=2"), {"a": "2"})

    def test_values_keep_blanks_at_their_end(self) -> None:
        """Blanks after a value are kept; before it they are not."""
        self.assertEqual(parse_properties("a=  1  "), {"a": "1  "})

    @given(st.dictionaries(st.text(min_size=1), st.text(), max_size=5))
    def test_round_trip(self, properties: dict[str, str]) -> None:
        """Any keys and values survive being written with escapes and read."""
        text = "\n".join(f"{escaped(k, key=True)} = {escaped(v, key=False)}" for k, v in properties.items())
        self.assertEqual(parse_properties(text), properties)

    @given(st.text(alphabet="ab=:\\ \t\n\r#!u0", max_size=40))
    def test_any_text_is_read_or_refused_clearly(self, text: str) -> None:
        """Nothing but ConfigError comes out of a bad file."""
        try:
            parse_properties(text)
        except ConfigError as error:
            self.assertIn("line ", str(error))
