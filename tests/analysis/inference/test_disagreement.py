"""Inputs whose types disagree or are not supported: the common type, what is cast back, and the words of a refusal."""

from __future__ import annotations

import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.analysis.inference.disagreement import Disagreement, boolean_operator, returns_to, wider_type
from castsmith.analysis.inference.walk import infer_element_types, known_types
from castsmith.ir.errors import ModelError
from castsmith.ir.ops.casts import not_cast
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.rules import PromotionRules

UNSAFE = PromotionRules(promote_unsafe=True)
_INT = frozenset({DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16, DataType.INT32, DataType.INT64})
_FLOATS = frozenset({DataType.FLOAT16, DataType.BFLOAT16, DataType.FLOAT, DataType.DOUBLE})


def parsed(text: str, opset: int = 21) -> onnx_ir.Model:
    return onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : {opset}, "f" : 1]> {text}')


def notes(body: str, inputs: str, opset: int = 21, rules: PromotionRules = UNSAFE) -> tuple[list[Disagreement], bool]:
    """The notes on the last node, and whether its operands are of several types."""
    model = parsed(f"g ({inputs}) => (y) {{ {body} }}", opset)
    found, node = infer_element_types(model, rules), model.graph[-1]
    mixed, alike = found.disagreements.get(node, []), found.illegal.get(node, [])
    assert not (mixed and alike)
    return mixed or alike, bool(mixed)


def test_the_type_that_holds_another() -> None:
    """Of the lowest kind, then the narrowest, then as signed as it; of two as wide, the one of more precision."""
    for dtype, allowed, expected in (
        (DataType.INT8, _INT - {DataType.INT8}, DataType.INT16),
        (DataType.UINT8, _INT - {DataType.UINT8}, DataType.UINT16),
        (DataType.UINT8, _INT - {DataType.UINT8, DataType.UINT16}, DataType.INT16),
        (DataType.BOOL, _INT, DataType.INT8),
        (DataType.BOOL, _INT | _FLOATS, DataType.INT8),
        (DataType.BOOL, _FLOATS, DataType.FLOAT16),
        (DataType.INT16, _FLOATS, DataType.FLOAT),
        (DataType.INT32, _FLOATS, DataType.DOUBLE),
        (DataType.INT64, _FLOATS, None),
        (DataType.FLOAT, frozenset({DataType.FLOAT16, DataType.INT64}), None),
        (DataType.FLOAT8E5M2, _FLOATS, DataType.FLOAT16),
    ):
        assert wider_type(dtype, allowed) == expected, dtype
    assert returns_to(DataType.INT8, DataType.INT32)
    assert not returns_to(DataType.BOOL, DataType.INT32)


def test_arithmetic_on_bool_is_logic_where_it_broadcasts() -> None:
    for op_type, expected in (("Add", "Or"), ("Mul", "And"), ("Sub", None), ("Max", "Or"), ("Min", "And")):
        assert boolean_operator(("", op_type, 7), DataType.BOOL) == expected, op_type
        assert boolean_operator(("", op_type, 6), DataType.BOOL) is None
        assert boolean_operator(("other", op_type, 7), DataType.BOOL) is None
        assert boolean_operator(("", op_type, 7), DataType.INT8) is None


_REPAIRS = {
    "the rule's type": ("y = Add (a, b)", "float16[2] a, float[2] b", 21, (DataType.FLOAT, None, (), None), True),
    "as the model declares": ("y = Pow (a, b)", "int32[2] a, float[2] b", 21, None, False),
    "a wider type, cast back": ("y = Add (a, a)", "int8[2] a", 13, (DataType.INT32, DataType.INT8, (0,), None), False),
    "a wider kind, kept": ("y = Softmax (a)", "int16[2] a", 21, (DataType.FLOAT, DataType.INT16, (), None), False),
    "logic": ("y = Add (a, a)", "bool[2] a", 21, (DataType.BOOL, None, (), "Or"), False),
    "logic needs broadcasting": ("y = Mul (a, a)", "bool[2] a", 6, (DataType.INT32, DataType.BOOL, (), None), False),
    "in pairs": ("y = Sum (a, a)", "int64[2] a", 21, (DataType.INT64, None, (), "Add"), False),
    "in pairs of a wider one": ("y = Sum (a, a)", "int8[2] a", 13, (DataType.INT32, DataType.INT8, (0,), "Add"), False),
    "no operand alike": ("y = Sum (a, b)", "int8[2] a, int16[2] b", 21, (DataType.INT16, None, (), "Add"), True),
    "both operands of Pow": ("y = Pow (a, a)", "int8[2] a", 21, (DataType.INT32, DataType.INT8, (0,), None), False),
}  # fmt: skip


