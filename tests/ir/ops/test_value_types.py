"""Attributes that name element types: the table has those of every opset, and a lowering leaves none behind."""

from __future__ import annotations

import re

import onnx.checker
import onnx.defs
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.ops.table import TRAITS
from castsmith.ir.records import Severity
from castsmith.lowering.check.run import findings
from castsmith.lowering.pipeline import optimize
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import type_name
from castsmith.targets.target import load_target
from tests.versions import ONNX

_DESCRIBED = re.compile(r"(?i)data ?type|precision|type of")
_NAMED = re.compile(r"(?i)to|.*type|.*precision")

_WINDOW = "(int64 n) => (float[N] y) {{ w = {} <output_datatype = CODE> (n) y = Cast <to = 1> (w) }}"
_LIKE = "(float[3,3] x) => (float[3,3] y) {{ w = {} <dtype = CODE> (x) y = Cast <to = 1> (w) }}"
BODIES = {
    **{name: _WINDOW.format(name) for name in ("HannWindow", "HammingWindow", "BlackmanWindow")},
    **{name: _LIKE.format(name) for name in ("EyeLike", "Bernoulli", "RandomNormalLike", "RandomUniformLike")},
    "RandomNormal": "() => (float[3] y) { w = RandomNormal <dtype = CODE, shape = [3]> () y = Cast <to = 1> (w) }",
    "MelWeightMatrix": "(int64 b, int64 d, int64 s, float l, float h) => (float[N,M] y)"
    " { w = MelWeightMatrix <output_datatype = CODE> (b, d, s, l, h) y = Cast <to = 1> (w) }",
    "Optional": "(bool c) => (float[3] y) { w = If (c) <then_branch = t () => (optional(NAME[3]) p) {"
    " p = Optional <type = NAME[3]> () }, else_branch = e () => (optional(NAME[3]) q) {"
    " q = Optional <type = NAME[3]> () }> v = OptionalGetElement (w) y = Cast <to = 1> (v) }",
    "LayerNormalization": "(float[3,3] x, float[3] s) => (float[3,3] y, float[3,1] m)"
    " { y, w = LayerNormalization <stash_type = CODE> (x, s) m = Cast <to = 1> (w) }",
    "DequantizeLinear": "(uint8[3] x, float s) => (float[3] y)"
    " { w = DequantizeLinear <output_dtype = CODE> (x, s) y = Cast <to = 1> (w) }",
    "QuantizeLinear": "(float[3] x, float s) => (float[3] y)"
    " { w = QuantizeLinear <output_dtype = CODE> (x, s) y = Cast <to = 1> (w) }",
}


def _body(name: str, dtype: DataType) -> str:
    return BODIES[name].replace("CODE", str(int(dtype))).replace("NAME", type_name(dtype))


def _by_the_schemas() -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    kinds = onnx.defs.OpSchema.AttrType
    for schema in onnx.defs.get_all_schemas_with_history():
        for attribute in schema.attributes.values():
            named = _NAMED.fullmatch(attribute.name) and _DESCRIBED.search(attribute.description)
            if (named and attribute.type == kinds.INT) or attribute.type == kinds.TYPE_PROTO:
                found.setdefault((schema.domain, schema.name), set()).add(attribute.name)
    return found


def test_the_table_has_what_the_schemas_have() -> None:
    table, found = {key: set(row.types) for key, row in TRAITS.items() if row.types}, _by_the_schemas()
    if ONNX >= (1, 23):
        assert table == found
    else:  # an older onnx lacks operators and opsets that the table has
        assert all(names <= table.get(key, set()) for key, names in found.items())


@pytest.mark.parametrize("name", BODIES)
def test_a_type_that_only_an_attribute_names_is_lowered(name: str) -> None:
    """Without value_info, the attribute is the only place where the model names the type."""
    for dtype in (DataType.FLOAT16, DataType.BFLOAT16, DataType.FLOAT8E4M3FN, DataType.INT4):
        model = onnx.parser.parse_model(f'<ir_version: 13, opset_import: ["": 23]> g {_body(name, dtype)}')
        try:
            onnx.checker.check_model(model, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
            continue  # not a type that the operator gives
        for target in ("onnxruntime-cpu", "onnxruntime-android", "tensorrt-10"):
            result = optimize(model, target=target)
            onnx.checker.check_model(onnx_ir.to_proto(result.model), full_check=True)
            found = findings(result.model, PromotionRules(), load_target(target))
            errors = [each.message for each in found if each.severity is Severity.ERROR]
            said = any(each.severity is Severity.ERROR for each in result.diagnostics)
            assert said or not errors, (name, type_name(dtype), target)
