"""
Values that a JSON schema allows. Needs jsonschema, of the extra ``jsonschema``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from logbus.client.serializers import SerializationError
from logbus.errors import ConfigError


def json_writer(schema: str) -> Callable[[Any], bytes]:
    """
    Return what makes compact JSON of values, or raises ValueError if the schema does not allow them.

    :raise ValueError: it is not a JSON Schema, or jsonschema is not installed.
    """
    try:
        from logbus.client.schema.json_schema import best_error, validator_of
    except ImportError as e:
        raise ValueError(str(e)) from None
    try:
        validator = validator_of(schema, "it")
    except ConfigError as e:
        raise ValueError(str(e)) from None

    def write(value: Any) -> bytes:
        try:
            error = best_error(validator, value)
        except SerializationError as e:
            raise ValueError(str(e)) from None
        if error is not None:
            where = "".join(f"/{each}" for each in error.absolute_path)
            raise ValueError(f"at {where or '/'}: {error.message:.200}")
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except ValueError:
            raise ValueError("JSON has neither NaN nor infinity, which a number beyond 1.8e308 becomes") from None
        return text.encode()

    return write
