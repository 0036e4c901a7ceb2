"""
An interpreter that runs the ``pycon`` blocks of a page, one after the other.

It is run as a program, ``python notebook.py DIRECTORY``. Each time examples are written to the pipe ``cells`` in there,
it runs them, and writes to the pipe ``results`` what is not as they say, or nothing.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import sys
import traceback
from pathlib import Path
from typing import Any


def run(text: str, variables: dict[str, Any], matches: Any) -> str:
    """
    Run examples.

    :param matches: tells whether what was printed is what was expected.
    :returns: what is wrong with the first one that is; "" if none is.
    """
    for example in doctest.DocTestParser().get_examples(text):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(example.source, "<notebook>", "single"), variables)
            except Exception:
                printed.write(traceback.format_exc())
        if not matches(example.want, printed.getvalue()):
            return f">>> {example.source}{printed.getvalue()}-- was expected to print:\n{example.want}"
    return ""


def main(directory: Path, matches: Any) -> None:
    """Run what comes, until the process is ended."""
    variables: dict[str, Any] = {"__name__": "__main__"}
    while True:
        text = (directory / "cells").read_text()
        (directory / "results").write_text(run(text, variables, matches))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent.parent))
    from tests.docs.page_examples import matches

    main(Path(sys.argv[1]), matches)
