"""Sequences and optional values, declared or not, through whatever changes element types: the result is valid.

A pass that declares `tensor(float)` for a sequence of floats makes a model that no runtime loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import onnx
import onnx.parser
import onnx_ir
from onnx_ir import DataType

import castsmith
from castsmith.analysis.inference.containers import nestings
from castsmith.ir.ops.value_types import set_element_type
from castsmith.ir.records import Severity
from castsmith.targets.target import load_target
from tests.sampling import check_all, sampled

_PAIR = "s0 = SequenceConstruct(h, h)"
_LAST = "e = SequenceAt(s, i)"
_STEP = "int64 n, bool k"
BODIES = {
    "construct": f"s = SequenceConstruct(h, h) {_LAST}",
    "insert": f"s0 = SequenceConstruct(h) s = SequenceInsert(s0, h) {_LAST}",
    "erase": f"{_PAIR} s = SequenceErase(s0) e = SequenceAt(s, zero)",
    "empty": "s0 = SequenceEmpty<dtype = NUMBER>() s = SequenceInsert(s0, h) e = SequenceAt(s, zero)",
    "split": "s = SplitToSequence<axis = 0>(h) p = SequenceAt(s, i) e = Concat<axis = 0>(p, p)",
    "concat": f"{_PAIR} t = ConcatFromSequence<axis = 0, new_axis = 1>(s0) e = Gather<axis = 0>(t, zero)",
    "identity": f"{_PAIR} s = Identity(s0) {_LAST}",
    "map": f"{_PAIR} s = SequenceMap(s0, s0)<body = b (T[2] v, T[2] w) => (T[2] u) {{ u = Add(v, w) }}> {_LAST}",
    "if": f"""{_PAIR} s = If(c)<then_branch = yes () => (seq(T[2]) p) {{ p = Identity(s0) }},
        else_branch = no () => (seq(T[2]) q) {{ q = SequenceInsert(s0, h) }}> {_LAST}""",
    "loop": f"""{_PAIR} s = Loop(i, "", s0)<body = b ({_STEP}, seq(T[2]) v) => (bool go, seq(T[2]) w)
        {{ go = Identity(k) w = SequenceInsert(v, h) }}> {_LAST}""",
    "optional": "o = Optional(h) z = Identity(o) e = OptionalGetElement(z)",
    "optional sequence": f"{_PAIR} o = Optional(s0) s = OptionalGetElement(o) {_LAST}",
    "optional if": """o = If(c)<then_branch = yes () => (optional(T[2]) p) { p = Optional(h) },
        else_branch = no () => (optional(T[2]) q) { q = Optional<type = T[2]>() }> e = OptionalGetElement(o)""",
    "optional loop": f"""o = Optional(h) z = Loop(i, "", o)<body = b ({_STEP}, optional(T[2]) v) =>
        (bool go, optional(T[2]) w) {{ go = Identity(k) w = Identity(v) }}> e = OptionalGetElement(z)""",
    "function": "s = own.make(h) e = own.take(s)",
}
FUNCTIONS = """
<domain: "own", opset_import: ["": OPSET]> make (a) => (d) { b = Abs(a) d = SequenceConstruct(a, b) }
<domain: "own", opset_import: ["": OPSET]> take (a) => (d)
{ j = Constant<value = int64 {0}>() z = Identity(a) d = SequenceAt(z, j) }
"""


def model(body: str, dtype: str, opset: int, *, declared: bool) -> onnx.ModelProto:
    """Return a model whose values of the type are in sequences or optional values."""
    number = DataType[dtype.upper()].value
    text = f"""<ir_version: 10, opset_import: ["": OPSET, "own": 1]>
    g (uint8[2] x, bool c) => (float[2] y) <int64 i = {{1}}, int64 zero = {{0}}>
    {{ h = Cast<to = NUMBER>(x) {BODIES[body]} y = Cast<to = 1>(e) }} {FUNCTIONS if "own." in BODIES[body] else ""}"""
    text = text.replace("OPSET", str(opset)).replace("NUMBER", str(number)).replace("T[2]", f"{dtype}[2]")
    proto = onnx.parser.parse_model(text)
    onnx.checker.check_model(proto, full_check=True)
    return onnx.shape_inference.infer_shapes(proto) if declared else proto


def _older(newest: int) -> Callable[[onnx.ModelProto], castsmith.Result]:
    target = replace(load_target("onnxruntime-cpu"), newest_opset=newest)
    return lambda proto: castsmith.optimize(proto, target=target)


CHANGES: dict[str, Callable[[onnx.ModelProto], castsmith.Result]] = {
    **{
        f"optimize for {name}": lambda proto, name=name: castsmith.optimize(proto, target=name)
        for name in ("onnx-mlir", "tract", "tensorrt-11", "onnxruntime-cpu")
    },
    **{
        f"convert to {to} for {target}": lambda proto, to=to, target=target: castsmith.convert(
            proto, to=to, target=target
        )
        for to in ("float16", "bfloat16", "float")
        for target in (None, "tensorrt-11")
    },
    **{f"opset {newest}": _older(newest) for newest in (13, 15, 18)},
}


def cases() -> Iterator[tuple[str, str, int, bool, str]]:
    for body in BODIES:
        for dtype in ("float16", "float", "double", "int64"):
            for opset in (17, 21):
                yield from ((body, dtype, opset, declared, change) for declared in (False, True) for change in CHANGES)


def require_valid(body: str, dtype: str, opset: int, declared: bool, change: str) -> None:
    proto = model(body, dtype, opset, declared=declared)
    try:
        result = CHANGES[change](proto)
    except castsmith.OptionError as error:
        if "nothing in it is of" not in str(error):
            raise
        return
    if not any(finding.severity is Severity.ERROR for finding in result.diagnostics):
        onnx.checker.check_model(onnx_ir.to_proto(result.model), full_check=True)


def test_sequences_and_optional_values_keep_their_structure() -> None:
    check_all(require_valid, sampled("nested types", cases(), 150, cover=lambda case: case))


def test_the_nesting_of_undeclared_values_follows_from_operators() -> None:
    for body in BODIES:
        undeclared, declared = (onnx_ir.from_proto(model(body, "float", 21, declared=given)) for given in (False, True))
        found = {value.name: nesting for value, nesting in nestings(undeclared).items()}
        for value, nesting in nestings(declared).items():
            assert found.get(value.name) == nesting, (body, value)


def test_the_element_type_of_a_nested_type_changes_alone() -> None:
    nested = onnx_ir.OptionalType(onnx_ir.SequenceType(onnx_ir.TensorType(DataType.FLOAT16)))
    value = onnx_ir.Value(name="x", type=nested)
    set_element_type(value, DataType.FLOAT)
    assert value.type == onnx_ir.OptionalType(onnx_ir.SequenceType(onnx_ir.TensorType(DataType.FLOAT)))
    assert nested.dtype == DataType.FLOAT16
