"""Functions are typed in each of their calls."""

from __future__ import annotations

from onnx_ir import DataType

from castsmith.analysis.inference.walk import called_with_several_types, infer_element_types
from castsmith.numerics.promotion.rules import PromotionRules
from tests.analysis.inference.test_disagreement import UNSAFE, parsed, types

_CALLS = """g (float16[2] h, float[2] x) => (y, z) {{ y = f.add (h, {0}) z = f.add ({1}, x) }}
    <domain: "f", opset_import: ["" : 21]> add (a, b) => (r) {{ s = Neg (b) r = Add (a, s) }}"""


def test_a_function_is_typed_in_each_call() -> None:
    once, twice = parsed(_CALLS.format("x", "h")), parsed(_CALLS.format("h", "x"))
    (function,) = twice.functions.values()
    assert types(once) == [DataType.FLOAT, DataType.FLOAT]
    assert types(twice) == [DataType.FLOAT16, DataType.FLOAT]
    found = infer_element_types(twice, UNSAFE)
    assert called_with_several_types(found) == {function.graph}
    assert {tuple(dtype for dtype, _ in each) for each in found.signatures[function]} == {
        (DataType.FLOAT16, DataType.FLOAT16), (DataType.FLOAT, DataType.FLOAT),
    }  # fmt: skip
    assert not found.to_convert
    found, (function,) = infer_element_types(once, UNSAFE), once.functions.values()
    assert called_with_several_types(found) == frozenset()
    assert found.to_convert
    assert [each.common for each in found.disagreements[function[-1]]] == [DataType.FLOAT]


def test_a_rank_counts_in_a_call_if_the_rules_ask_for_it() -> None:
    text = """g (float[2] x, double d) => (y) { y = f.add (x, d) }
        <domain: "f", opset_import: ["" : 21]> add (a, b) => (r) { r = Add (a, b) }"""
    torch = PromotionRules(promote_unsafe=True, pytorch_scalar_promotion=True)
    assert (types(parsed(text)), types(parsed(text), torch)) == ([DataType.DOUBLE], [DataType.FLOAT])
    assert types(parsed(text.replace("double d", "double[2] d")), torch) == [DataType.DOUBLE]
