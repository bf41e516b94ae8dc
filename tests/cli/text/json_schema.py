"""The part of JSON Schema that docs/schema uses, so that the layouts are tested without a further dependency."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None),
    "number": (int, float),
}  # fmt: skip
_KNOWN = {
    "$schema",
    "title",
    "type",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "minimum",
    "anyOf",
    "$ref",
    "$defs",
}


def violations(
    value: Any, schema: dict[str, Any], place: str = "", definitions: dict[str, Any] | None = None
) -> Iterator[str]:
    """Yield the parts of `value` that violate the schema."""
    known: dict[str, Any] = definitions or schema.get("$defs", {})
    if "$ref" in schema:
        schema = known[schema["$ref"].removeprefix("#/$defs/")]
    assert set(schema) <= _KNOWN, set(schema) - _KNOWN
    ways = [list(violations(value, way, place, known)) for way in schema.get("anyOf", ())]
    if ways and all(ways):
        yield from min(ways, key=len)
    if "const" in schema and value != schema["const"]:
        yield f"{place}: not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is none of {schema['enum']}"
    names = schema.get("type", [])
    types = [_TYPES[name] for name in ([names] if isinstance(names, str) else names)]
    if types and not any(isinstance(value, one) for one in types):
        yield f"{place}: {value!r} is no {names}"
    if "minimum" in schema and isinstance(value, int | float) and value < schema["minimum"]:
        yield f"{place}: {value} is too small"
    if isinstance(value, dict):
        entries: dict[str, Any] = value
        properties: dict[str, Any] = schema.get("properties", {})
        yield from (f"{place}: lacks {name}" for name in schema.get("required", []) if name not in entries)
        for name, entry in entries.items():
            if name in properties:
                yield from violations(entry, properties[name], f"{place}/{name}", known)
            elif schema.get("additionalProperties", True) is False:
                yield f"{place}: has {name}"
    if isinstance(value, list):
        elements: list[Any] = value
        for index, element in enumerate(elements):
            yield from violations(element, schema.get("items", {}), f"{place}/{index}", known)
