"""The options of classes, and of the typed dictionaries that name them once more."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any, is_typeddict


def options_of(found: Any) -> set[str]:
    """The keyword arguments of a class, or the keys of a typed dictionary."""
    if is_typeddict(found):
        return set(found.__optional_keys__ | found.__required_keys__)
    return {
        each.name
        for each in signature(found).parameters.values()
        if each.kind is Parameter.KEYWORD_ONLY and each.name != "self"
    }
