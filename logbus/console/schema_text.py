"""
Schemas as people read them: with indentation, and with what differs between two of them. This module is pure.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence

MOST_CHARACTERS = 40_000
"""The longest text that is indented, which takes about 10 ms."""
MOST_INDENTED = 200_000
"""The longest text with indentation: many levels make it far longer than it was."""
MOST_LINES = 400
"""The most lines of either text that are compared, besides those that both begin or end with."""
ROWS_A_TURN = 40

Line = tuple[str, str]
"""A line of a comparison: ``-`` (of the old text), ``+`` (of the new one) or a space (of both), and its text."""


def indented(text: str) -> str:
    """Return JSON with indentation; what is none, or too long, as it is."""
    if len(text) > MOST_CHARACTERS:
        return text
    try:
        pieces, length = list[str](), 0
        for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(json.loads(text)):
            length += len(piece)
            if length > MOST_INDENTED:
                return text
            pieces.append(piece)
    except (ValueError, RecursionError):
        return text
    return "".join(pieces)


def compared(old: Sequence[str], new: Sequence[str]) -> Generator[None, None, list[Line] | None]:
    """
    Compare texts by lines: as many as possible are of both.

    A generator that pauses after some milliseconds of work. difflib is not used: its time has no useful bound.

    :return: the lines of both texts, in their order; None if too many of them differ.
    """
    first, last = 0, 0
    shorter = min(len(old), len(new))
    while first < shorter and old[first] == new[first]:
        first += 1
    while last < shorter - first and old[-1 - last] == new[-1 - last]:
        last += 1
    before, after = old[first : len(old) - last], new[first : len(new) - last]
    if max(len(before), len(after)) > MOST_LINES:
        return None
    # common[i][j]: how many lines the rests from i and from j on have in common.
    common = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i in reversed(range(len(before))):
        row, below = common[i], common[i + 1]
        for j in reversed(range(len(after))):
            row[j] = below[j + 1] + 1 if before[i] == after[j] else max(below[j], row[j + 1])
        if i % ROWS_A_TURN == 0:
            yield None
    lines: list[Line] = [(" ", line) for line in old[:first]]
    i = j = 0
    while i < len(before) or j < len(after):
        if i < len(before) and j < len(after) and before[i] == after[j]:
            lines.append((" ", before[i]))
            i, j = i + 1, j + 1
        elif j == len(after) or (i < len(before) and common[i + 1][j] >= common[i][j + 1]):
            lines.append(("-", before[i]))
            i += 1
        else:
            lines.append(("+", after[j]))
            j += 1
    return lines + [(" ", line) for line in old[len(old) - last :]]
