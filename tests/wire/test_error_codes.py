"""The compiled search for error codes, against a plain walk over all fields of any response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logbus.wire.codegen import ELEMENTS_PER_STEP
from logbus.wire.declaration import is_struct, struct_spec
from logbus.wire.error_codes import error_finder, incremental_error_finder
from logbus.wire.messages import api, api_keys, api_name
from logbus.wire.messages.groups import DeletableGroupResult, DeleteGroupsResponse
from logbus.wire.schema import message_spec
from tests.wire.instances import messages

FIND_COORDINATOR, DELETE_GROUPS = 10, 42


def codes(value: Any, version: int) -> Iterator[int]:
    """The error codes anywhere in a value."""
    if isinstance(value, list):
        for element in value:
            yield from codes(element, version)
    elif is_struct(type(value)):
        for name, spec in struct_spec(type(value)).fields.items():
            if not spec.versions.includes(version):
                continue
            given = getattr(value, name)
            if name in ("error_code", "partition_error_code"):
                if given:
                    yield given
            else:
                yield from codes(given, version)


class ErrorCodeTests(SynchronousTestCase):
    @settings(max_examples=5 * (settings.default.max_examples if settings.default else 100))
    @given(st.data())
    def test_all_responses(self, data: st.DataObject) -> None:
        """
        Every version of every response: all codes are found, nothing else is, and likewise in steps.
        """
        key = data.draw(st.sampled_from(sorted(api_keys())), "API")
        spec = message_spec(api(key).response)
        version = data.draw(st.integers(spec.versions.min, spec.versions.max), "version")
        response = data.draw(messages(spec, version))
        expected = sorted(codes(response, version))
        found: list[tuple[int, int]] = []
        find = error_finder(key, version)
        if find is not None:
            find(response, lambda *each: found.append(each))
        self.assertEqual(sorted(found), [(key, code) for code in expected], api_name(key))
        found.clear()
        steps = incremental_error_finder(key, version)
        if steps is not None:
            list(steps(response, lambda *each: found.append(each)))
        self.assertEqual(sorted(found), [(key, code) for code in expected], api_name(key))

    def test_steps_are_small(self) -> None:
        """
        A response of very many elements is searched some at a time.
        """
        count = 3 * ELEMENTS_PER_STEP + 1
        response = DeleteGroupsResponse(results=[DeletableGroupResult(group_id="g", error_code=69)] * count)
        find, found = incremental_error_finder(DELETE_GROUPS, 2), []
        assert find is not None
        sizes = [len(found) for _ in find(response, lambda *each: found.append(each))]
        self.assertEqual(sizes, [ELEMENTS_PER_STEP * n for n in (1, 2, 3)])
        self.assertEqual(found, [(DELETE_GROUPS, 69)] * count)
