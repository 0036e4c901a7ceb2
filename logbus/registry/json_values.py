"""
Values that a JSON schema allows. Needs jsonschema, of the extra ``jsonschema``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from logbus.extras import install_hint


def json_writer(schema: str) -> Callable[[Any], bytes]:
    """
    Return what makes compact JSON of values, or raises ValueError if the schema does not allow them.

    :raise ValueError: jsonschema is not installed.
    """
    try:
        from jsonschema.exceptions import best_match
        from jsonschema.validators import Draft7Validator, validator_for
    except ImportError:
        raise ValueError(f"JSON Schema needs jsonschema, which is not installed: {install_hint('registry')}") from None
    parsed = json.loads(schema)
    validator = validator_for(parsed, default=Draft7Validator)(parsed)

    def write(value: Any) -> bytes:
        error = best_match(validator.iter_errors(value))
        if error is not None:
            where = "".join(f"/{each}" for each in error.absolute_path)
            raise ValueError(f"at {where or '/'}: {error.message:.200}")
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    return write
