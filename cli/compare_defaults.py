"""The attributes that a node has but for those at the default of its operator, which might as well be left out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import onnx.defs
import onnx_ir

from castsmith.ir.schemas import DEFAULT_DOMAINS, opset_of


def attributes_without_defaults(node: onnx_ir.Node, imports: Mapping[str, int] | None) -> dict[str, onnx_ir.Attr]:
    """By name; all of them where the opset or the operator is unknown."""
    opset = None if imports is None else opset_of(imports, node.domain)
    if opset is None:
        return dict(node.attributes)
    domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
    defaults = _defaults(domain, node.op_type, opset)
    return {
        name: attr for name, attr in node.attributes.items() if name not in defaults or not _same(attr, defaults[name])
    }


@lru_cache(maxsize=4096)
def _defaults(domain: str, op_type: str, opset: int) -> dict[str, onnx_ir.Attr]:
    try:
        schema = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return {}
    given = {name: formal.default_value for name, formal in schema.attributes.items() if formal.default_value.type}
    return {name: onnx_ir.from_proto(value) for name, value in given.items()}


def _same(attribute: onnx_ir.Attr, default: onnx_ir.Attr) -> bool:
    """Defaults are numbers and texts; repr tells zeros of different sign apart."""
    return not attribute.is_ref() and attribute.type == default.type and repr(attribute.value) == repr(default.value)