@pytest.mark.parametrize("name", _REPAIRS)
def test_the_repair(name: str) -> None:
    body, inputs, opset, expected, mixed = _REPAIRS[name]
    found, several = notes(body, inputs, opset)
    assert (len(found), several) == (expected is not None, mixed)
    for each in found:
        assert (each.common, each.ruled, each.restored, each.pairwise) == expected
        assert each.result(0) == (each.ruled if each.restored else each.common)
        assert types(parsed(f"g ({inputs}) => (y) {{ {body} }}", opset)) == [each.result(0)]
        assert each.error is None


_LATER = "needs a cast of its operands here, and Cast of opset"
_REFUSALS = {
    "no type": ("y = Not (a)", "float[2] a", 13, (0,), "Not of opset 13 supports neither float nor a type that holds it"
                " (no opset does)."),
    "no type for the second input": ("y = Gather (a, b)", "float[2] a, float[2] b", 13, (1,), "Gather of opset 13"
                " supports neither float as input 1 nor a type that holds it (no opset does)."),
    "no common type": ("y = BitwiseAnd (a, b)", "float[2] a, int64[2] b", 18, (0, 1), "BitwiseAnd of opset 18 supports"
                       " neither float, their common type, nor a type that holds it (no opset does)."),
    "no cast of the type": ("y = Add (a, a)", "bfloat16[2] a", 12, (0, 1), f"Add {_LATER} 12 does not support bfloat16"
                            " (opset 13 allows it)."),
    "no cast of one type": ("y = Add (a, b)", "bfloat16[2] a, float[2] b", 12, (0, 1), f"Add {_LATER} 12 does not"
                                    " support bfloat16 (opset 13 allows it)."),
    "no CastLike": ("y = CastLike (a, b)", "float[2] a, float4e2m1[2] b", 22, (0, 1), f"CastLike {_LATER} 22 does not"
                        " support float4e2m1 (opset 23 allows it)."),
    "no CastLike of one type": ("y = CastLike (a, a)", "float4e2m1[2] a", 22, (0, 1), f"CastLike {_LATER} 22 does not"
                        " support float4e2m1 (opset 23 allows it)."),
    "another width": ("y = BitCast <to = 1> (a)", "float16[2] a", 26, (0,),
                      "BitCast to float needs an operand of 32 bits, not of 16."),
    "another zero point": ("y = QuantizeLinear <output_dtype = 2> (a, s, z)", "float[2] a, float s, int8 z", 21, (2,),
                           "QuantizeLinear to uint8 by its output_dtype needs a zero point of that type."),
}  # fmt: skip


@pytest.mark.parametrize("name", _REFUSALS)
def test_a_refusal_that_no_option_changes(name: str) -> None:
    body, inputs, opset, indexes, expected = _REFUSALS[name]
    for rules in (UNSAFE, PromotionRules()):
        ((found,), _) = notes(body, inputs, opset, rules)
        assert (found.indexes, found.common, str(found.error)) == (indexes, None, expected)


def test_a_refusal_that_an_option_changes() -> None:
    for body, inputs, words in (
        ("y = Add (a, b)", "int64[2] a, float[2] b", "int64 with float could lose precision"),
        ("y = Gemm (a, b)", "uint64[2,2] a, int64[2,2] b", "uint64 with int64 fits no integer type"),
    ):
        ((safe,), _), ((unsafe,), _) = notes(body, inputs, rules=PromotionRules()), notes(body, inputs)
        assert (safe.common, unsafe.common, unsafe.error) == (None, DataType.FLOAT, None)
        assert safe.error is not None
        assert safe.error.option == "promote_unsafe"
        assert str(safe.error).startswith(words)


