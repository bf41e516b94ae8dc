"""convert: steps in order, names of nodes, kept inputs and outputs, what is proven, and the limits of both."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import onnx_ir
import onnxruntime
import pytest
from onnx_ir import DataType

import castsmith
from castsmith import convert
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.lowering import conversion
from castsmith.lowering.conversion import (
    NOT_RESCALED,
    Request,
    _evidence,  # pyright: ignore[reportPrivateUsage]
    _judged,  # pyright: ignore[reportPrivateUsage]
    _known,  # pyright: ignore[reportPrivateUsage]
    _names,  # pyright: ignore[reportPrivateUsage]
    _rescaled,  # pyright: ignore[reportPrivateUsage]
    _scaled,  # pyright: ignore[reportPrivateUsage]
    _way_out,  # pyright: ignore[reportPrivateUsage]
)
from castsmith.lowering.faults import Fault
from castsmith.lowering.results import Accuracy, ConvertResult, OutputError
from castsmith.numerics.errors import OptionError
from castsmith.passes.core.convert_options import ConvertOptions
from castsmith.passes.precision.constants import RoundingLosses
from castsmith.passes.precision.patterns import Pattern
from castsmith.passes.precision.run import Precision, PrecisionResult
from castsmith.targets.target import Target
from castsmith.verification.bounds import Bound
from tests.sampling import check_all

MODEL = """<ir_version: 10, opset_import: ["" : 21, "local": 1]>
g (float[2,2] x, float[2,2] v, float16[2,2] h) => (float[2,2] y, float[2,2] z) {
    a = Add (x, h) [n] b = MatMul (a, v) [n] c = MatMul (b, v) y = local.f (c) z = Erf (b) }
