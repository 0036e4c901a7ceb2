"""Types of options that are numbers, with errors in plain words; ``nan`` and ``inf`` are no numbers."""

from __future__ import annotations

import math
from typing import Any

import click


class IntRange(click.IntRange):
    """A whole number within bounds."""

    name = "integer"


class FloatRange(click.FloatRange):
    """A number within bounds."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """
        Convert the text of an option.

        :raise click.BadParameter: it is no number, or out of bounds.
        """
        converted = super().convert(value, param, ctx)
        if not math.isfinite(converted):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return converted