def test_what_agrees_is_not_noted() -> None:
    for body, inputs, opset in (
        ("y = BitCast <to = 10> (a)", "bfloat16[2] a", 26),
        ("y = BitCast <to = 2> (a)", "bool[2] a", 26),
        ("y = BitCast <to = 9> (a)", "int8[2] a", 26),
        ("y = QuantizeLinear <output_dtype = 3> (a, s, z)", "float[2] a, float s, int8 z", 21),
        ("y = QuantizeLinear <output_dtype = 2> (a, s)", "float[2] a, float s", 21),
        ("y = CastLike (a, b)", "float[2] a, float4e2m1[2] b", 23),
        ("y = Pow (a, b)", "float[2] a, int32[2] b", 21),
        ("y = Where (c, a, a)", "bool[2] c, bfloat16[2] a", 21),
    ):
        assert notes(body, inputs, opset) == ([], False), body


def test_the_types_that_cast_lacks() -> None:
    for lacking, opset, expected in (
        ([DataType.FLOAT, DataType.INT8], 1, None),
        ([DataType.FLOAT8E4M3FN], 18, "float8e4m3fn (opset 19 allows it)"),
        ([DataType.FLOAT8E4M3FN], 19, None),
        ([DataType.BFLOAT16, DataType.FLOAT8E4M3FN], 12, "bfloat16 and float8e4m3fn (opset 19 allows it)"),
        ([DataType.BFLOAT16, DataType.FLOAT8E4M3FN], 13, "float8e4m3fn (opset 19 allows it)"),
        ([DataType.COMPLEX64, DataType.BFLOAT16], 12, "complex64 and bfloat16 (no opset does)"),
    ):
        text = None if expected is None else f"Cast of opset {opset} does not support {expected}."
        assert not_cast(lacking, opset) == text


_LOOP = """g ({0} n, float[2] x, int64[2] z) => (y) {{ y = Loop (n, , x) <body = b (int64 i, bool c, float[2] a) =>
    (bool d, r) {{ d = Identity (c) r = {1} }}> }}"""
_IF = """g ({0} c, {1}[2] x, int64[2] z) => (y) {{ y = If (c) <then_branch = t () => (a) {{ a = Identity (x) }},
    else_branch = e () => (b) {{ b = Identity ({2}) }}> }}"""


@pytest.mark.parametrize(
    ("text", "opset", "expected"),
    [
        (_LOOP.format("int32", "Neg (a)"), 21, ["Loop of opset 21 needs int64, not int32."]),
        (_LOOP.format("int64", "Neg (a)"), 21, []),
        (_IF.format("float", "float", "x"), 21, ["If of opset 21 needs bool, not float."]),
        (_IF.format("bool", "bfloat16", "x"), 15, ["If of opset 15 does not pass on bfloat16 (opset 16 allows it)."]),
        (_IF.format("bool", "bfloat16", "x"), 16, []),
    ],
)
def test_what_control_flow_does_not_take(text: str, opset: int, expected: list[str]) -> None:
    model = parsed(text, opset)
    found = infer_element_types(model, UNSAFE)
    assert [str(each.error) for each in found.illegal.get(model.graph[0], [])] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_IF.format("bool", "float", "z"),
         "g: y (If): output 0 of the branches: a (float, made by Identity) and"
         " b (int64, made by Identity): int64 with float could lose precision"),
        (_LOOP.format("int64", "Neg (z)"),
         "g: y (Loop): a state whose initial and next value are x (float, an"
         " input) and r (int64, made by Neg): int64 with float could lose precision"),
    ],
)  # fmt: skip
def test_a_refusal_where_control_flow_meets(text: str, expected: str) -> None:
    model = parsed(text)
    with pytest.raises(PromotionError) as error:
        infer_element_types(model, PromotionRules())
    assert str(error.value).startswith(expected)
    assert infer_element_types(model, UNSAFE).types[model.graph.outputs[0]] == DataType.FLOAT