<domain: "local", opset_import: ["" : 21]> f (u) => (w) { t = Relu (u) [n_1] w = Tanh (t) }"""
SOUND = MODEL.replace("(x, h)", "(x, v)")
TAKEN = "{} is supported, and its constants fit"


def converted(text: str, **options: Any) -> ConvertResult:
    return convert(onnx.parser.parse_model(text), **options)


def types(model: onnx_ir.Model) -> list[str]:
    return [value.dtype.name.lower() for value in (*model.graph.inputs, *model.graph.outputs) if value.dtype]


REPAIR = ["insert-promote-types", "resolve-promote-types", "fold-constants"]
STEPS: list[tuple[str, dict[str, Any], list[str]]] = [
    (MODEL, {"to": "float16"}, [*REPAIR, "convert-precision", "simplify-casts"]),
    (SOUND, {"to": "float16"}, ["convert-precision", "simplify-casts"]),
    (SOUND, {"to": "bfloat16"}, ["convert-precision", "convert-precision", "simplify-casts"]),
    (SOUND.replace("float16", "float"), {"to": "bfloat16"}, ["convert-precision", "simplify-casts"]),
    (SOUND, {"to": "float16", "inputs": "made-up"}, ["measuring", "convert-precision", "simplify-casts"]),
    (
        SOUND,
        {"to": "float16", "target": "onnxruntime-cpu"},
        ["lower-custom", "convert-precision", "UnifyOperands", "simplify-casts", "FitLoader"],
    ),
    (  # a target without double, and a model without it
        SOUND,
        {"to": "float16", "target": "tensorrt-11"},
        ["lower-custom", "convert-precision", "UnifyOperands", "simplify-casts", "FitLoader"],
    ),
]


@pytest.mark.parametrize(("text", "options", "names"), STEPS)
def test_the_steps_are_announced_in_order(text: str, options: dict[str, Any], names: list[str]) -> None:
    """A model whose operands agree is not repaired; only one that holds the other 16-bit type is widened first."""
    told = list[str]()
    converted(text, progress=told.append, **options)
    assert told == names


def test_nodes_of_one_name_and_of_none_are_told_apart() -> None:
    result = converted(MODEL, to="float16", ranges=dict.fromkeys("xvh", (-1, 1)))
    half, fits = TAKEN.format("float16"), "; its result is proven to fit"
    assert result.precisions == {
        "a": (DataType.FLOAT16, half + fits),
        "n": (DataType.FLOAT16, half + fits),
        "n_1": (DataType.FLOAT16, half + fits),
        "z": (DataType.FLOAT16, half + fits),
        "t": (DataType.FLOAT16, half + fits),
        "n_1_1": (DataType.FLOAT16, half + fits),
    }
    assert result.operators == {"a": "Add", "n": "MatMul", "n_1": "MatMul", "z": "Erf", "t": "Relu", "n_1_1": "Tanh"}
    assert result.regions == {"a": 1, "n": 1, "n_1": 1, "z": 1, "t": 2, "n_1_1": 2}


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (True, "float float float16 float float"),
        (False, "float16 float16 float16 float16 float16"),
        (["x", "y"], "float float16 float16 float float16"),
        ("z", "float16 float16 float16 float16 float"),
        (["x", "v", "h", "y", "z"], "float float float16 float float"),
        ([], "float16 float16 float16 float16 float16"),
    ],
)
def test_inputs_and_outputs_that_are_kept(keep: bool | str | list[str], expected: str) -> None:
    assert " ".join(types(converted(MODEL, to="float16", keep_io_types=keep).model)) == expected


def test_the_types_of_inputs_and_outputs_are_chosen_once() -> None:
    model = onnx_ir.from_proto(onnx.parser.parse_model(MODEL))
    for keep, io in ((True, "convert"), (False, "keep"), (["x"], "x")):
        with pytest.raises(OptionError, match=r"^`io` and `keep_io_types` both say which inputs and outputs keep"):
            convert(model, to="float16", keep_io_types=keep, io=io)
    assert types(convert(model, to="float16", io="convert").model) == types(
        convert(model, to="float16", keep_io_types=False).model
    )


def test_the_error_is_measured_on_request() -> None:
    model = onnx_ir.from_proto(onnx.parser.parse_model(MODEL))
    assert convert(model, to="float16").error is None
    measured = convert(model, to="float16", measure=True)
    generated = convert(model, to="float16", inputs="made-up")
    assert measured.error is not None
    assert measured.error.sets
    assert measured.error == generated.error


def test_the_error_is_that_of_the_conversion_alone() -> None:
    """The float16 that the model has rounds in the same way before and after."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y, float[2] z) {
        h = Cast <to = 10> (x) b = Mul (h, h) y = Cast <to = 1> (b) z = Neg (x) }"""
    error = converted(text, to="float16", inputs={"x": np.array([0.1, 0.3], np.float32)}, keep="name:z").error
    assert error is not None
    assert error.worst == 0


def test_inputs_and_outputs_that_there_are_not_are_refused() -> None:
    for text in ("no", ["x", "no"]):
        with pytest.raises(OptionError) as error:
            converted(MODEL, to="float16", keep_io_types=text)
        assert (
            str(error.value) == "`keep_io_types` names 'no', which is not an input or output; expected x, v, h, y, z."
        )


@pytest.mark.parametrize(
    ("high", "told"),
    [
        (30000.0, "; its result is proven to fit"),
        (32759.0, "; its result is proven to fit"),
        (32760.0, "; it may reach 65520: measure it on inputs"),
        (40000.0, "; it may reach 80000: measure it on inputs"),
    ],
)
def test_what_is_proven_of_a_result_is_told(high: float, told: str) -> None:
    """A bound beyond the largest float16 does not keep the node: the result may be far below it."""
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Add (x, x) }'
    result = converted(text, to="float16", ranges={"x": (0.0, high)})
    assert result.precisions == {"y": (DataType.FLOAT16, TAKEN.format("float16") + told)}
    brain = converted(text, to="bfloat16", ranges={"x": (0.0, high)})
    assert brain.precisions == {"y": (DataType.BFLOAT16, TAKEN.format("bfloat16"))}


IN_HALF, IN_BRAIN = TAKEN.format("float16"), TAKEN.format("bfloat16")
NEG, OF_BYTES = "(float[2] x) => (float[2] y) { y = Neg (x) }", "(int8[2] x) => (float[2] y) { y = Cast <to = 1> (x) }"
WIDE, OF_HALVES = OF_BYTES.replace("int8", "int32"), NEG.replace("float", "float16")
SQUARE = """(float[2] x, bool c) => (float[2] y) <float one = {{1}}, int64 two = {{2}}> {{
    a = Mul (x, x) b = Abs (a) w = {} y = Neg (w) }}"""
HANDED_ON = (
    "Add (b, one)",
    "If (c) <then_branch = t () => (u) { u = Add (b, one) }, else_branch = e () => (v) { v = Neg (x) }>",
    "Loop (two, c, b) <body = l (int64 i, bool k, float[2] s) => (bool d, float[2] r) { d = Not (k) r = Relu (s) }>",
)
KNOWN: list[tuple[str, str, float | None, tuple[float, float] | None, str, list[str]]] = [
    # a model, its new type, what x is and between which numbers it lies, what is said of y, and the codes of warnings
    (OF_BYTES, "float16", None, None, f"{IN_HALF}; its result is proven to fit", []),
    (OF_BYTES, "bfloat16", None, None, IN_BRAIN, []),
    (NEG, "float16", None, None, IN_HALF, []),
    (NEG, "float16", 1e-5, None, IN_HALF, []),  # where that does harm is found by running the result
    (NEG, "float16", None, (-1e-5, 1e-5), "y stays below 1e-05 (proven), where float16 loses bits", []),
    (NEG, "bfloat16", 1e-5, None, IN_BRAIN, []),
    (NEG, "bfloat16", 1e-39, None, "y stays below 1e-39 (measured), where bfloat16 loses bits", []),
    (NEG, "bfloat16", 1e-39, (-1, 1), IN_BRAIN, []),  # what is proven to fit comes before what was measured
    # What depends on a value that vanishes is not proven to fit, however it is handed on.
    *((SQUARE.format(w), "float16", None, (0.1, 1), f"{IN_HALF}; its result is proven to fit", []) for w in HANDED_ON),
    *((SQUARE.format(w), "float16", None, (1e-5, 1), IN_HALF, []) for w in HANDED_ON),
    # A model in float16 is healed if it is to be in float16, and converted if not.
    (OF_HALVES, "float16", None, None, "nothing goes wrong there", []),
    (OF_HALVES, "float", None, None, TAKEN.format("float"), []),
    (OF_HALVES, "bfloat16", None, None, IN_BRAIN, []),
    # Bounds beyond float16 are told of where they are of stated ranges.
    (WIDE, "float16", None, None, "float16 does not hold every int32", []),
    (WIDE, "float16", None, (0, 65519), "float16 does not hold every int32", []),
    (WIDE, "float16", None, (0, 65520), "float16 does not hold every int32", ["may-not-fit"]),
]


def require_known(
    body: str, to: str, x: float | None, ends: tuple[float, float] | None, said: str, codes: list[str]
) -> None:
    feeds = {} if x is None else {"inputs": {"x": np.array([x, -x], np.float32)}}
    text = f'<ir_version: 10, opset_import: ["" : 21]> g {body}'
    result = converted(text, to=to, ranges=ends and {"x": ends}, keep_io_types="x", **feeds)
    assert result.precisions["y"][1] == said
    assert [finding.code for finding in result.diagnostics if finding.severity is Severity.WARNING] == codes


def test_what_is_known_of_values_decides_what_is_said_of_them() -> None:
    check_all(require_known, KNOWN)


MAGNITUDES: list[tuple[str, str, float | None, tuple[float, float] | None, dict[str, float]]] = [
    # a model, its new type, what x is and between which numbers it lies, and the largest magnitudes of results
    (NEG, "float16", None, None, {}),
    (NEG, "float16", None, (-3, 2), {"y": 3}),
    (NEG, "float16", 1.5, None, {"y": 1.5}),
    (NEG, "float16", 1.5, (-3, 2), {"y": 1.5}),  # what was measured comes before what is proven
    (NEG, "bfloat16", None, (-3, 2), {"y": 3}),
    (NEG, "bfloat16", 1.5, None, {"y": 1.5}),
    (OF_BYTES, "float16", None, None, {"y": 128}),
    (OF_BYTES, "bfloat16", None, None, {}),  # nothing is beyond it but what is stated
]


def require_magnitudes(
    body: str, to: str, x: float | None, ends: tuple[float, float] | None, expected: dict[str, float]
) -> None:
    feeds = {} if x is None else {"inputs": {"x": np.array([x, -x], np.float32)}}
    text = f'<ir_version: 10, opset_import: ["" : 21]> g {body}'
    result = converted(text, to=to, ranges=ends and {"x": ends}, keep_io_types="x", **feeds)
    assert result.magnitudes == expected


def test_the_largest_magnitudes_of_results_are_those_measured_or_proven() -> None:
    check_all(require_magnitudes, MAGNITUDES)


EVIDENCE: list[tuple[str, bool, bool, str]] = [
    # the new type, whether the inputs are made up and an error is searched for, and of which values bounds are used
    ("float16", False, False, "small great"),
    ("float16", False, True, "small great"),
    ("float16", True, False, ""),
    ("float16", True, True, "great"),
    ("bfloat16", True, True, ""),
]


def require_evidence(to: str, made_up: bool, search: bool, expected: str) -> None:
    measured = {"small": Bound(-65504, 65504, "measured"), "great": Bound(-65505, 1, "measured")}
    assert " ".join(_evidence(measured, DataType[to.upper()], made_up=made_up, search=search)) == expected


def test_of_inputs_that_are_made_up_a_search_alone_uses_what_exceeds_the_new_type() -> None:
    check_all(require_evidence, EVIDENCE)


@pytest.mark.parametrize(("to", "known"), [("float16", ["zero", "least"]), ("bfloat16", ["zero", "below", "least"])])
def test_what_is_measured_to_vanish_in_float16_is_not_evidence_but_zeros_are(to: str, known: list[str]) -> None:
    ends = {"zero": 0.0, "below": 2.0**-14 - 2.0**-30, "least": 2.0**-14}
    measured = {name: Bound(-end, end, "measured") for name, end in ends.items()}
    evidence = _known(DataType[to.upper()], {}, measured, {})
    assert evidence is not None
    assert [name for name in ends if evidence(name)] == known


@pytest.mark.parametrize(("high", "told"), [(3.38e38, []), (3.4e38, ["may-not-fit"])])
def test_an_output_that_may_exceed_bfloat16_in_the_ranges_is_told(high: float, told: list[str]) -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Neg (x) }'
    result = converted(text, to="bfloat16", ranges={"x": (0.0, high)}, keep_io_types=False)
    assert [finding.code for finding in result.diagnostics if finding.severity.value == "warning"] == told


def test_a_bfloat16_model_of_no_target_has_a_note_about_the_first_operator_without_a_kernel() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) {
        a = Add (x, x) y = Mul (a, x) }"""
    (note,) = converted(text, to="bfloat16").diagnostics
    assert (note.code, note.severity.value, note.site.op) == ("target-lacks-kernel", "note", "Add")
    assert note.help == "`target=` keeps nodes without a kernel in float"
    assert note.message.startswith("onnxruntime-cpu has no Add of bfloat16 at opset 21")
    assert converted(text, to="float16").diagnostics == []
    mine = Target("mine", "", newest_opset=21, newest_ir_version=10)
    assert converted(text, to="bfloat16", target=mine).diagnostics == []


