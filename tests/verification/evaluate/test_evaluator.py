"""Models run one operator at a time: control flow, sequences, conversions, and what the standard leaves undefined."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir
import pytest

from castsmith.numerics.errors import present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.evaluate.conversions import Tensor
from castsmith.verification.evaluate.engines import Engine, EngineError
from castsmith.verification.evaluate.evaluator import Evaluator, _array, _stored  # pyright: ignore[reportPrivateUsage]
from castsmith.verification.evaluate.limits import Budget, LimitError
from tests.graphs.backend import array_of_case, node_cases

PATTERN = (
    r"test_(loop|scan|if_|sequence|split_to_sequence|castlike|cast_|bitcast|quantizelinear|dequantizelinear|optional|"
    r"identity_sequence|concat_from|where|and|or)"
)
CASES = {name: case for name, case in node_cases(PATTERN).items() if "expanded" not in name}


def run(model: onnx_ir.Model, feeds: dict[str, Any]) -> dict[str, Any]:
    return dict(Evaluator(model, PromotionRules(), Engine("reference")).run(feeds))


def test_the_node_tests_of_onnx() -> None:
    """Those of control flow, sequences and conversions, where the evaluator has its own code."""
    refused = set[str]()
    wrong = list[str]()
    for name, case in CASES.items():
        inputs, outputs = present(case.data_sets, "the data")[0]
        given: list[Any] = [*inputs, *outputs]
        if any(isinstance(value, list) or value is None for value in given):
            continue  # sequences, and optional values that are missing
        arrays = [array_of_case(value) for value in given]
        model = onnx_ir.from_proto(present(case.model, "the model"))
        names = [value.name or "" for value in model.graph.inputs]
        try:
            found = run(model, dict(zip(names, arrays, strict=False)))
        except EngineError:
            refused.add(name)
            continue
        for made, expected in zip(found.values(), arrays[len(inputs) :], strict=True):
            if not isinstance(made, Tensor) or made.array.dtype != expected.dtype:
                wrong.append(name)
            elif made.undefined is None and made.array.tobytes() != expected.tobytes():
                same = np.array_equal(made.array.astype(str), expected.astype(str))
                wrong += [] if same else [name]
    assert wrong == []
    assert refused == set()


HEAD = '<ir_version: 10, opset_import: ["" : 21]>'
BAD = np.array([1.0, 300.0, 2.0, np.nan], np.float32)
"""Its second and its last element have no int8."""


def undefined(body: str, outputs: str = "int8[N] y", **more: Any) -> list[Any]:
    """The undefined elements of y, in a graph whose u is a cast of `BAD`."""
    given = "".join(f", {_declared(name, array)}" for name, array in more.items())
    text = f"{HEAD} g (float[4] x{given}) => ({outputs}) {{ u = Cast <to = 3> (x) {body} }}"
    found = run(onnx_ir.from_proto(onnx.parser.parse_model(text)), {"x": BAD, **more})["y"]
    assert isinstance(found, Tensor)
    return [] if found.undefined is None else found.undefined.tolist()


def _declared(name: str, array: np.ndarray[Any, Any]) -> str:
    kind = {"bool": "bool", "int8": "int8", "int64": "int64", "float32": "float"}[array.dtype.name]
    return f"{kind}[{','.join(map(str, array.shape))}] {name}" if array.shape else f"{kind} {name}"


F, T = False, True
CHOOSE, NUMBERS = np.array([T, F, F, T]), np.arange(4, dtype=np.int8)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Identity (u)", [F, T, F, T]),
        ("y = Neg (u)", [F, T, F, T]),
        ("y = Add (u, n)", [F, T, F, T]),
        ("y = Where (c, u, n)", [F, F, F, T]),
        ("y = Where (c, n, u)", [F, T, F, F]),
        ("y = Concat <axis = 0> (n, u)", [F, F, F, F, F, T, F, T]),
        ("y = Concat <axis = -1> (u, n)", [F, T, F, T, F, F, F, F]),
        ("i = Constant <value_ints = [3, 0, 1]> () y = Gather (u, i)", [T, F, T]),
        ("s = Constant <value_ints = [2, 2]> () y = Reshape (u, s)", [[F, T], [F, T]]),
        ("s = Constant <value_ints = [2, 2]> () r = Reshape (u, s) y = Transpose (r)", [[F, F], [T, T]]),
        ("k = ReduceMax <keepdims = 1> (n) y = Mul (k, u)", [F, T, F, T]),
        ("r = ReduceMin <keepdims = 0> (u) y = Add (r, n)", [T, T, T, T]),
        ("f = Cast <to = 1> (u) y = Cast <to = 3> (f)", [F, T, F, T]),
        (
            "f = Cast <to = 1> (u) k = Constant <value_floats = [200.0, 0.0, 1.0, 0.0]> () g = Mul (f, k)"
            " y = Cast <to = 3> (g)",
            [T, T, F, T],
        ),  # of the cast itself, and of its operand
        ("y = Identity (n)", []),
    ],
)
def test_what_is_undefined_spreads_as_far_as_it_matters(body: str, expected: list[Any]) -> None:
    found = undefined(body, c=CHOOSE, n=NUMBERS)
    assert found == expected or (not found and not np.any(expected))


@pytest.mark.parametrize(("operator", "expected"), [("And", [F, F, F, T]), ("Or", [F, T, F, F]), ("Xor", [F, T, F, T])])
def test_a_known_operand_can_decide(operator: str, expected: list[bool]) -> None:
    """The first is undefined where the second is False, and then where it is True."""
    body = f"b = Cast <to = 9> (u) z = Constant <value = int8 {{1}}> () e = Equal (u, z) y = {operator} (e, c)"
    assert undefined(body, "bool[4] y", c=np.array([T, F, F, T])) == expected
    swapped = body.replace("(e, c)", "(c, e)")
    assert undefined(swapped, "bool[4] y", c=np.array([T, F, F, T])) == expected


SEQUENCES = {
    "q = SequenceConstruct (x, v) y = SequenceAt (q, one)": "v",
    "q = SequenceConstruct (x, v) y = SequenceAt (q, last)": "v",
    "q = SequenceConstruct (x, v) r = SequenceInsert (q, w) y = SequenceAt (r, last)": "w",
    "q = SequenceConstruct (x, v) r = SequenceInsert (q, w, one) y = SequenceAt (r, one)": "w",
    "q = SequenceConstruct (x, v) r = SequenceInsert (q, w, last) y = SequenceAt (r, one)": "w",
    "q = SequenceConstruct (x, v) r = SequenceErase (q) y = SequenceAt (r, last)": "x",
    "q = SequenceConstruct (x, v, w) r = SequenceErase (q, one) y = SequenceAt (r, one)": "w",
    "q = SequenceConstruct (x, v, w) r = SequenceErase (q, last) y = SequenceAt (r, last)": "v",
    "q = SequenceEmpty () r = SequenceInsert (q, v) y = SequenceAt (r, last)": "v",
    "q = SequenceConstruct (x, v) r = SequenceInsert (q, w, missing) y = SequenceAt (r, last)": "w",
    "q = SequenceConstruct (x, v) r = SequenceErase (q, missing) y = SequenceAt (r, last)": "x",
}


@pytest.mark.parametrize("body", SEQUENCES)
def test_places_in_sequences(body: str) -> None:
    text = f"""{HEAD} g (float[2] x, float[2] v, float[2] w) => (float[2] y) {{
        one = Constant <value_int = 1> () last = Constant <value_int = -1> () {body} }}"""
    feeds = {name: np.full(2, at, np.float32) for at, name in enumerate("xvw")}
    proto = onnx.parser.parse_model(text)
    for node in proto.graph.node:
        node.input[:] = ["" if name == "missing" else name for name in node.input]
    found = run(onnx_ir.from_proto(proto), feeds)
    assert found["y"].array.tolist() == feeds[SEQUENCES[body]].tolist()


@pytest.mark.parametrize(
    "body",
    [
        "q = SequenceConstruct (x) y = SequenceAt (q, two)",
        "q = SequenceConstruct (x) y = SequenceAt (q, one)",
        "q = SequenceConstruct (x) r = SequenceErase (q, one) y = SequenceAt (r, zero)",
        "q = SequenceEmpty () r = SequenceErase (q) y = SequenceAt (r, zero)",
    ],
)
def test_a_place_outside_a_sequence(body: str) -> None:
    numbers = " ".join(f"{name} = Constant <value_int = {at}> ()" for at, name in enumerate(("zero", "one", "two")))
    text = f"{HEAD} g (float[2] x) => (float[2] y) {{ {numbers} {body} }}"
    with pytest.raises(EngineError):
        run(onnx_ir.from_proto(onnx.parser.parse_model(text)), {"x": np.zeros(2, np.float32)})


def test_sequences_are_mapped_split_and_joined() -> None:
    text = f"""{HEAD} g (float[5] x, int64 two) => (float[5] y, float[N] z, int64 n) {{
      s = SplitToSequence <axis = 0> (x, two)
      m = SequenceMap (s, x) <body = b (float[K] e, float[5] a) => (float[K] f) {{
        t = ReduceSum <keepdims = 0> (a) f = Add (e, t) }}>
      y = ConcatFromSequence <axis = 0> (m)
      o = Constant <value_int = 2> ()
      z = SequenceAt (m, o)
      n = SequenceLength (m)
    }}"""
    x = np.arange(5, dtype=np.float32)
    found = run(onnx_ir.from_proto(onnx.parser.parse_model(text)), {"x": x, "two": np.array(2)})
    assert found["y"].array.tolist() == [10, 11, 12, 13, 14]
    assert found["z"].array.tolist() == [14]
    assert found["n"].array.tolist() == 3


def parsed(text: str) -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(f"{HEAD} {text}"))


@pytest.mark.parametrize(
    "call",
    ["RandomUniformLike {} (x)", "RandomNormalLike {} (x)", "Bernoulli {} (x)", "Dropout {} (x, r, t)"],
)
def test_the_seed_of_a_model_is_used_and_without_one_nothing_is_defined(call: str) -> None:
    found, unit = list[Any](), "" if "Dropout" in call else ".0"
    for seed in ("", f"<seed = 1{unit}>", f"<seed = 2{unit}>", f"<seed = 1{unit}>"):
        text = f"g (float[64] x, float r, bool t) => (float[64] y) {{ y = {call.format(seed)} }}"
        feeds = {"x": np.full(64, 0.5, np.float32), "r": np.array(0.5, np.float32), "t": np.array(True)}
        found.append(run(parsed(text), feeds)["y"])
    assert [tensor.undefined is None for tensor in found] == [False, True, True, True]
    assert found[0].undefined.all()
    assert len({tensor.array.tobytes() for tensor in found[1:]}) == 2
    assert found[1].array.tobytes() == found[3].array.tobytes()


@pytest.mark.parametrize("training", [", r, f", ", r", ""])
def test_a_dropout_that_drops_nothing_is_defined(training: str) -> None:
    model = parsed(f"g (float[2] x, float r, bool f) => (float[2] y) {{ y = Dropout (x{training}) }}")
    found = run(model, {"x": np.ones(2, np.float32), "r": np.array(0.5, np.float32), "f": np.array(False)})["y"]
    assert (found.undefined, found.array.tolist()) == (None, [1, 1])


@pytest.mark.parametrize(
    ("body", "index"),
    [(f"y = {operator} <axis = {axis}> (w, i)", np.zeros((1, 1), dtype))
     for operator in ("Gather", "GatherElements")
     for axis, dtype in ((2, np.int64), (-3, np.int64), *[(0, np.float32)] * (operator != "Gather"))],
)  # fmt: skip
def test_a_gather_that_is_invalid(body: str, index: Any) -> None:
    kind = "int64" if index.dtype.kind == "i" else "float"
    model = parsed(f"g ({kind}[1,1] i) => (float[N] y) <float[1,2] w = {{1.0, 2.0}}> {{ {body} }}")
    with pytest.raises(EngineError, match="y"):
        run(model, {"i": index})


@pytest.mark.parametrize(
    "body",
    [
        "y = Slice (x, zero, two, , one)", "y = Pad (x, p, , axes)", "y = Pad (x, p)", "y = Squeeze (x)",
        "y = Identity (x)", "y = Gather (x, i)", "y, z = Split <num_outputs = 2> (q)",
    ],
)  # fmt: skip
def test_codes_of_types_that_numpy_lacks_are_moved(body: str) -> None:
    """Also past operands that are left out."""
    text = f"""g (float8e4m3fn[2] x, float8e4m3fn[4] q, int64[2] i) => (float8e4m3fn[N] y)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[2] p = {{0, 0}},
        int64[1] axes = {{0}}>
        {{ {body} }}"""
    x = np.array([1.5, -2], ml_dtypes.float8_e4m3fn)
    found = run(parsed(text), {"x": x, "q": np.concatenate([x, x]), "i": np.array([0, 1])})["y"]
    assert (found.array.dtype, found.array.astype(float).tolist()) == (x.dtype, [1.5, -2])


def test_a_call_that_takes_some_results() -> None:
    function = '<domain: "f", opset_import: ["" : 21]> h (a) => (p, q) { p = Neg (a) q = Abs (a) }'
    for outputs, expected in (("y", -2), ("n, y", 2)):
        model = parsed(f"g (float x) => (float y) {{ {outputs} = f.h (x) }} {function}".replace("g (", "g (", 1))
        assert run(model, {"x": np.array(2, np.float32)})["y"].array == expected


def test_an_input_without_a_value() -> None:
    with pytest.raises(EngineError, match=r"^the input z has no value\.$"):
        run(parsed("g (float x, float z) => (float y) { y = Add (x, z) }"), {"x": np.array(2, np.float32)})


@pytest.mark.parametrize(
    ("declared", "body"),
    [("", 'k = Constant <value_strings = ["a", "\u00e9"]> ()'), ('<string[2] k = {"a", "\u00e9"}>', "")],
)
def test_text_of_a_model_is_text(declared: str, body: str) -> None:
    found = run(parsed(f"g () => (string[2] y) {declared} {{ {body} y = Identity (k) }}"), {})["y"]
    assert found.array.tolist() == ["a", "\u00e9"]


def test_text_that_is_already_decoded_is_text() -> None:
    for texts in (["a", "\u00e9"], [b"a", "\u00e9".encode()]):
        assert _array(onnx_ir.StringTensor(np.array(texts, object))).tolist() == ["a", "\u00e9"]


def test_only_tensors_are_corrected() -> None:
    model = parsed(
        "g (float[2] x) => (float[2] y) { q = SequenceConstruct (x, x) y = SequenceAt (q, i) }".replace(
            "{ q", "<int64 i = {1}> { q"
        )
    )
    names = list[str]()

    def correct(_: Any, value: onnx_ir.Value, tensor: Tensor) -> Tensor:
        names.append(value.name or "")
        return Tensor(tensor.array + 1)

    feeds = {"x": np.zeros(2, np.float32)}
    y = Evaluator(model, PromotionRules(), Engine("reference")).run(feeds, correct=correct)["y"]
    assert isinstance(y, Tensor)
    assert (names, y.array.tolist()) == (["y"], [1, 1])
    split = parsed("g (float[2] x) => (float[1] y) { other, y = Split <num_outputs = 2> (x) }")
    split.graph[0].outputs[0].name = ""
    names.clear()
    Evaluator(split, PromotionRules(), Engine("reference")).run(feeds, correct=correct)
    assert names == ["y"]  # a result without a name is not wanted


@pytest.mark.parametrize(
    ("declared", "more", "expected"),
    [
        ("float[3] w = {1, 2, 3}", "y = Gather (w, i)", 0),
        ("", "w = Constant <value_floats = [1.0, 2.0, 3.0]> () y = Gather (w, i)", 1),
        ("", "w = Neg (x) y = Gather (w, i)", 0),
        ("", "w = Constant <value_floats = [1.0, 2.0, 3.0]> () y = Gather (w, k)", 0),
        ("", "w = Constant <value_floats = [1.0, 2.0, 3.0]> () y = GatherElements (w, i)", 1),
    ],
)
def test_rows_count_of_constant_tables_that_inputs_index(declared: str, more: str, expected: int) -> None:
    inputs = ", ".join(filter(None, ("float[3] x, int64[1] i", declared)))
    model = parsed(f"g ({inputs}) => (float[1] y) <int64[1] k = {{2}}> {{ {more} }}")
    evaluator = Evaluator(model, PromotionRules(), Engine("reference"))
    evaluator.run({"x": np.zeros(3, np.float32), "i": np.array([1])})
    assert [rows.tolist() for rows in evaluator.coverage.rows.values()] == [[F, T, F]] * expected


def test_what_is_tried_for_its_type_is_not_covered() -> None:
    """The other branch of an If whose condition is undefined runs, with all that is in it."""
    inner = (
        """If (c) <then_branch = t () => (float p) { p = Sin (x) }, else_branch = e () => (float q) { q = Cos (x) }>"""
    )
    text = f"""g (float x, bool c) => (float y) {{ n = Div (x, x) u = Cast <to = 6> (n) d = Cast <to = 9> (u)
        y = If (d) <then_branch = a () => (float v) {{ v = {inner} }},
        else_branch = b () => (float w) {{ w = {inner} }}> }}"""
    evaluator = Evaluator(parsed(text), PromotionRules(), Engine("reference"))
    watched = list[str]()
    evaluator.run(
        {"x": np.array(0, np.float32), "c": np.array(True)},
        watch=lambda _path, value, _: watched.append(value.name or ""),
    )
    assert watched.count("p") == 1
    assert {name for name in watched if name in "vwpq"} in ({"p", "v"}, {"p", "w"})


def test_a_zero_that_is_exact_is_defined() -> None:
    for kind in ("uint8", "int8", "float8e4m3fn", "float8e5m2"):
        model = parsed(f"g (float[2] x, float s, {kind} z) => ({kind}[2] y) {{ y = QuantizeLinear (x, s, z) }}")
        zero = np.zeros((), onnx.helper.tensor_dtype_to_np_dtype(int(onnx_ir.DataType[kind.upper()])))
        found = run(model, {"x": np.array([0, 2], np.float32), "s": np.array(1, np.float32), "z": zero})["y"]
        assert (found.undefined, found.array.astype(float).tolist()) == (None, [0, 2])


def test_the_precision_of_a_quantization_is_that_of_its_division() -> None:
    x, scale = np.arange(1, 999, dtype=np.float16), np.array(2.333, np.float16)
    found = dict[int, list[int]]()
    for precision, dtype in ((1, np.float32), (10, np.float16)):
        node = f"QuantizeLinear <output_dtype = 5, precision = {precision}> (x, s)"
        text = f"{HEAD.replace('21', '23')} g (float16[N] x, float16 s) => (int16[N] y) {{ y = {node} }}"
        feeds = {"x": x, "s": scale}
        found[precision] = run(onnx_ir.from_proto(onnx.parser.parse_model(text)), feeds)["y"].array.tolist()
        assert found[precision] == np.rint(x.astype(dtype) / scale.astype(dtype)).astype(int).tolist()
    assert found[1] != found[10]


def test_an_input_stands_for_the_default_that_a_model_stores_of_it() -> None:
    """Until IR version 4 each initializer is an input too; since then one that is also an input is its default."""
    for version in (3, 10):
        text = f'<ir_version: {version}, opset_import: ["" : 8]> g (float[2] x, float[2] d) => (float[2] y)'
        model = onnx.parser.parse_model(f"{text} <float[2] d = {{1, 2}}> {{ y = Add (x, d) }}")
        feeds = {"x": np.array([3, 5], np.float32)}
        for more, expected in (({}, [4, 7]), ({"d": np.array([10, 20], np.float32)}, [13, 25])):
            found = run(onnx_ir.from_proto(model), {**feeds, **more})["y"]
            assert isinstance(found, Tensor)
            assert found.array.tolist() == expected


@pytest.mark.parametrize(
    ("declared", "call", "expected"),
    [
        ("alpha", "", -0.01),  # the attribute is left out, and the operator has its own default
        ("alpha", "<alpha = 0.5>", -0.5),
        ("alpha: float = 0.25", "", -0.25),
        ("alpha: float = 0.25", "<alpha = 0.5>", -0.5),
    ],
)
def test_the_parameters_of_a_function(declared: str, call: str, expected: float) -> None:
    function = f'<domain: "f", opset_import: ["" : 21]> h <{declared}> (a) => (p)'
    text = f"g (float x) => (float y) {{ y = f.h {call} (x) }} {function}"
    model = parsed(f"{text} {{ p = LeakyRelu <alpha: float = @alpha> (a) }}")
    assert run(model, {"x": np.array(-1, np.float32)})["y"].array == np.float32(expected)


def test_an_operator_is_promoted_by_the_schema_of_its_domain() -> None:
    """Another domain may have an operator of the same name, of whose operands the standard says nothing."""
    types = list[list[str]]()

    class Noting(Engine):
        def run(self, node: onnx_ir.Node, operands: Any, *_: Any, **__: Any) -> list[Any]:
            assert node.op_type == "Add"
            types.append([operand.dtype.name for operand in operands])
            return [operands[0]]

    rules = PromotionRules(promote_unsafe=True)
    for domain in ("", "ai.onnx", "com.microsoft"):
        model = parsed("g (float16 x, float z) => (y) { y = Add (x, z) }")
        model.graph[0].domain = domain
        Evaluator(model, rules, Noting("reference")).run({"x": np.array(2, np.float16), "z": np.array(2, np.float32)})
    assert types == [["float32", "float32"], ["float32", "float32"], ["float16", "float32"]]


def test_a_constant_is_not_run() -> None:
    evaluator = Evaluator(
        parsed("g () => (y) { y = Constant <value_float = 2.0> () }"), PromotionRules(), Engine("reference")
    )
    assert [content.array.tolist() for content in evaluator.run({}).values() if isinstance(content, Tensor)] == [2]
    assert evaluator.engine.ran == {}


E4M3 = np.zeros(2, ml_dtypes.float8_e4m3fn)
AT = np.zeros(1, np.int64)


@pytest.mark.parametrize(
    ("operator", "operands", "expected"),
    [
        ("Identity", [E4M3], True), ("Slice", [E4M3, AT, AT], True), ("Gather", [E4M3, AT], True),
        ("Concat", [E4M3, E4M3], True), ("Concat", [E4M3, None], True), ("Concat", [E4M3, AT], False),
        ("Identity", [AT], False), ("Identity", [None], False), ("Identity", [], False), ("Neg", [E4M3], False),
        ("f.Identity", [E4M3], False), ("Identity", [np.zeros(2, ml_dtypes.float8_e8m0fnu)], False),
    ],
)  # fmt: skip
def test_what_only_moves_types_that_numpy_lacks(operator: str, operands: list[Any], expected: bool) -> None:
    """Places and indices are no elements that are moved."""
    domain, _, op_type = operator.rpartition(".")
    stored = _stored(onnx_ir.node(op_type, [None] * len(operands), domain=domain), operands)
    assert stored == (E4M3.dtype if expected else None)


def test_values_of_the_model_do_not_count_as_released() -> None:
    """Five arrays of 60 kB exceed a quarter of 1 MiB, after a weight is used for the last time."""
    inits = onnx_ir.tensor(np.ones(15_000, np.float32), name="w")
    model = parsed(
        "g (float[15000] x, float[15000] w) => (y, z, t, s) { y = Add (x, w) z = Neg (x) t = Abs (x) s = Sign (x) }"
    )
    del model.graph.inputs[1]
    weight = next(value for value in model.graph[0].inputs if value is not None and value.name == "w")
    weight.const_value = inits
    model.graph.register_initializer(weight)
    evaluator = Evaluator(model, PromotionRules(), Engine("reference"), Budget(20, memory=1))
    with pytest.raises(LimitError, match="a quarter of 1 MiB"):
        evaluator.run({"x": np.zeros(15_000, np.float32)})
    chain = "a = Neg (x) b = Neg (a) c = Neg (b) d = Neg (c) y = Neg (d)"
    released = Evaluator(parsed(f"g (float[15000] x) => (y) {{ {chain} }}"), PromotionRules(), Engine("reference"))
    released.budget = Budget(20, memory=1)
    assert list(released.run({"x": np.zeros(15_000, np.float32)})) == ["y"]