def types(model: onnx_ir.Model, rules: PromotionRules = UNSAFE) -> list[DataType | None]:
    found = infer_element_types(model, rules)
    return [found.type_of(value) for value in model.graph.outputs]


def test_the_types_of_outputs_that_attributes_name() -> None:
    for body, expected in (
        ("y = Constant <value_float = 1.0> ()", DataType.FLOAT),
        ("y = Constant <value_ints = [1]> ()", DataType.INT64),
        ('y = Constant <value_string = "a"> ()', DataType.STRING),
        ("y = Constant <value = float16[1] {1}> ()", DataType.FLOAT16),
        ("y = RandomNormal <dtype = 11, shape = [2]> ()", DataType.DOUBLE),
        ("y = RandomNormalLike (h)", DataType.FLOAT16),
        ("y = RandomNormalLike <dtype = 11> (h)", DataType.DOUBLE),
        ("y = EyeLike <dtype = 6> (m)", DataType.INT32),
        ("y = ConstantOfShape (n)", DataType.FLOAT),
        ("y = ConstantOfShape <value = int8[1] {1}> (n)", DataType.INT8),
        ("s = SequenceConstruct (h, h) i = Constant <value_int = 1> () y = SequenceAt (s, i)", DataType.FLOAT16),
        ("s = SequenceConstruct (h, h) t = SequenceErase (s) y = ConcatFromSequence <axis = 0> (t)", DataType.FLOAT16),
        ("s = SequenceEmpty () y = SequenceInsert (s, h)", DataType.FLOAT),  # of the sequence
        ("s = SequenceConstruct (h, m) y = ConcatFromSequence <axis = 0> (s)", DataType.FLOAT),  # as both are made
        ("y = SequenceEmpty <dtype = 10> ()", DataType.FLOAT16),
        ("_z, y = Relu (h)", None),
        ("y = Cast (h)", None),
        ("y = Nothing (h)", None),
        ("y = f.Nothing (h)", None),
        ("_i, y = Unique (h)", DataType.INT64),
        ("s = SequenceConstruct (h) y = SequenceMap (s) <body = b (e) => (r) { r = Neg (e) }>", DataType.FLOAT16),
    ):
        text = f"g (float16[2] h, int64[1] n, float[2,2] m) => (y) {{ {body} }}"
        assert types(parsed(text)) == [expected], body


def test_the_types_of_outputs_whose_attributes_are_parameters() -> None:
    for node, argument, expected in (
        ("Constant <value_float: float = @a> ()", "1.0", DataType.FLOAT),
        ("Constant <value_floats: floats = @a> ()", "[1.0]", DataType.FLOAT),
        ("Constant <value_int: int = @a> ()", "1", DataType.INT64),
        ("Constant <value_ints: ints = @a> ()", "[1]", DataType.INT64),
        ("Constant <value_string: string = @a> ()", '"a"', DataType.STRING),
        ("Constant <value_strings: strings = @a> ()", '["a"]', DataType.STRING),
        ("Constant <value: tensor = @a> ()", "float16[1] {1}", None),
        ("Cast <to: int = @a> (h)", "1", None),
        ("EyeLike <dtype: int = @a> (h)", "1", None),
        ("ArgMax <axis: int = @a> (h)", "1", DataType.INT64),
        ("Softmax <axis: int = @a> (h)", "1", DataType.FLOAT16),
    ):
        body = f'<domain: "f", opset_import: ["" : 21]> k <a> (h) => (r) {{ r = {node} }}'
        model = parsed(f"g (float16[2,2] h) => (y) {{ y = f.k <a = {argument}> (h) }} {body}")
        assert types(model) == [expected], node


def test_the_type_of_a_constant_is_that_of_its_tensor() -> None:
    model = parsed("g (float[2] x) => (y) <double k = {1}> { y = Neg (k) }")
    model.graph.initializers["k"].type = None
    assert types(model) == [DataType.DOUBLE]


