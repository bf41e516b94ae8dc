"""Each way in which a node does not fit its schema, beside the nearest that fits; and of what kind a flaw is."""

from __future__ import annotations

import onnx.defs
import onnx_ir
import pytest

from castsmith.ir.errors import ModelError, OpsetError
from castsmith.ir.records import Flaw
from castsmith.ir.validation import nonconformity, require_known_opset, require_order, require_sound, requires_input

HEAD = '<ir_version: 10, opset_import: ["": {}, "qonnx.custom_op.general": 1, "f": 1, "odd": 1]>'
FUNCTIONS = """<domain: "f", opset_import: ["": 21]> two (a, b) => (c) { c = Add (a, b) }"""
LOOP = "l = Loop ({}) <body = b ({}) => ({}) {{ {} }}>"
SCAN = "l = Scan <body = b ({}) => ({}) {{ {} }}, num_scan_inputs = {}> ({})"
Q = "qonnx.custom_op.general"

# opset, node, fault (empty if it fits)
NODES: list[tuple[int, str, str]] = [
    (21, "l = Add (x, x)", ""),
    (21, "l = Add (x)", "Add has 1 input, expected 2"),
    (21, "l = Add (x, x, x)", "Add has 3 inputs, expected 2"),
    (21, "l = Clip (x, , x)", ""),
    (21, "l = Clip (x, x, x, x)", "Clip has 4 inputs, expected at most 3"),
    (21, "l = Clip ()", "Clip has 0 inputs, expected at least 1"),
    (10, "l = Clip (x, x)", "Clip has 2 inputs, expected 1"),
    (21, "l, m = Add (x, x)", "Add has 2 outputs, expected 1"),
    (21, "l, m, o, p = Dropout (x)", "Dropout has 4 outputs, expected at most 2"),
    (21, "l = Clip (, x)", "Clip lacks the required input 0"),
    (21, "l = Where (x, , x)", "Where lacks the required input 1"),
    (21, "l = Concat (x)", "Concat lacks the required attribute axis"),
    (21, "l = Concat <axis = 0> ()", "Concat has 0 inputs, expected at least 1"),
    (21, "l = Concat <axis = 1.0> (x)", "the attribute axis of Concat is FLOAT, expected INT"),
    (21, "l = Concat <axis = 0, other = 1.0> (x)", ""),  # its schema does not define it
    (21, "l = Cast <to = 10> (x)", ""),
    (21, "l = Cast <to = 0> (x)", "the attribute to of Cast is 0, which is not an ONNX element type"),
    (21, "l = QuantizeLinear <output_dtype = 0> (x, x)", ""),  # its default
    (21, "l = QuantizeLinear <output_dtype = 77> (x, x)",
     "the attribute output_dtype of QuantizeLinear is 77, which is not an ONNX element type"),
    (21, "l = Softmax <axis = 77> (x)", ""),  # no type
    (13, "l = CastLike (x)", "CastLike has 1 input, expected 2"),  # by the schema of opset 15
    (21, "l = Upsample <mode = 1> (x, x)", "the attribute mode of Upsample is INT, expected STRING"),
    (21, "l = Unheard (x, x, x)", ""),
    (21, "l = odd.Add (x)", ""),
    (21, "l = f.two (x)", ""),
    (21, "l = f.two (x, x, x)", "two has 3 inputs, expected at most 2"),
    (21, "l, m = f.two (x)", "two has 2 outputs, expected at most 1"),
    (21, f"l = {Q}.Quant <signed = 1> (x, x, x, x)", ""),
    (21, f"l = {Q}.Quant (x, x, x)", "Quant has 3 inputs, expected 4"),
    (21, f"l = {Q}.IntQuant (x, x, x)", "IntQuant has 3 inputs, expected 4"),
    (21, f"l = {Q}.BipolarQuant (x)", "BipolarQuant has 1 input, expected 2"),
    (21, f"l = {Q}.FloatQuant (x, x, x, x, x)", "FloatQuant has 5 inputs, expected 6"),
    (21, f"l = {Q}.FloatQuant (x, x, , x, x, x)", "FloatQuant lacks the required input 2"),
    (21, f"l = {Q}.Trunc (x)", ""),  # its version decides
    (21, f"l, m = {Q}.Trunc (x)", "Trunc has 2 outputs, expected 1"),
    *((21, f"l = {Q}.Quant <{name} = 1.0> (x, x, x, x)", f"the attribute {name} of Quant is FLOAT, expected INT")
      for name in ("signed", "narrow", "has_inf", "has_nan", "has_subnormal", "saturation")),
    (21, f"l = {Q}.Trunc <rounding_mode = 1> (x)", "the attribute rounding_mode of Trunc is INT, expected STRING"),
    (21, "l = If (c) <then_branch = t () => (p) { p = Neg (x) }, else_branch = e () => (q) { q = Neg (x) }>", ""),
    (21, "l = If (c) <then_branch = t () => (p) { p = Neg (x) }>", "If lacks the required attribute else_branch"),
    (21, "l = If (c) <then_branch = t () => (p, p) { p = Neg (x) }, else_branch = e () => (q) { q = Neg (x) }>",
     "If has 1 output, but its then_branch returns 2"),
    (21, "l, m = If (c) <then_branch = t () => (p, p) { p = Neg (x) }, else_branch = e () => (q) { q = Neg (x) }>",
     "If has 2 outputs, but its else_branch returns 1"),
    (21, LOOP.format("n, c, x", "i, b, s", "b, s", ""), ""),
    (21, LOOP.format("n, c", "i, b", "b, i", ""), ""),  # a scan output
    (21, LOOP.format("n, c, x", "i, b", "b, b", ""),
     "the body of Loop has 2 inputs and 2 outputs, expected 3 inputs and 2 outputs"),
    (21, LOOP.format("n, c, x", "i, b, s", "b, s, s", ""),
     "the body of Loop has 3 inputs and 3 outputs, expected 3 inputs and 2 outputs"),
    (21, LOOP.format("n, c, x, x", "i, b, s, t", "b, s", ""),
     "the body of Loop has 4 inputs and 2 outputs, expected 4 inputs and 3 outputs"),
    (21, SCAN.format("s, t", "s", "", 1, "x, x"), ""),
    (21, SCAN.format("s, t", "s", "", 2, "x, x"), ""),
    (21, SCAN.format("s, t", "s", "", 0, "x, x"),
     "the body of Scan has 2 inputs and 1 outputs, expected 2 inputs, at least 0 of them scanned, and 1 outputs"),
    (21, SCAN.format("s, t", "s", "", 3, "x, x"),
     "the body of Scan has 2 inputs and 1 outputs, expected 2 inputs, at least 3 of them scanned, and 1 outputs"),
    (21, SCAN.format("s, t", "s, t", "", 1, "x, x"),
     "the body of Scan has 2 inputs and 2 outputs, expected 2 inputs, at least 1 of them scanned, and 1 outputs"),
    (8, SCAN.format("s, t", "s", "", 1, ", x, x"), ""),  # the first input is sequence_lens
    (21, SCAN.format("s, t", "s", "", 1, "x, x, x, x"),
     "the body of Scan has 2 inputs and 1 outputs, expected 4 inputs, at least 1 of them scanned, and 1 outputs"),
    (21, SCAN.format("s, t", "s", "", 1, "x"),
     "the body of Scan has 2 inputs and 1 outputs, expected 1 inputs, at least 1 of them scanned, and 1 outputs"),
    (21, SCAN.format("s, t, u", "s", "", 1, "x, x, x"),
     "the body of Scan has 3 inputs and 1 outputs, expected 3 inputs, at least 1 of them scanned, and 2 outputs"),
    (7, SCAN.format("s, t", "s", "", 1, "x, x"), "opset 7 has no Scan"),
    *((21, f"l = {domain}.{name} (x)", "") for domain in (Q, "odd") for name in ("Scan", "If", "Loop")),
]  # fmt: skip


