"""Write `ir/ops/contrib.json` again from the schemas of the installed ONNX Runtime.

python -m tests.ir.ops.contrib_schemas [--write]      without --write: print the differences
"""

# The bindings of ONNX Runtime have no types.
# pyright: basic

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[3] / "ir" / "ops" / "contrib.json"
_MARKS = {"Optional": "?", "Variadic": "*"}


def installed() -> dict[str, Any]:
    """The newest schema of each operator of com.microsoft that takes and gives tensors alone."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    found = [schema for schema in get_all_operator_schema() if schema.domain == "com.microsoft"]
    newest = {schema.name: schema for schema in sorted(found, key=lambda each: each.since_version)}
    rows = {name: _row(schema) for name, schema in sorted(newest.items()) if not schema.deprecated}
    return {name: row for name, row in rows.items() if row is not None}


def _row(schema: Any) -> dict[str, Any] | None:
    types = {each.type_param_str: sorted(each.allowed_type_strs) for each in schema.type_constraints}
    texts = [text for each in types.values() for text in each]
    parameters = [*schema.inputs, *schema.outputs]
    texts += [each.typeStr for each in parameters if each.typeStr not in types]
    if any(not text.startswith("tensor(") for text in texts):
        return None
    plain = {name: [text[7:-1] for text in each] for name, each in types.items()}
    row: dict[str, Any] = {
        "inputs": [_text(each, types) for each in schema.inputs],
        "outputs": [_text(each, types) for each in schema.outputs],
        "types": plain,
    }
    optional = {each.name: _kind(each) for each in schema.attributes.values() if not each.required}
    row |= {"optional": dict(sorted(optional.items()))} if optional else {}
    required = {each.name: _kind(each) for each in schema.attributes.values() if each.required}
    return {**row, "attributes": dict(sorted(required.items()))} if required else row


def _kind(attribute: Any) -> str:
    return str(attribute.type).rpartition(".")[2]


def _text(parameter: Any, types: dict[str, list[str]]) -> str:
    name = parameter.typeStr if parameter.typeStr in types else parameter.typeStr[7:-1]
    mark = _MARKS.get(str(parameter.option).rpartition(".")[2], "")
    return name + mark + ("" if parameter.isHomogeneous else "~")


def text_of(rows: dict[str, Any]) -> str:
    """The JSON of the file, one operator in a line."""
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()) + "\n}\n"


if __name__ == "__main__":
    text = text_of(installed())
    if "--write" in sys.argv:
        FILE.write_text(text, encoding="utf-8")
    else:
        before = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
        now = json.loads(text)
        print(*(name for name in {**before, **now} if before.get(name) != now.get(name)), sep="\n")