def test_more_combinations_of_types_than_are_supported() -> None:
    """64 for each function, and 64 times 16."""
    operands = [", ".join("h" if number >> bit & 1 else "x" for bit in range(11)) for number in range(64 * 17 + 2)]
    calls = [f"y{number} = f.many ({each})" for number, each in enumerate(operands)]
    names = ", ".join(f"a{index}" for index in range(11))
    body = f'<domain: "f", opset_import: ["" : 21]> many ({names}) => (r) {{ r = Neg (a0) }}'
    text = "g (float[2] x, float16[2] h) => (y0) {{ {} }} " + body.replace("{", "{{").replace("}", "}}")
    assert types(parsed(text.format(" ".join(calls[:-1])))) == [DataType.FLOAT]
    with pytest.raises(ModelError, match=r"^function f::many and others are called with more than 1089 combinations"):
        types(parsed(text.format(" ".join(calls))))


def test_types_to_show_nodes_with() -> None:
    model = parsed("g (int64[2] x, float[2] z) => (y) { y = Add (x, z) }")
    assert known_types(model)[model.graph.outputs[0]] == DataType.FLOAT


def test_no_types_to_show_nodes_with() -> None:
    for body in (
        "y = Add (x)",
        "y = If (c) <then_branch = t () => (a) { a = Identity (x) }, else_branch = e () => (b) { b = Identity (s) }>",
    ):
        assert known_types(parsed(f"g (bool c, int64[2] x, string[2] s) => (y) {{ {body} }}")) == {}, body


def test_a_power_has_the_type_that_the_model_declares_if_it_is_the_promoted_one() -> None:
    for operands, declared, expected in (
        ("int32[2] a, float[2] b", "float[2] y", (DataType.FLOAT, True)),
        ("int32[2] a, float[2] b", "double[2] y", (None, False)),
        ("int32[2] a, float[2] b", "int32[2] y", (None, False)),
        ("int32[2] a, float[2] b", "y", (None, False)),
        ("int32[2] a, float[2] b", "int64[2] y", (None, False)),
        ("int64[2] a, float[2] b", "float[2] y", (DataType.FLOAT, True)),
        ("float[2] a, double[2] b", "double[2] y", (DataType.DOUBLE, True)),
        ("double[2] a, float[2] b", "double[2] y", (None, False)),
    ):
        model = parsed(f"g ({operands}) => ({declared}) {{ y = Pow (a, b) }}")
        found = infer_element_types(model, UNSAFE)
        (node,) = model.graph
        noted = [(each.common, each.as_declared) for each in found.disagreements.get(node, [])]
        assert all(each.indexes == (0, 1) for each in found.disagreements.get(node, []))
        assert noted == ([expected] if expected[1] else []), (operands, declared)
        assert found.type_of(node.outputs[0]) == (expected[0] or model.graph.inputs[0].dtype)
    model = parsed("g (int64[2] a, float[2] b) => (float[2] y) { y = Pow (a, b) }")
    ((noted,),) = infer_element_types(model, PromotionRules()).disagreements.values()
    assert (noted.common, noted.as_declared) == (None, True)
    assert noted.error is not None
    assert noted.error.option == "promote_unsafe"
    for operands in ("a, u", "u, a"):
        model = parsed(f"g (int64[2] a) => (float[2] y) {{ u = f.Nothing (a) y = Pow ({operands}) }}")
        assert not infer_element_types(model, UNSAFE).disagreements