def model_of(opset: int, node: str) -> onnx_ir.Model:
    text = f"{HEAD.format(opset)} g (float[2] x, bool c, int64 n) => (l) {{ {node} }} {FUNCTIONS}"
    return onnx_ir.from_onnx_text(text)


@pytest.mark.parametrize(("opset", "node", "fault"), NODES)
def test_each_node(opset: int, node: str, fault: str) -> None:
    model = model_of(opset, node)
    assert (nonconformity(model.graph[0], model.opset_imports, model.functions) or "") == fault
    flaws = list[Flaw]()
    require_sound(model, "m", flaws=flaws)
    assert [flaw.text for flaw in flaws] == [fault] * bool(fault)
    if fault:
        assert flaws[0].node is model.graph[0]
        with pytest.raises(ModelError) as raised:
            require_sound(model, "m")
        assert str(raised.value) == f"m: {flaws[0].site}: {fault}."


def test_an_opset_that_is_not_imported_is_the_newest() -> None:
    clip = model_of(21, "l = Clip (x, x)").graph[0]
    assert nonconformity(clip, {}, {}) is None
    assert nonconformity(clip, {"": 10}, {}) is not None
    assert nonconformity(clip, {"ai.onnx": 10}, {}) is not None


KINDS: list[tuple[int, str, set[str]]] = [
    (21, "l = Add (x, x, x)", {"surplus", "operands"}),
    (10, "l = Clip (x, x)", {"surplus"}),  # opset 11 has it
    (10, "l = Clip (x, x, x, x)", {"surplus", "operands"}),
    (21, "l, m = Add (x, x)", {"surplus", "results"}),
    (21, "l, m, o, p = Dropout (x)", {"surplus", "results"}),
    (21, "l = Add (x)", set()),
    (21, "l = Clip (, x)", set()),
    (21, "l = Concat (x)", set()),
    (21, "l = Concat <axis = 1.0> (x)", {"other-kind"}),
    (21, "l = Elu <alpha = 1> (x)", {"other-kind"}),
    (21, 'l = Concat <axis = "a"> (x)', set()),
    (21, 'l = LpPool <kernel_shape = [1], p = 1.0, ceil_mode = "a"> (x)', set()),
    (1, "l = Cast <to = 1> (x)", {"other-opset"}),
    (1, "l, m = Tile (x, n, n)", {"surplus", "results"}),  # later opsets take two inputs
    (21, f"l, m = {Q}.Trunc (x)", set()),
]