def test_what_the_target_refuses_is_a_warning() -> None:
    old = Target("old", "", newest_opset=21, newest_ir_version=10, lacks=("int16",))
    findings = converted(SOUND.replace("float16[2,2] h", "int16[2,2] h"), to="float16", target=old).diagnostics
    assert [(finding.code, finding.severity.value, finding.help) for finding in findings] == [
        ("target-lacks-type", "warning", "`fit(target='old')` tries all other ways")
    ]


def test_the_opset_of_the_target_is_reached_also_downwards() -> None:
    old = Target("old", "", newest_opset=20, newest_ir_version=9)
    result = converted(SOUND, to="float16", target=old)
    assert (
        result.diagnostics
        == []
        == [finding for finding in castsmith.check(result.model, target=old) if finding.severity.value == "error"]
    )
    assert result.model.graph.opset_imports[""] == 20


@pytest.mark.parametrize(("magnitude", "by_far"), [(8188.0, True), (8189.0, False), (None, False)])
def test_what_was_measured_fits_by_far_with_a_margin_of_eight(magnitude: float | None, by_far: bool) -> None:
    model = onnx_ir.from_proto(
        onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[2] y, float[2] z) {'
            " y, z = Split <num_outputs = 2> (x) }"
        )
    )
    bounds = {} if magnitude is None else {"z": Bound(-magnitude, 1, "measured")}
    half = DataType.FLOAT16
    reached = {"y": Bound(0, 1, "measured"), **bounds}
    request = Request(ConvertOptions(to="float16"), half, None, "keep", (), (), RoundingLosses(half), reached=reached)
    (node,) = model.graph
    assert request.fits_by_far(node, {value: value.name or "" for value in node.outputs}) == by_far