_RANKS = {
    "y = Add (x, d)": "float",
    "y = Add (x, k)": "float",
    "y = Add (x, v)": "double",
    "y = Add (x, u)": "",
    "y = MatMul (x, u)": "double",  # which takes no scalar
    "a = Relu (d) y = Add (x, a)": "float",
    "a = Relu (v) y = Add (x, a)": "double",
    "a = Relu (u) y = Add (x, a)": "",
    "a = Identity (d) y = Add (x, a)": "float",
    "a = Cast <to = 11> (x) y = Add (x, a)": "double",
    "a = Add (d, d) y = Add (x, a)": "float",
    "a = Add (d, v) y = Add (x, a)": "double",
    "a = Add (v, u) y = Add (x, a)": "double",
    "a = Add (u, v) y = Add (x, a)": "double",
    "a = Add (d, u) y = Add (x, a)": "",
    "a = Add (d, k) b = Neg (a) y = Add (x, b)": "float",
    "a = MatMul (u, u) y = Add (x, a)": "",
    "a = Concat <axis = 0> (u, u) y = Add (x, a)": "double",
    "a = Unsqueeze (d, i) y = Add (x, a)": "double",
    "a = Reshape (d, i) y = Add (x, a)": "",
    "a = ReduceSum <keepdims = 0> (d) y = Add (x, a)": "",
    f"a0 = Relu (d) {' '.join(f'a{n} = Relu (a{n - 1})' for n in range(1, 64))} y = Add (x, a63)": "float",
    f"a0 = Relu (d) {' '.join(f'a{n} = Relu (a{n - 1})' for n in range(1, 65))} y = Add (x, a64)": "",
}
"""The common type with float where a double gives way as a scalar, nothing where an unknown rank leaves it open.

`d` and `k` are scalars, `v` is a vector, and of `u` not even the rank is known, as of all that nodes make.
"""


def test_scalars_give_way_where_their_rank_is_known() -> None:
    rules = PromotionRules(promote_unsafe=True, pytorch_scalar_promotion=True)
    inputs = "float[2] x, double d, double[1] v, int64[1] i"
    for body, expected in _RANKS.items():
        model = parsed(f"g ({inputs}) => (y) <double k = {{1}}> {{ u = f.Nothing (d) {body} }}")
        model.graph[0].outputs[0].dtype = DataType.DOUBLE
        for node in model.graph:
            node.outputs[0].shape = None
        ((noted,),) = infer_element_types(model, rules).disagreements.values()
        common = None if noted.common is None else noted.common.name.lower()
        assert (common, noted.error, noted.indexes) == (expected or None, None, (0, 1)), body


def test_the_operands_that_get_another_type() -> None:
    for body, inputs, indexes in (
        ("y = Pow (a, b)", "int8[2] a, float[2] b", (0,)),
        ("y = Pow (a, a)", "int8[2] a", (0, 1)),
        ("y = Where (c, a, b)", "bool[2] c, float16[2] a, float[2] b", (1, 2)),
        ("y = Concat <axis = 0> (a, b, a)", "float16[2] a, float[2] b", (0, 1, 2)),
        ("u = f.Nothing (a) y = Concat <axis = 0> (a, u, b)", "float16[2] a, float[2] b", (0, 2)),
        ("y = Clip (a, , b)", "float16[2] a, float b", (0, 2)),
        ("u = f.Nothing (a) y = CastLike (a, u)", "float4e2m1[2] a", (0,)),
        ("u = f.Nothing (a) y = CastLike (u, a)", "float4e2m1[2] a", (1,)),
        ("y = f.Pow (a, b)", "int32[2] a, float[2] b", ()),
    ):
        found, _ = notes(body, inputs, 22)
        assert [each.indexes for each in found] == ([indexes] if indexes else []), body


def test_operands_of_a_node_that_names_the_rules() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "castsmith" : 1, "f" : 1]> g (int64[2] a, float[2] b) => (y, z)
        {{ u = f.Nothing (a) y, z = castsmith.ConvertPromoteTypes <promote_unsafe = {}> ({}) }}"""
    for unsafe, operands, expected in (
        (1, "a, b", DataType.FLOAT),
        (1, "b, a", DataType.FLOAT),
        (0, "a, a", DataType.INT64),
        (0, "a, u", None),
        (0, "u, a", None),
    ):
        model = onnx_ir.from_onnx_text(text.format(unsafe, operands))
        assert types(model, PromotionRules()) == [expected] * 2
    with pytest.raises(PromotionError, match=r"ConvertPromoteTypes\): operands a \(int64, an input\) and b \(float"):
        types(onnx_ir.from_onnx_text(text.format(0, "a, b")))
