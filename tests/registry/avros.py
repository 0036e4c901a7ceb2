"""Hypothesis strategies for Avro schemas, their changes, and their data."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

PLAIN = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
WORDS = ("a", "b", "c", "d")


@st.composite
def avro_types(draw: st.DrawFn, depth: int = 3, names: list[str] | None = None) -> Any:
    """A type; records, enums and fixeds have names of their own, and may be met again by these."""
    names = [] if names is None else names
    kinds = ["plain"] * 3 + (["record", "array", "map", "union"] if depth else []) + ["enum", "fixed", "known"]
    kind = draw(st.sampled_from(kinds))
    if kind == "known" and names:
        return draw(st.sampled_from(names))
    if kind in ("plain", "known"):
        return draw(st.sampled_from(PLAIN))
    if kind == "array":
        return {"type": "array", "items": draw(avro_types(depth - 1, names))}
    if kind == "map":
        return {"type": "map", "values": draw(avro_types(depth - 1, names))}
    if kind == "union":
        branches = draw(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=3, unique=True))
        if draw(st.booleans()):
            branches.insert(draw(st.integers(0, len(branches))), draw(_named(depth - 1, names)))
        return branches
    return draw(_named(depth, names, kind))


@st.composite
def _named(draw: st.DrawFn, depth: int, names: list[str], kind: str | None = None) -> Any:
    kind = kind or draw(st.sampled_from(["record", "enum", "fixed"]))
    name = f"N{len(names)}"
    names.append(name)
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCD"), min_size=1, unique=True))
        made: dict[str, Any] = {"type": "enum", "name": name, "symbols": symbols}
        if draw(st.booleans()):
            made["default"] = draw(st.sampled_from(symbols))
        return made
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": draw(st.integers(1, 3))}
    fields = []
    for word in draw(st.lists(st.sampled_from(WORDS), max_size=3, unique=True)):
        # A record in itself without end has no data: so only as one of several.
        known = [*names] if depth else [each for each in names if each != name]
        found = draw(avro_types(max(depth - 1, 0), [])) if not names else draw(avro_types(max(depth - 1, 0), names))
        if isinstance(found, str) and found in known:
            found = ["null", found]
        one: dict[str, Any] = {"name": word, "type": found}
        if isinstance(found, list) and found[0] == "null" and draw(st.booleans()):
            one["default"] = None
        if found == "string" and draw(st.booleans()):
            one["default"] = "d"
        fields.append(one)
    return {"type": "record", "name": name, "fields": fields}


@st.composite
def changed(draw: st.DrawFn, schema: Any) -> Any:
    """The schema after one or several changes, each of which may be compatible or not."""
    schema = copy.deepcopy(schema)
    for _ in range(draw(st.integers(0, 4))):
        places = list(_places(schema, []))
        place = draw(st.sampled_from(places))
        schema = _put(schema, place, draw(_change(_at(schema, place))))
    return schema


@st.composite
def _change(draw: st.DrawFn, one: Any) -> Any:
    if isinstance(one, str):
        wider = {"int": "long", "long": "double", "float": "double", "string": "bytes", "bytes": "string"}
        return draw(st.sampled_from([wider.get(one, one), [one, "null"] if one != "null" else one, *PLAIN[:4]]))
    if isinstance(one, list):
        more = [each for each in PLAIN if each not in one]
        picked = draw(st.sampled_from(["more", "less", "turned", "first"]))
        if picked == "more":
            return [*one, draw(st.sampled_from(more))]
        if picked == "less" and len(one) > 1:
            return one[:-1]
        return one[::-1] if picked == "turned" else one[0]
    made = dict(one)
    if one["type"] == "enum":
        made["symbols"] = draw(st.sampled_from([one["symbols"], [*one["symbols"], "Z"], one["symbols"][:1]]))
        if made.get("default") not in made["symbols"]:
            made.pop("default", None)
        if draw(st.booleans()):
            made["default"] = made["symbols"][0]
    elif one["type"] == "fixed" and draw(st.booleans()):
        made["size"] += 1
    elif one["type"] == "record":
        fields = list(one["fields"])
        picked = draw(st.sampled_from(["more", "less", "turned", "renamed", "default"]))
        if picked == "more":
            field = {"name": draw(st.sampled_from(["x", "y"])), "type": "int"}
            if draw(st.booleans()):
                field["default"] = 0  # type: ignore[assignment]
            fields = [each for each in fields if each["name"] != field["name"]] + [field]
        elif picked == "less":
            fields = fields[1:]
        elif picked == "turned":
            fields = fields[::-1]
        elif picked == "renamed" and fields:
            old = fields[0]
            name = draw(st.sampled_from(["r", *WORDS]))
            if name not in [each["name"] for each in fields]:
                fields[0] = {**old, "name": name, "aliases": [*old.get("aliases", []), old["name"]]}
        made["fields"] = fields
    elif draw(st.booleans()) and one["type"] in ("array", "map"):
        return one.get("items") or one["values"]
    return made


def _places(schema: Any, place: list[Any]) -> Any:
    yield place
    if isinstance(schema, list):
        for index, each in enumerate(schema):
            yield from _places(each, [*place, index])
    elif isinstance(schema, dict):
        for name in ("items", "values"):
            if name in schema:
                yield from _places(schema[name], [*place, name])
        for index, field in enumerate(schema.get("fields", [])):
            yield from _places(field["type"], [*place, "fields", index, "type"])


def _at(schema: Any, place: list[Any]) -> Any:
    for part in place:
        schema = schema[part]
    return schema


def _put(schema: Any, place: list[Any], value: Any) -> Any:
    if not place:
        return value
    _at(schema, place[:-1])[place[-1]] = value
    return schema


@st.composite
def data_of(draw: st.DrawFn, schema: Any, names: dict[str, Any] | None = None, depth: int = 0) -> Any:
    """A value of a type, small where it could go on for ever; branches of unions are named where it matters."""
    if names is None:
        found = [_at(schema, place) for place in _places(schema, [])]
        names = {each["name"]: each for each in found if isinstance(each, dict) and "name" in each}
    if isinstance(schema, str) and schema in names:
        schema = names[schema]
    if isinstance(schema, list):
        branches = [each for each in schema if depth < 4 or each == "null"] or schema
        picked = draw(st.sampled_from(branches))
        value = draw(data_of(picked, names, depth + 1))
        named = picked["name"] if isinstance(picked, dict) and "name" in picked else picked
        return (named, value) if isinstance(named, str) and named not in ("array", "map") else value
    kind = schema if isinstance(schema, str) else schema["type"]
    match kind:
        case "null":
            return None
        case "boolean":
            return draw(st.booleans())
        case "int" | "long":
            return draw(st.integers(-(1 << 31), (1 << 31) - 1))
        case "float" | "double":
            return draw(st.sampled_from([0.0, -1.5, 2.0**20]))
        case "bytes":
            return draw(st.text("xyz", max_size=3)).encode()
        case "string":
            return draw(st.text("xyzé", max_size=3))
        case "fixed":
            return b"f" * schema["size"]
        case "enum":
            return draw(st.sampled_from(schema["symbols"]))
        case "array":
            return draw(st.lists(data_of(schema["items"], names, depth + 1), max_size=2 if depth < 4 else 0))
        case "map":
            values = data_of(schema["values"], names, depth + 1)
            return draw(st.dictionaries(st.sampled_from(WORDS), values, max_size=2 if depth < 4 else 0))
    return {each["name"]: draw(data_of(each["type"], names, depth + 1)) for each in schema["fields"]}