DOUBLE = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x, double[2] d) => (float[2] y, double[2] z) {
    y = Neg (x) z = Neg (d) }"""


@pytest.mark.parametrize(
    ("lacks", "off", "expected"),
    [(True, False, DataType.FLOAT), (False, True, DataType.FLOAT), (False, False, DataType.DOUBLE)],
)
def test_double_is_left_where_the_target_has_it(lacks: bool, off: bool, expected: DataType) -> None:
    only = frozenset({DataType.DOUBLE})
    cpu = Target("cpu", "", newest_opset=21, newest_ir_version=10)
    target = Target("t", "", newest_opset=21, newest_ir_version=10, lacks=only if lacks else frozenset(),
                    off_device=only if off else frozenset(), fallback=cpu if off else None)  # fmt: skip
    result = converted(DOUBLE, to="float16", target=target, keep="name:z")
    assert result.precisions["y"] == (DataType.FLOAT16, TAKEN.format("float16"))
    assert result.precisions.get("z", (DataType.DOUBLE, ""))[0] == expected
    if expected == DataType.FLOAT:
        assert result.precisions["z"][1] == "t has no double"
        assert [node.inputs[0].dtype for node in result.model.graph if node.op_type == "Neg"] == [  # pyright: ignore[reportOptionalMemberAccess]
            DataType.FLOAT16,
            DataType.FLOAT,
        ]


@pytest.mark.parametrize("provenance", [True, False])
def test_new_nodes_name_their_rule_on_request(provenance: bool) -> None:
    result = converted(SOUND, to="float16", provenance=provenance)
    casts = [node for node in result.model.graph.all_nodes() if node.op_type == "Cast"]
    assert casts
    assert {node.metadata_props.get("castsmith.rule") for node in casts} == {"cast-at-border" if provenance else None}
    others = [node for node in result.model.graph.all_nodes() if node.op_type != "Cast"]
    assert not any(node.metadata_props for node in others)


def test_a_model_is_changed_in_place_on_request_alone() -> None:
    model = onnx_ir.from_proto(onnx.parser.parse_model(SOUND))
    assert convert(model, to="float16").model is not model
    assert [node.op_type for node in model.graph] == ["Add", "MatMul", "MatMul", "f", "Erf"]
    assert convert(model, to="float16", in_place=True).model is model
    assert "Cast" in {node.op_type for node in model.graph}


def test_a_range_that_is_stated_keeps_a_node_before_what_is_measured_or_proven() -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { a = Relu (x) y = Neg (a) }'
    feeds = {"x": np.array([1e5, 2], np.float32)}
    for options, kept in (
        ({}, set[str]()),
        ({"inputs": feeds}, {f"{name} reaches 100000 (measured), beyond float16" for name in "ay"}),
        (
            {"inputs": feeds, "ranges": {"a": (0, 9)}},
            {f"{name} reaches 100000 (measured), beyond float16" for name in "xy"},
        ),
        ({"ranges": {"a": (0, 65504)}}, set[str]()),
        ({"ranges": {"a": (0, 65536)}}, {"a reaches 65536 (stated), beyond float16"}),
    ):  # fmt: skip
        result = converted(text, to="float16", **options)
        assert {reason for _, reason in result.precisions.values() if "beyond" in reason} == kept, options


@pytest.mark.parametrize(
    ("name", "ends", "message"),
    [
        ("b", (0, 1), "`ranges` names 'b', which is not a value of the model; "),
        ("a", (1, 0), "invalid range 1:0 for a; expected two finite numbers, the lower first."),
        ("a", (0, float("inf")), "invalid range 0:inf for a; expected two finite numbers, the lower first."),
        ("a", (float("nan"), 1), "invalid range nan:1 for a; expected two finite numbers, the lower first."),
    ],
)
def test_a_range_that_says_nothing_is_refused(name: str, ends: tuple[float, float], message: str) -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { a = Relu (x) y = Neg (a) }'
    with pytest.raises(OptionError) as error:
        converted(text, to="float16", ranges={name: ends})
    assert str(error.value).startswith(message)


def test_a_mixed_operand_that_is_left_is_an_error_and_what_was_wrong_before_a_warning() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> g (uint8[2] u, bool[2] b, float[2] x) => (bool[2] y, float[2] z)
        { y = And (u, b) z = Neg (x) }"""
    findings = converted(text, to="float16").diagnostics
    assert [(finding.code, finding.severity.value, finding.site.op) for finding in findings] == [
        ("type-not-allowed", "warning", "And")
    ]


