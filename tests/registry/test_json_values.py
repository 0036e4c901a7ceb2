"""Values that a JSON schema allows; and schemas that cannot be applied."""

from __future__ import annotations

import json

import pytest

from logbus.registry.json_values import json_writer


def test_written() -> None:
    """A value that fits is compact JSON, another is refused."""
    write = json_writer('{"type": "object", "required": ["g"]}')
    assert write({"g": "tea"}) == b'{"g":"tea"}'
    with pytest.raises(ValueError, match="at /: 'g' is a required property"):
        write({})


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e400"])
def test_not_finite(text: str) -> None:
    """Python's JSON has numbers that no other one can read; they are not written."""
    with pytest.raises(ValueError, match="JSON has neither NaN nor infinity"):
        json_writer('{"type": "array", "items": {"type": "number"}}')(json.loads(f"[{text}]"))


def test_nothing_is_fetched() -> None:
    """What a reference names elsewhere is not looked for in the network: one line says so."""
    write = json_writer('{"$ref": "http://127.0.0.1:1/schema.json"}')
    with pytest.raises(ValueError, match="the schema cannot be applied: Unresolvable"):
        write({})


def test_no_schema() -> None:
    """What is no schema is refused before any value."""
    with pytest.raises(ValueError, match="it is not a JSON Schema"):
        json_writer('{"type": 7}')
