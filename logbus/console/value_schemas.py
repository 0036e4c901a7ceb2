"""
The schemas of keys and values in the record browser, looked up in the schema registry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from logbus.admin.schema_registry import SchemaNotUsed
from logbus.console.api_client import ApiClient
from logbus.console.record_content import Schemas, schema_id

MOST_SCHEMAS = 10
"""On a page; values of others stay bytes."""


async def schemas_of(api: ApiClient, values: Iterable[Mapping[str, Any] | None]) -> Schemas:
    """
    Return the schemas that values may be of, as far as the user may see them.

    Any value may begin as if it had a schema: that there is none of that id is no problem.
    """
    ids = dict.fromkeys(found for value in values if (found := schema_id(value)) is not None)
    schemas: dict[int, Any] = {}
    if api.registry is not None:
        for each in list(ids)[:MOST_SCHEMAS]:
            try:
                schemas[each] = await api.registry.value_schema(each, api.access)
            except SchemaNotUsed as e:
                schemas[each] = str(e)
    return schemas
