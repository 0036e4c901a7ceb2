"""
Finds the examples in a page: commands, files and the expected output.

``.. code-block:: console`` holds commands behind ``$`` and, below each, what it prints; ``...`` stands for anything.
A block of another language with a ``:caption:`` is a file of that name; a ``python`` block without one is run as it is.
``pycon`` blocks hold what is typed behind ``>>>``, and what is printed then; all of a page are one session.
A comment before a block says what is special about it, invisible to the reader:

* ``.. example: background``: it is left running, once it has printed what is shown;
* ``.. example: stops``: before it, what was left running is told to stop, and has;
* ``.. example: fails``: its last command is refused;
* ``.. example: file NAME``: it is a file of that name (where a caption would not be understood: the README is also read
  by renderers that know docutils only);
* ``.. example: skip REASON``: it is not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

from attrs import frozen

_BLOCK = re.compile(
    r"(?:^\.\. example: (?P<example>[^\n]+)\n\s*\n?)?"
    r"^(?P<indent> *)\.\. code-block:: (?P<language>[\w-]+)\n(?P<options>(?:(?P=indent) {2,}:[^\n]*\n)*)"
    r"\n(?P<body>(?:(?P=indent) {2,}[^\n]*\n|[ ]*\n)+)",
    re.MULTILINE,
)


@frozen
class Command:
    """A command, and what it should print; None: it does not matter."""

    line: str
    output: str | None


@frozen
class Example:
    """
    One block.

    :ivar line: where in the page it is.
    :ivar how: what the comment before it says, its first word; "" without one.
    :ivar caption: the file it is, or "".
    """

    line: int
    language: str
    how: str
    caption: str
    body: str

    @property
    def commands(self) -> list[Command]:
        """The commands of a console block, with their expected output."""
        found: list[list[str]] = []
        for line in self.body.splitlines():
            if line.startswith("$ "):
                found.append([line[2:]])
            elif line.startswith("> ") and found and len(found[-1]) == 1:
                found[-1][0] += "\n" + line[2:]
            elif found:
                found[-1].append(line)
            elif line:
                raise ValueError(f"line {self.line}: output before any command: {line!r}")
        return [Command(command, "\n".join(output).strip() or None) for command, *output in found]


def examples_of(page: Path) -> Iterator[Example]:
    """The blocks of a page, in order."""
    text = page.read_text() + "\n"
    for found in _BLOCK.finditer(text):
        body = dedent(found["body"]).strip("\n") + "\n"
        how, _, rest = (found["example"] or "").partition(" ")
        caption = re.search(r":caption: (\S+)", found["options"])
        yield Example(
            text.count("\n", 0, found.start("language")) + 1,
            found["language"],
            how,
            rest if how == "file" else caption[1] if caption else "",
            body,
        )


def matches(expected: str, printed: str, *, somewhere: bool = False) -> bool:
    """Whether what was printed is what is shown; ``...`` is anything, and runs of blanks are equal."""

    def even(text: str) -> str:
        return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())

    pattern = ".*?".join(re.escape(part) for part in even(expected).split("..."))
    found = re.compile(pattern, re.DOTALL)
    return (found.search if somewhere else found.fullmatch)(even(printed)) is not None
