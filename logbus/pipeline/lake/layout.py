"""
The directories of a loaded table: none, or one for each date, each hour, or each value of a column. Pure.

Directories are named as Hive and Spark name them, such as ``date=2026-11-21/hour=13``. All files of a table have the
same ones: readers would not know what to make of others.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from attrs import field, frozen

from logbus.pipeline.errors import LakeError, OptionError

DATE, HOUR = "date", "hour"
QUARANTINE = "_quarantine"
"""The directory of records whose value could not be read."""

TIME_OF = "logbus.time"
"""The metadata of a directory's column, in Spark's schema: the path of the column whose date or hour it is."""

_BY_TIME = {"none": (), "date": (DATE,), "hour": (DATE, HOUR)}
_COLUMN = "column:"
EXAMPLE = "none, date, hour, or a column of the events such as page (column:hour if it has one of these names)"


@frozen
class Layout:
    """
    Which directories the files of a table are in.

    :param text: ``none``, ``date``, ``hour``, or a column; ``column:NAME`` is a column of any name.

    :ivar directories: the names of the directories, outermost first.
    :ivar column: the column of the events whose values are directories; "": there is none.
    :raise OptionError: the text is empty.
    """

    text: str
    directories: tuple[str, ...] = field(init=False)
    column: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        column = "" if self.text in _BY_TIME else self.text.removeprefix(_COLUMN)
        if not column and self.text not in _BY_TIME:
            raise OptionError(f"partition_by is {self.text!r}; it takes {EXAMPLE}")
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "directories", (column,) if column else _BY_TIME[self.text])

    @property
    def of_times(self) -> tuple[str, ...]:
        """The directories that are of the event's time, whose names no column of the events can have."""
        return () if self.column else self.directories

    def __str__(self) -> str:
        return "/".join(f"{each}=..." for each in self.directories) or "without directories"


def check_directory(layout: Layout, fields: Sequence[Mapping[str, Any]]) -> None:
    """
    Check that a column can be the directories.

    :param fields: the rows' columns, as in Spark's JSON: with ``name`` and ``type``.
    :raise OptionError: there is no such column, or its values are no names.
    """
    kinds = {each["name"]: each["type"] for each in fields}
    if not layout.column:
        return
    if layout.column not in kinds:
        near = difflib.get_close_matches(layout.column, kinds, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise OptionError(
            f"partition_by is {layout.text!r}, and the rows have no such column; there are {', '.join(kinds)}{hint}"
        )
    kind = kinds[layout.column]
    if not isinstance(kind, str) or kind in ("binary", "variant"):
        said = kind if isinstance(kind, str) else kind["type"]
        raise OptionError(f"partition_by is {layout.text!r}, a column of type {said}, whose values are no names")


def directories_of(paths: Iterable[str]) -> tuple[str, ...] | None:
    """
    The names of the directories that a table's files are in.

    :param paths: of the files, relative to the table.
    :returns: None if there is no file, besides those in quarantine.
    """
    for path in paths:
        if not path.startswith(f"{QUARANTINE}/"):
            pairs = (each.partition("=") for each in path.split("/")[:-1])
            return tuple(unquote(name) for name, equals, _ in pairs if equals)  # As Hive and Spark escape names.
    return None


def layout_for(table: str, there: tuple[str, ...] | None, wanted: Layout | None, default: Layout) -> Layout:
    """
    The layout of a table's next files.

    :param table: its URL, for errors.
    :param there: its directories; None: it has no files.
    :param wanted: None: as those, or the default for a table without files.
    :raise LakeError: another layout is wanted than that of the files.
    """
    if there is None:
        return wanted or default
    known = next((each for each in map(Layout, _BY_TIME) if each.directories == there), None)
    if wanted is None:
        if known is None and len(there) != 1:
            raise LakeError(f"{table}: its directories {'/'.join(there)} are none that a load makes")
        return known or Layout(_COLUMN + there[0])
    if wanted.directories != there:
        said = "/".join(f"{each}=..." for each in there) or "no directories"
        raise LakeError(
            f"{table}: its files are in {said}, and partition_by {wanted.text} would make {wanted}; load into a table "
            "of its own, or leave out --partition-by"
        )
    return wanted