_LOAD = "import sys, onnxruntime; onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])"


def test_a_wrong_declaration_is_corrected() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]> g (float[2,3] x) => (float[M,N] y)
        <float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
            s = Constant <value = int64[2] {3, 2}> () r = Reshape (x, s) t = Transpose (r) y = MatMul (t, w) }""")
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("s", onnx.TensorProto.FLOAT, [2]))
    assert [finding.code for finding in castsmith.check(proto)] == ["value-type-mismatch"]
    assert castsmith.check(convert(proto, to="float16").model) == []


def test_batches_that_are_transposed_and_multiplied_load(tmp_path: Path) -> None:
    """ONNX Runtime 1.32.0 ends the process when it loads them without the ranks, which the Transposes state."""
    text = f"""<ir_version: 8, opset_import: ["": 17]> g (float[N,4] x, int64[L] s) => (float[A,B,C] y)
    <float half = {{0.5}}, float[4,4] w = {{{", ".join(["0.5"] * 16)}}}> {{
      h = MatMul (x, w) m = Mul (h, half) r = Reshape (m, s) t = Reshape (h, s)
      k = Transpose <perm = [1, 2, 0]> (r) q = Transpose <perm = [1, 0, 2]> (t) y = MatMul (q, k) }}"""
    proto = onnx_ir.to_proto(convert(onnx.parser.parse_model(text), to="float16").model)
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in proto.graph.value_info}
    assert ranks["k"] == ranks["q"] == 3
    codes = list[int]()
    for _ in range(2):
        onnx.save(proto, tmp_path / "model.onnx")
        codes.append(subprocess.run([sys.executable, "-c", _LOAD, tmp_path / "model.onnx"], check=False).returncode)
        del proto.graph.value_info[:]
    assert codes[0] == 0
    assert codes[1] < 0 or onnxruntime.__version__ != "1.32.0"


def test_ranks_are_declared_beside_a_transpose_of_batches_alone() -> None:
    """Of the Transpose its order states the rank, of the other operand its shape, if it is known."""
    body = "h = MatMul (x, w) r = Reshape (h, s) k = Transpose <perm = {}> (r) q = Relu (h) y = MatMul (k, q)"
    for order, ranks in (("[1, 2, 0]", {"k": 3, "q": 3}), ("[0, 2, 1]", {})):
        text = f"""<ir_version: 8, opset_import: ["": 17]> g (float[N,4,4] x, int64[L] s) => (float[A,B,C] y)
            <float[4,4] w = {{{", ".join(["0.5"] * 16)}}}> {{ {body.format(order)} }}"""
        result = converted(text, to="float16")
        values = [value for node in result.model.graph for value in node.outputs if value.name in ("h", "r", "k", "q")]
        assert {value.name: len(value.shape) for value in values if value.shape is not None} == ranks


def test_no_double_is_left_where_the_target_has_none() -> None:
    """Not in float either, and not behind integers, which keep a node in its type otherwise."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (double[4] x, int64[4] i) => (double[4] y, double[4] z) <double d = {3.0}> {
        y = Exp (x) t = Cast <to = 11> (i) u = Div (t, d) z = Sin (u) }"""
    for to in ("float", "float16", "bfloat16"):
        result = converted(text, to=to, target="tensorrt-11", keep_io_types=False)
        left = [value.name for node in result.model.graph for value in node.outputs if value.dtype == DataType.DOUBLE]
        assert not left, (to, left)
        assert DataType.DOUBLE.name.lower() not in types(result.model), to
        kept = converted(text, to=to, target="tensorrt-11")
        assert types(kept.model) == ["double", "int64", "double", "double"]


QUANTIZED = """<ir_version: 10, opset_import: ["" : 19]>
    g (float[2,4] x) => (float[2,3] y) <float s = {0.5}, uint8 z = {128},
    uint8[4,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 250, 251, 252}, int32[3] b = {7, -9, 100}, float t = {0.25}> {
        q = QuantizeLinear (x, s, z) a = DequantizeLinear (q, s, z) v = DequantizeLinear (w, s, z)
        NODES }"""


@pytest.mark.parametrize("to", ["float16", "bfloat16"])
@pytest.mark.parametrize("bias", ["m = MatMul (a, v) {} y = Add (m, c)", "{} y = Gemm (a, v, c)"])
def test_quantizers_that_the_target_lacks_are_written_as_it_takes_them(bias: str, to: str) -> None:
    """uint8 is shifted to int8, exactly, and a bias of int32 is folded, also as an operand of a quantized operator."""
    text = QUANTIZED.replace("NODES", bias.format("c = DequantizeLinear (b, t)"))
    result = converted(text, to=to, target="tensorrt-11")
    assert not [
        finding for finding in castsmith.check(result.model, target="tensorrt-11") if finding.severity.name == "ERROR"
    ]
    assert "shift-to-int8" in {rewrite.rule for rewrite in result.rewrites}
    assert not [record for record in result.diagnostics if record.severity.name == "ERROR"]
    plain = converted(text, to=to)
    assert castsmith.verify(plain.model, result.model).equal
    assert not {"shift-to-int8", "quantize-in-float"} & {record.rule for record in plain.rewrites}


@pytest.mark.parametrize(
    "node",
    [
        "Slice (c, one, two, one)",
        "Gather (c, one)",
        "Transpose (c)",
        "Concat <axis = 0> (c, c)",
    ],
)
def test_a_conversion_replaces_what_optimize_replaces(node: str) -> None:
    """The nodes that keep their type too, where the target has no kernel for it."""
    text = f"""<ir_version: 10, opset_import: ["" : 21]> g (float[4,4] x) => (float[M,N] y)
        <int64[1] one = {{1}}, int64[1] two = {{2}}> {{
            e = Erf (x) c = Cast <to = 2> (e) d = {node} y = Cast <to = 1> (d) }}"""
    result = converted(text, to="float16", target="tensorrt-11")
    assert castsmith.check(result.model, target="tensorrt-11") == result.diagnostics == []
    assert "run-in-wider-type" in {rewrite.rule for rewrite in result.rewrites}


CALLS = '<ir_version: 9, opset_import: ["": 17, "own": 1]> g (float16[2] x) => (float16[2] y) { y = own.F (x) }'
FUNCTION = ' <domain: "own", opset_import: ["": 17]> F (p) => (q) { q = Neg (p) }'
OTHER_OPSET = FUNCTION.replace("17", "16")
UNCALLED = CALLS.replace("own.F", "Neg")
# A model, whether powers are not found for it, its error, that of its nodes inlined, its rescalings, whether it stays.
INLINED: list[tuple[str, bool, float, float, int, bool]] = [
    (CALLS + FUNCTION, True, 0.5, 0.25, 2, False),
    (CALLS + FUNCTION, True, float("inf"), 0.5, 2, False),
    (CALLS + FUNCTION, True, 0.5, 0.5, 2, True),  # no better without its functions
    (CALLS + FUNCTION, True, 0.25, 0.5, 2, True),
    (CALLS + FUNCTION, False, 0.5, 0.25, 1, True),
    (CALLS + OTHER_OPSET, True, 0.5, 0.25, 1, True),  # it cannot be inlined
    (UNCALLED, True, 0.5, 0.25, 1, True),
    (UNCALLED, False, 0.5, 0.25, 1, True),
]


def _check_inlined(text: str, wrong: bool, error: float, inlined: float, times: int, stays: bool) -> None:
    original, errors, rescaled = onnx_ir.from_onnx_text(text), [error, inlined], list[onnx_ir.Model]()

    def scaled(model: onnx_ir.Model, *_: object, **__: object) -> ConvertResult:
        worst = errors[len(rescaled)]
        rescaled.append(model)
        codes = [NOT_RESCALED.code] if wrong else ["other"]
        told = [Diagnostic(code, Severity.WARNING, Site("g"), "m") for code in codes]
        return ConvertResult(model, [], [], told, error=Accuracy(("one",), (OutputError("y", 1, worst, 1, None),)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversion, "_scaled", scaled)
        result = _rescaled(original, ConvertOptions(to="float16", rescale=True), half=True)
    assert (len(rescaled), result.model is original) == (times, stays)
    assert [rewrite.rule for rewrite in result.rewrites] == ([] if stays else ["inline-functions"])
    assert [node.op_type for node in result.model.graph] == (["F"] if stays and "F" in text else ["Neg"])


def test_an_output_of_infinite_error_alone_is_an_error() -> None:
    outputs = tuple(OutputError(name, size, 2, 1, None) for name, size in (("y", 1e9), ("z", float("inf"))))
    result = ConvertResult(
        onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 21]> g {NEG}'),
        [],
        [],
        [],
        error=Accuracy(("one",), outputs),
    )
    (finding,) = _judged(result, "a way out").diagnostics
    assert (finding.code, finding.site, finding.help) == ("infinite-error", Site("g", "z"), "a way out")


def test_functions_are_inlined_where_powers_are_found_for_their_nodes_alone() -> None:
    check_all(_check_inlined, INLINED)


def _accuracy(error: float, *sets: str) -> Accuracy:
    return Accuracy(sets or ("one",), (OutputError("y", error, error, 1, None),))


def _measuring(error: float, *sets: str) -> Callable[[object, object], Accuracy]:
    """What takes the place of `measure`."""
    return lambda _, __: _accuracy(error, *sets)


FED = {"x": np.array([1, 2], np.float32)}
REACHED: list[tuple[dict[str, Any], str, str]] = [
    # Of which values it is known what they are on inputs, and of which that counts beside a proof.
    ({}, "", ""),
    ({"inputs": FED}, "x y", "x y"),
    ({"inputs": FED, "ranges": {"x": (0, 9)}}, "x y", ""),  # a proof has to hold for the ranges
    ({"inputs": FED, "max_error": 1.0}, "x y", "x y"),
    ({"inputs": "made-up"}, "x y", ""),
    ({"inputs": "made-up", "ranges": {"x": (0, 9)}}, "x y", ""),
    ({"measure": True}, "x y", ""),
    ({"max_error": 1.0}, "x y", ""),
]


def _check_reached(options: dict[str, Any], measured: str, reached: str) -> None:
    requests, convert_with = list[Request](), conversion._without_losses  # pyright: ignore[reportPrivateUsage]

    def noting(work: onnx_ir.Model, request: Request, baseline: Any) -> Any:
        requests.append(request)
        return convert_with(work, request, baseline)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversion, "_without_losses", noting)
        converted(f'<ir_version: 10, opset_import: ["" : 21]> g {NEG}', to="float16", **options)
    (request,) = requests
    assert (" ".join(sorted(request.measured)), " ".join(sorted(request.reached))) == (measured, reached)


def test_what_values_reach_counts_where_the_caller_gave_the_inputs_and_no_ranges() -> None:
    check_all(_check_reached, REACHED)


def test_a_node_is_named_by_itself_or_its_first_result_and_a_cast_that_is_put_in_is_not() -> None:
    model = onnx_ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 21]> g (float16[2] x) => (float[2] y)'
        " { a = Cast <to = 1> (x) [n] b = Neg (a) c = Cast <to = 1> (b) d = Abs (c) y = Relu (d) }"
    )
    own, negative, cast, absolute, relu = model.graph
    precisions = {node: Precision(DataType.FLOAT, "", 1, "before") for node in (own, negative, cast, absolute)}
    precisions[relu] = Precision(DataType.FLOAT, "")
    names = _names(PrecisionResult(model, True, precisions=precisions), {own: "a", negative: "b", absolute: ""})
    assert names == {own: "a", negative: "n", absolute: "before", relu: "Relu"}


def test_what_to_leave_out_where_an_output_becomes_infinite() -> None:
    half, every = DataType.FLOAT16, (Pattern("*", "", "*"),)
    ways = [
        _way_out(Request(ConvertOptions(to="float16"), half, None, io, (), lower, RoundingLosses(half)))
        for io, lower in (("convert", ()), ("y", every), ("keep", every), ("keep", ()))
    ]
    io = "let inputs and outputs keep their types"
    assert ways == [io, io, "convert without `lower`", "convert to bfloat16, which has the range of float"]


def test_a_search_is_not_ended_by_a_result_that_runs_on_some_of_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f'<ir_version: 10, opset_import: ["" : 21]> g {NEG}'
    monkeypatch.setattr(conversion, "measure", _measuring(0.0, "one", "two"))
    assert converted(text, to="float16", inputs=[FED, FED], max_error=0.5).attempts == 1
    monkeypatch.setattr(conversion, "measure", _measuring(0.0))
    with pytest.raises(OptionError, match="the error is inf, and inf if every node"):
        converted(text, to="float16", inputs=[FED, FED], max_error=0.5)


def test_a_search_keeps_what_is_to_be_kept_and_tells_of_proofs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        g (float[8, 8] x) => (float[8, 8] a, float[8, 8] b, float[8, 8] c)
        { a = MatMul (x, x) b = MatMul (x, w) c = MatMul (w, x) }""")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(8, dtype=np.float32), "w"))
    options: dict[str, Any] = {"to": "float16", "inputs": {"x": np.eye(8, dtype=np.float32)}, "keep": "name:a"}

    def off_by_b(_: object, model: onnx_ir.Model) -> Accuracy:
        in_float = {node.outputs[0].name for node in model.graph if node.op_type == "MatMul"}
        return _accuracy(0.1 if "b" in in_float else 0.5)

    monkeypatch.setattr(conversion, "measure", off_by_b)
    for most, kept, attempts in ((0.5, (), 1), (0.4, ("b",), 4)):
        result = convert(proto, ranges={"x": (0, 9)}, max_error=most, **options)
        told = {name: reason.count("proven to fit") for name, (_, reason) in result.precisions.items()}
        assert result.attempts == attempts
        assert (result.kept, told) == (kept, {name: int(name not in ("a", *kept)) for name in "abc"})
    with pytest.raises(OptionError, match=r"`max_error` 0\.05 is not reached: the error is 0\.5, and 0\.1 if every"):
        convert(proto, max_error=0.05, **options)