@pytest.mark.parametrize(("opset", "node", "kinds"), KINDS)
def test_kinds_of_flaws(opset: int, node: str, kinds: set[str]) -> None:
    flaws = list[Flaw]()
    require_sound(model_of(opset, node), "m", flaws=flaws)
    assert [set(map(str, flaw.kinds)) for flaw in flaws] == [kinds]


def test_inputs_that_an_operator_needs() -> None:
    for node, needed in (("l = Add (x, x)", [True, True, False]), ("l = Clip (x)", [True, False, False]),
                         ("l = Concat <axis = 0> (x)", [False] * 3), ("l = odd.Add (x)", [False] * 3)):  # fmt: skip
        model = model_of(21, node)
        assert [requires_input(model.graph[0], index, model.opset_imports) for index in range(3)] == needed, node


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 28, reason="needs an onnx that knows opset 28")
def test_opsets_that_are_known() -> None:
    for opset, told in ((28, ""), (29, "unsupported opset 29 of the model; the newest supported is 28."), (0, ""),
                        (-1, "invalid opset -1 of the model.")):  # fmt: skip
        for inside in (False, True):
            model = model_of(21, "l = Add (x, x)")
            if inside:
                next(iter(model.functions.values())).opset_imports[""] = opset
            else:
                model.graph.opset_imports[""] = opset
            if not told:
                require_known_opset(model)
                continue
            with pytest.raises(OpsetError) as raised:
                require_known_opset(model)
            assert str(raised.value) == told


SEQUENCES: list[tuple[dict[str, int], str, list[str]]] = [
    ({"": 21}, "l = Neg (x)", ["'l' is declared a sequence, but Neg makes a tensor"]),
    ({"": 21}, "l = Identity (x)", []),
    ({"": 13}, "l = Identity (x)", ["'l' is declared a sequence, but Identity makes a tensor"]),  # since opset 14
    ({"ai.onnx": 13}, "l = Identity (x)", ["'l' is declared a sequence, but Identity makes a tensor"]),
    ({}, "l = Identity (x)", []),  # the newest opset
    ({"": 21}, "l = f.two (x, x)", []),
    ({"": 21, Q: 1}, f"l = {Q}.Trunc (x)", []),  # without schema
    ({"": 21}, "m, l = Split <num_outputs = 2> (x)", []),  # past those that the schema names
    ({"": 21}, "l, m = SplitToSequence (x)", ["SplitToSequence has 2 outputs, expected 1"]),
    ({"": 21}, "m, l = Neg (x)", ["Neg has 2 outputs, expected 1"]),
    ({"": 21}, "m, l = Dropout (x)", ["'l' is declared a sequence, but Dropout makes a tensor"]),
]


@pytest.mark.parametrize(("imports", "node", "faults"), SEQUENCES)
def test_a_result_that_is_declared_a_sequence(imports: dict[str, int], node: str, faults: list[str]) -> None:
    model = model_of(21, node)
    model.graph.opset_imports.clear()
    model.graph.opset_imports.update(imports)
    model.graph.outputs[0].type = onnx_ir.SequenceType(onnx_ir.TensorType(onnx_ir.DataType.FLOAT))
    flaws = list[Flaw]()
    require_sound(model, "m", flaws=flaws)
    assert [flaw.text for flaw in flaws] == faults


def test_a_function_of_the_name_of_an_operator_may_give_a_sequence() -> None:
    model = model_of(21, "l = Neg (x)")
    model.graph.outputs[0].type = onnx_ir.OptionalType(onnx_ir.TensorType(onnx_ir.DataType.FLOAT))
    with pytest.raises(ModelError, match=r"'l' is declared an optional value, but Neg makes a tensor\.$"):
        require_sound(model, "m")
    model.functions["", "Neg", ""] = next(iter(model.functions.values()))
    require_sound(model, "m")


def test_the_order_of_nodes() -> None:
    model = model_of(21, "a = Neg (x) [late] b = Add (a, x) l = Neg (b)")
    first, second, third = model.graph
    require_order([first, second, third])
    with pytest.raises(ModelError, match=r"^g: late \(Add\) uses a, which a later node makes"):
        require_order([second, first, third])
