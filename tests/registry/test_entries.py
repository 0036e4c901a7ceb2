"""Tests of the records of the topic, and of the state they give."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.registry.entries import ConfigEntry, DeleteSubjectEntry, SchemaEntry, decode, encode
from logbus.registry.limits import RegistryLimits
from logbus.registry.model import Schema
from logbus.registry.state import RegistryState
from tests.registry.kit import GIFT, ORDER, PRICE, Registry


class EntryTests(SynchronousTestCase):
    """Spelling."""

    def test_golden(self) -> None:
        """Keys and values are those of Confluent's registry."""
        key, value = encode(SchemaEntry("a-value", 2, 7, Schema('"int"', "d"), False))
        self.assertEqual(key, b'{"keytype":"SCHEMA","subject":"a-value","version":2,"magic":1}')
        self.assertEqual(
            value, b'{"subject":"a-value","version":2,"id":7,"schema":"\\"int\\"","deleted":false,"digest":"d"}'
        )
        key, value = encode(ConfigEntry(None, "FULL"))
        self.assertEqual(key, b'{"keytype":"CONFIG","subject":null,"magic":0}')
        self.assertEqual(json.loads(value or b"")["compatibilityLevel"], "FULL")

    def test_of_another_registry(self) -> None:
        """Records of Confluent's registry are decoded: with additional fields, and without the digest."""
        read = decode(
            b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
            b'{"subject":"s","version":1,"id":5,"md5Bytes":"x","schema":"\\"int\\"","deleted":false}',
        )
        assert isinstance(read, SchemaEntry) and read.schema is not None
        self.assertEqual((read.id, read.schema.text, read.schema.schema_type), (5, '"int"', "AVRO"))
        self.assertIsNone(decode(b'{"keytype":"NOOP","magic":0}', None))
        self.assertIsNone(decode(b'{"keytype":"CONTEXT","magic":0}', b"{}"))
        self.assertEqual(
            decode(b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}', b'{"subject":"s","version":3}'),
            DeleteSubjectEntry("s", 3),
        )

    @given(
        st.binary(max_size=20) | st.none(),
        st.fixed_dictionaries(
            {},
            optional={
                "keytype": st.sampled_from(["SCHEMA", "CONFIG", "MODE", "DELETE_SUBJECT", "HIGHEST_ID", "NOOP", 1]),
                "subject": st.sampled_from(["s", None, 1]),
                "version": st.sampled_from([1, 0, "1", True]),
            },
        ),
    )
    def test_strange_records(self, value: bytes | None, key: Any) -> None:
        """Other records raise ValueError."""
        for each in (value, b"[]", b'{"id":1,"schema":1}', b'{"references":3,"schema":"","id":1}', None):
            try:
                entry = decode(json.dumps(key).encode(), each)
            except ValueError:
                continue
            if entry is not None:
                RegistryState().apply(entry)
        for strange in (None, b"", b"\xff", b"[" * 5000):
            self.assertRaises(ValueError, decode, strange, None)


def steps() -> st.SearchStrategy[tuple[Any, ...]]:
    """Something asked of a registry."""
    subject = st.sampled_from(["a", "b"])
    return st.one_of(
        st.tuples(st.just("register"), subject, st.sampled_from([ORDER, GIFT, PRICE, "int"])),
        st.tuples(st.just("delete"), subject, st.sampled_from(["", "/versions/latest", "/versions/1"]), st.booleans()),
        st.tuples(st.just("config"), subject, st.sampled_from(["NONE", "FULL"])),
        st.tuples(st.just("compact")),
    )


class StateTests(SynchronousTestCase):
    """The log and the state machine."""

    @settings(max_examples=100)
    @given(st.lists(steps(), max_size=30))
    def test_history(self, history: list[tuple[Any, ...]]) -> None:
        """Whatever happens: who reads the log, compacted or not, knows the same; an id means one schema for ever."""
        registry = Registry(evolve(RegistryLimits(), versions=5))
        meant: dict[int, str] = {}
        for step in history:
            match step:
                case "register", subject, schema:
                    registry.register(subject, schema)
                case "delete", subject, where, permanent:
                    registry.ask("DELETE", f"/subjects/{subject}{where}", permanent=permanent)
                case "config", subject, level:
                    registry.ask("PUT", f"/config/{subject}", {"compatibility": level})
                case _:
                    registry = registry.reread(compacted=True)
            for schema_id, one in registry.state.schemas.items():
                self.assertEqual(meant.setdefault(schema_id, one.text), one.text)
                self.assertLessEqual(schema_id, registry.state.highest_id)
            for other in (registry.reread(), registry.reread(compacted=True)):
                for name in ("subjects", "schemas", "levels", "modes", "highest_id", "stored_bytes"):
                    self.assertEqual(getattr(other.state, name), getattr(registry.state, name), name)
            self.assertEqual(registry.state.stored_bytes, sum(len(s.text) for s in registry.state.schemas.values()))