SCALED_ALL: list[tuple[bool, bool, float, list[str]]] = [
    # Whether a model is in float16 already, whether something goes wrong in it, its error, and what is told.
    (True, True, 0.5, ["not-rescaled"]),
    (True, False, 0.5, []),  # nothing goes wrong in float16
    (False, False, 0.5, ["not-rescaled"]),
    (False, True, 0.5, ["not-rescaled"]),
    (True, True, 1e-5, []),
    (False, False, 1e-5, []),
    (True, True, 0.01, []),  # the largest error that is not wrong
    (False, True, 0.01, []),
]


def _check_scaled(half: bool, wrong: bool, error: float, codes: list[str]) -> None:
    body = NEG.replace("float[", "float16[") if half else NEG
    model = onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 21]> g {body}')

    looked_at = list[onnx_ir.Model]()

    def faults(_: object, of: onnx_ir.Model) -> list[Fault]:
        looked_at.append(of)
        node = next(node for node in of.graph if node.op_type == "Neg")
        return [Fault(node, "y", "y", "y", "overflow", 1e6)] if wrong else []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversion, "faults", faults)
        patch.setattr(conversion, "measure", _measuring(error))
        result = _scaled(model, ConvertOptions(to="float16", rescale=True, inputs=FED), half=half)
    assert [finding.code for finding in result.diagnostics] == codes
    assert len(result.faults) == wrong
    assert len(looked_at) == (2 if wrong and error > 0.01 else 1)


def test_what_is_not_rescaled_is_told_where_something_goes_wrong() -> None:
    check_all(_check_scaled, SCALED_ALL)
