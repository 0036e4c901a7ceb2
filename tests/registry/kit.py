"""A registry over a log in memory, without a broker."""

from __future__ import annotations

import json
from typing import Any

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from logbus.registry.entries import decode, encode
from logbus.registry.limits import RegistryLimits
from logbus.registry.requests import RegistryRequest, RegistryResponse, run
from logbus.registry.routes import answer
from logbus.registry.state import RegistryState

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "what", "type": "string"}]}
GIFT = {
    "type": "record",
    "name": "Order",
    "fields": [*ORDER["fields"], {"name": "to", "type": "string", "default": ""}],
}
PRICE = {"type": "record", "name": "Order", "fields": [*ORDER["fields"], {"name": "price", "type": "long"}]}


@define(eq=False)
class Registry:
    """
    :ivar log: keys and values, as they would be in the topic.
    """

    limits: RegistryLimits = field(factory=RegistryLimits)
    state: RegistryState = field(factory=RegistryState)
    log: list[tuple[bytes, bytes | None]] = field(factory=list)

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        told = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in query.items()}
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = RegistryRequest(method, tuple(part for part in path.split("/") if part), told, data)
        outcome = run(answer(RegistryRequest.from_bytes(request.as_bytes()), self.state, self.limits, "cluster"))
        for entry in outcome.entries:
            self.log.append(encode(entry))
            self.take(self.log[-1])
        back = RegistryResponse.from_bytes(outcome.answer.as_bytes())
        return back.status, json.loads(back.body)

    def take(self, record: tuple[bytes, bytes | None]) -> None:
        """Read a record of the log."""
        entry = decode(*record)
        if entry is not None:
            self.state.apply(entry)

    def register(self, subject: str, schema: Any, schema_type: str = "AVRO", **more: Any) -> tuple[int, Any]:
        """Register a schema."""
        body = {"schema": json.dumps(schema), "schemaType": schema_type, **more}
        return self.ask("POST", f"/subjects/{subject}/versions", body)

    def reread(self, compacted: bool = False) -> Registry:
        """Return the state that another broker would get from the log, compacted or not."""
        other = Registry(self.limits)
        last = {key: index for index, (key, _) in enumerate(self.log)}
        other.log = [
            (key, value)
            for index, (key, value) in enumerate(self.log)
            if not compacted or (last[key] == index and value is not None)
        ]
        for record in other.log:
            other.take(record)
        return other


class RegistryCase(SynchronousTestCase):
    """A test of an empty registry."""

    def setUp(self) -> None:
        self.registry = Registry()

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Return the body of an answer with status 200."""
        status, found = self.registry.ask(method, path, body, **query)
        self.assertEqual(status, 200, found)
        return found

    def refused(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, int]:
        """The status and the code of a refusal, which says something."""
        status, found = self.registry.ask(method, path, body, **query)
        self.assertEqual(set(found), {"error_code", "message"}, found)
        self.assertTrue(found["message"])
        return status, found["error_code"]

    def register(self, subject: str, schema: Any, schema_type: str = "AVRO", **more: Any) -> int:
        """The id of a schema that is taken."""
        status, found = self.registry.register(subject, schema, schema_type, **more)
        self.assertEqual(status, 200, found)
        return int(found["id"])
