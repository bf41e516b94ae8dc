"""verify: every known miscompile is caught and its node named; what means the same is the same."""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from google.protobuf import text_format

import castsmith as public
from castsmith.ir.errors import OpsetError
from castsmith.verification.compare import difference
from castsmith.verification.evaluate import engines, limits
from castsmith.verification.evaluate.channel import TIMED
from castsmith.verification.evaluate.engines import Engine
from castsmith.verification.inputs.drawn import Inputs
from castsmith.verification.inputs.reach import Reach
from castsmith.verification.run import verify
from castsmith.verification.verdict import Verdict
from tests.cli.helpers import UNSAFE, write_model
from tests.sampling import sampled

pytestmark = pytest.mark.usefixtures("engines_here")

FOLDER = Path(__file__).parents[2] / "models"
UNSAFE_RULES = public.PromotionRules(promote_unsafe=True)

HEAD = '<ir_version: 10, opset_import: ["" : 23]>\n'

# One entry for each miscompile that a tool in use makes: what it is given, what it makes of it, and the value at fault.
MISCOMPILES = {
    "a float8 constant becomes its codes": (
        """g () => (float[3] y) <float[3] w = {1.0, -2.5, 0.3}, float s = {1.0}> {
            q = Cast <to = 17> (w) y = DequantizeLinear (q, s) }""",
        """g () => (float[3] y) <uint8[3] q = {56, 194, 42}, float s = {1.0}> { y = DequantizeLinear (q, s) }""",
        "y",
    ),
    "a constant through bfloat16 loses its fraction": (
        """g (float[3] x) => (float[3] y) <float[3] w = {1.1, 0.333, -3.7}> {
            h = Cast <to = 16> (w) c = Cast <to = 1> (h) y = Add (x, c) }""",
        "g (float[3] x) => (float[3] y) <float[3] c = {1.0, 0.0, -3.0}> { y = Add (x, c) }",
        "y",
    ),
    "CastLike loses saturate": (
        """g (float[N] x, float8e4m3fn[1] t) => (float[N] y) {
            q = CastLike <saturate = 0> (x, t) y = Cast <to = 1> (q) }""",
        """g (float[N] x, float8e4m3fn[1] t) => (float[N] y) {
            q = Cast <to = 17> (x) y = Cast <to = 1> (q) }""",
        "q",
    ),
    "double rounding is taken for rounding": (
        "g (double[N] x) => (float16[N] y) { a = Cast <to = 1> (x) y = Cast <to = 10> (a) }",
        "g (double[N] x) => (float16[N] y) { y = Cast <to = 10> (x) }",
        "y",
    ),
    "a filled constant does not saturate": (
        """g (int64[1] n) => (float[M] y) {
            f = ConstantOfShape <value = float[1] {1000000.0}> (n) q = Cast <to = 17> (f) y = Cast <to = 1> (q) }""",
        """g (int64[1] n) => (float[M] y) {
            f = ConstantOfShape <value = float[1] {1000000.0}> (n) q = Cast <to = 17, saturate = 0> (f)
            y = Cast <to = 1> (q) }""",
        "q",
    ),
    "wrapping is taken for saturating": (
        "g (float[N] x) => (int32[N] y) { a = Cast <to = 7> (x) y = Cast <to = 6> (a) }",
        "g (float[N] x) => (int32[N] y) { y = Cast <to = 6> (x) }",
        "y",
    ),
    "a rounding somebody wanted is dropped": (
        "g (float[N] x) => (float[N] y) { a = Cast <to = 10> (x) b = Sqrt (a) y = Cast <to = 1> (b) }",
        "g (float[N] x) => (float[N] y) { y = Sqrt (x) }",
        "y",
    ),
    "overflow without saturation saturates": (
        "g (float[N] x) => (float[N] y) { q = Cast <to = 17, saturate = 0> (x) y = Cast <to = 1> (q) }",
        """g (float[N] x) => (float[N] y) <float hi = {480.0}, float top = {448.0}> {
            big = GreaterOrEqual (x, hi) low = Cast <to = 17, saturate = 0> (x) z = Cast <to = 1> (low)
            y = Where (big, top, z) }""",
        "y",
    ),
    "overflow to infinity gives NaN": (
        "g (float[N] x) => (float[N] y) { q = Cast <to = 19, saturate = 0> (x) y = Cast <to = 1> (q) }",
        """g (float[N] x) => (float[N] y) <float hi = {61440.0}> {
            big = GreaterOrEqual (x, hi) q = Cast <to = 19, saturate = 0> (x) z = Cast <to = 1> (q)
            d = Sub (z, z) n = Sqrt (d) e = Div (n, n) y = Where (big, e, z) }""",
        "y",
    ),
    "half rounds away from zero": (
        "g (float[N] x) => (float[N] y) { y = Round (x) }",
        """g (float[N] x) => (float[N] y) <float half = {0.5}> {
            m = Abs (x) a = Add (m, half) f = Floor (a) s = Sign (x) y = Mul (f, s) }""",
        "y",
    ),
    "a round trip through float16 is removed": (
        "g (float[N] x) => (float[N] y) { a = Cast <to = 10> (x) b = Cast <to = 1> (a) y = Identity (b) }",
        "g (float[N] x) => (float[N] y) { y = Identity (x) }",
        "y",
    ),
    "float8 by way of float16": (
        "g (float[N] x) => (float[N] y) { q = Cast <to = 17> (x) y = Cast <to = 1> (q) }",
        "g (float[N] x) => (float[N] y) { a = Cast <to = 10> (x) q = Cast <to = 17> (a) y = Cast <to = 1> (q) }",
        "q",
    ),
}


def parsed(text: str) -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(text))


def compared(a: str, b: str, **options: Any) -> Verdict:
    return verify(parsed(a), parsed(b), **options)


@pytest.mark.parametrize(
    ("name", "engine"),
    sampled("miscompiles in engines", product(MISCOMPILES, ["onnxruntime", "reference"]), 0, cover=lambda case: case),
)
def test_a_miscompile_is_caught_and_its_node_named(name: str, engine: str) -> None:
    right, wrong, value = (MISCOMPILES[name][0], MISCOMPILES[name][1], MISCOMPILES[name][2])
    found = compared(HEAD + right, HEAD + wrong, engine=engine).mismatch
    assert found is not None
    assert found.value == value
    assert found.node_b.startswith(f"{value} = ")
    assert found.difference.index
    assert engine == "reference" or compared(HEAD + right, HEAD + right, engine=engine).same


@pytest.mark.parametrize(
    "path", sampled("real models to verify", sorted(FOLDER.glob("*.onnx")), 1), ids=lambda path: path.stem
)
def test_what_optimize_makes_of_real_models_gives_the_same_bits(path: Path) -> None:
    model = public.load(path)
    result = public.optimize(model, target="onnxruntime-android", promotion=UNSAFE_RULES)
    verdict = verify(model, result.model, promotion=UNSAFE_RULES, sets=3)
    assert verdict.mismatch is None
    assert verdict.runs


def test_a_fault_deep_in_a_real_model_is_found_where_it_is() -> None:
    model = public.load(FOLDER / "convnet.onnx")
    broken = model.clone()
    node = [node for node in broken.graph if node.op_type == "Relu"][1]
    node.op_type = "Abs"
    found = verify(model, broken).mismatch
    assert found is not None
    assert (found.site.node, found.value) == (node.name, node.outputs[0].name)
    assert found.node_a != found.node_b


def test_a_cast_to_a_wrong_type_is_found_where_it_is() -> None:
    right = (
        HEAD
        + """g (float[N] x) => (float[N] y) {
        a = Cast <to = 10> (x) b = Neg (a) y = Cast <to = 1> (b) }"""
    )
    found = compared(right, right.replace("to = 10", "to = 16")).mismatch
    assert found is not None
    assert found.value == "a"
    assert "bfloat16" in found.node_b


FUNCTION = (
    HEAD.replace(" : 23]", ' : 23, "local" : 1]')
    + """g (float[N] x) => (float[N] y, float[N] z) {
        y = local.bounded <top = 2.5> (x) z = local.bounded (x) }
    <domain: "local", opset_import: ["" : 23]>
    bounded <top: float = 6.0> (x) => (y) {
        t = Constant <value_float: float = @top> () c = Cast <to = 1> (t) b = Min (x, c) y = Relu (b) }"""
)


def test_functions_with_parameters_are_run_and_the_fault_is_found_within() -> None:
    assert compared(FUNCTION, FUNCTION).same
    assert compared(FUNCTION, FUNCTION, engine="reference").same
    for wrong, value, within in (
        (FUNCTION.replace("<top = 2.5>", "<top = 2.0>"), "t", ("y",)),
        (FUNCTION.replace("= 6.0", "= 5.0"), "t", ("z",)),
        (FUNCTION.replace("y = Relu (b)", "y = Abs (b)"), "y", ("y",)),
    ):
        found = compared(FUNCTION, wrong).mismatch
        assert found is not None
        assert (found.value, found.within) == (value, within)


def test_a_function_with_parameters_gives_what_onnx_runtime_gives() -> None:
    """The whole model in ONNX Runtime, which binds the parameters itself, gives the same."""
    assert compared(FUNCTION, FUNCTION).runtime == []


SCAN = (
    HEAD
    + """g (float[3, 4] x, float[4] s) => (float[4] last, float[4, 3] sums) {
        last, sums = Scan <num_scan_inputs = 1, scan_input_axes = [0], scan_input_directions = [1],
            scan_output_axes = [1], scan_output_directions = [1],
            body = step (float[4] a, float[4] e) => (float[4] b, float[4] o) { b = Add (a, e) o = Neg (b) }>
            (s, x) }"""
)


@pytest.mark.parametrize(
    ("axis", "directions"),
    sampled("axes and directions of Scan", product((0, 1, -1), product((0, 1), repeat=2)), 6, cover=enumerate),
)
def test_scan_along_any_axis_and_backwards(axis: int, directions: tuple[int, int]) -> None:
    """ONNX Runtime, which knows Scan as a whole, gives the same bits."""
    text = SCAN.replace("scan_input_directions = [1]", f"scan_input_directions = [{directions[0]}]")
    text = text.replace("scan_output_directions = [1]", f"scan_output_directions = [{directions[1]}]")
    text = text.replace("scan_input_axes = [0]", f"scan_input_axes = [{axis}]")
    if axis:
        text = text.replace("float[3, 4] x", "float[4, 3] x")
    verdict = compared(text, text)
    assert verdict.same
    assert verdict.runtime == []
    mirrored = text.replace(f"output_directions = [{directions[1]}]", f"output_directions = [{1 - directions[1]}]")
    found = compared(text, mirrored).mismatch
    assert found is not None
    assert found.value == "sums"


def test_a_fault_within_a_loop_is_found_with_its_turn() -> None:
    found = compared(SCAN, SCAN.replace("o = Neg (b)", "o = Abs (b)")).mismatch
    assert found is not None
    assert (found.value, found.site.graph, found.site.op, found.within) == ("o", "step", "Abs", ("last, iteration 1",))


def test_a_fault_in_a_branch_that_is_not_taken_is_none() -> None:
    text = (
        HEAD
        + """g (float[N] x) => (float[N] y) <bool c = {1}> {
        y = If (c) <then_branch = one () => (float[N] a) { a = Abs (x) },
                    else_branch = two () => (float[N] b) { b = Neg (x) }> }"""
    )
    assert compared(text, text.replace("Neg", "Relu")).same
    found = compared(text, text.replace("Abs", "Relu")).mismatch
    assert found is not None
    assert (found.value, found.site.graph) == ("a", "one")


def test_an_output_that_is_left_out_keeps_its_place() -> None:
    text = HEAD + """g (float[4] x) => (int64[1] i) <int64[1] k = {1}> { "", i = TopK (x, k) }"""
    assert compared(text, text).same
    found = compared(text, text.replace("TopK (x", "TopK <largest = 0> (x")).mismatch
    assert found is not None
    assert found.value == "i"


@pytest.mark.parametrize(
    "body",
    [
        "g (int64[2] s) => (float[A, B] y) { y = ConstantOfShape (s) }",
        "g (float a, float b) => (float[N] y) <float step = {0.001}> { y = Range (a, b, step) }",
        "g (int8[N] a, int8[N] b) => (int8[N] y) { y = Div (a, b) }",
        "g (float[2] x, int64[1] r) => (float[N] y) { y = Tile (x, r) }",
        "g (float[2, 2] x, int64[2, 2] i) => (float[2, 2] y) { y = GatherElements <axis = 1> (x, i) }",
    ],
)
def test_numbers_that_no_machine_holds_are_not_tried(body: str) -> None:
    """Sizes and indices are inputs here: what is fed is within what operators take, and what is not is named."""
    verdict = compared(HEAD + body, HEAD + body)
    assert len(verdict.runs) >= 12
    assert verdict.same


def test_operands_of_a_type_that_numpy_lacks_are_promoted_before_they_are_moved() -> None:
    mixed = "g (bfloat16[N] x, uint8[N] k) => (y) { y = Concat <axis = 0> (x, k) }"
    plain = "g (bfloat16[N] x, uint8[N] k) => (y) { c = Cast <to = 16> (k) y = Concat <axis = 0> (x, c) }"
    assert compared(HEAD + mixed, HEAD + plain, promotion=UNSAFE_RULES).same


@pytest.mark.parametrize("operation", ["GatherND (x, places)", "ScatterND (x, places, updates)"])
def test_indices_of_several_axes_are_within_their_own(operation: str) -> None:
    """The last row is beyond the shorter axis, and within the one that it indexes."""
    text = f"g (float[2, 3] x, float[2] updates) => (y) <int64[2, 2] places = {{0, 1, 1, 2}}> {{ y = {operation} }}"
    verdict = compared(HEAD + text, HEAD + text)
    assert verdict.runs
    assert verdict.same
    beyond = HEAD + text.replace("1, 1, 2", "1, 1, 3")
    assert "exceed axes of [2, 3]" in compared(beyond, beyond).skipped[0][1]


def test_who_computed_what() -> None:
    text = HEAD + "g (float[N] x) => (float16[N] y) { a = Abs (x) y = Cast <to = 10> (a) }"
    for engine in ("onnxruntime", "reference"):
        assert compared(text, text, engine=engine).computed == {"castsmith": ("Cast",), engine: ("Abs",)}


@pytest.fixture
def openvino() -> None:
    pytest.importorskip("openvino", reason="needs the extra `peers`")


@pytest.mark.usefixtures("openvino")
@pytest.mark.parametrize("name", sampled("miscompiles in OpenVINO", MISCOMPILES, 12))
def test_openvino_catches_each_miscompile_too(name: str) -> None:
    right, wrong, value = (MISCOMPILES[name][0], MISCOMPILES[name][1], MISCOMPILES[name][2])
    found = compared(HEAD + right, HEAD + wrong, engine="openvino").mismatch
    assert found is not None
    assert found.value == value


@pytest.mark.usefixtures("openvino")
def test_openvino_is_not_believed_where_it_computes_in_a_narrower_type() -> None:
    for dtype in ("double", "int64"):
        text = HEAD + f"g ({dtype}[N] x) => ({dtype}[N] y) {{ y = Add (x, x) }}"
        verdict = compared(text, text, engine="openvino")
        assert (verdict.same, verdict.computed) == (True, {"reference": ("Add",)})
        assert verdict.runtime  # run whole it does compute so
    text = HEAD + "g (float[N] x) => (float[N] y) { a = Add (x, x) y = Neg (a) }"
    assert compared(text, text, engine="openvino").computed == {"openvino": ("Add", "Neg")}


@pytest.mark.usefixtures("openvino")
def test_openvino_is_told_apart_from_the_model() -> None:
    chain = HEAD + MISCOMPILES["a round trip through float16 is removed"][0]
    verdict = compared(chain, chain, engine="openvino")
    assert verdict.same
    assert any(text.startswith("run as a whole by OpenVINO, y") for text in verdict.runtime)


def test_what_is_undefined_is_nobodys_fault() -> None:
    a = HEAD + "g (float[N] x) => (int32[N] y) { y = Cast <to = 6> (x) }"
    b = HEAD + "g (float[N] x) => (int32[N] y) { a = Cast <to = 7> (x) y = Cast <to = 6> (a) }"
    verdict = compared(a, b)
    assert verdict.same
    assert verdict.undefined


def test_one_nan_is_as_good_as_another_unless_asked() -> None:
    nan = np.array([np.nan, -np.nan, 1], np.float32)
    assert difference(nan, -nan, nan_bits=False) is not None
    assert difference(nan[:2], -nan[:2], nan_bits=False) is None
    assert difference(nan[:2], -nan[:2], nan_bits=True) is not None
    assert difference(np.array([0.0]), np.array([-0.0])) is not None


def test_scalars_and_complex_numbers_are_compared_in_every_bit() -> None:
    found = difference(np.array(2.5), np.array(2.0))
    assert found is not None
    assert (found.index, found.elements) == ((), 1)
    assert found.a.startswith("2.5")
    assert difference(np.array(2.5), np.array(2.5)) is None
    for a, b in ((1 + 1j, 2 + 2j), (1 + 2j, 2 + 1j), (0j, complex(0.0, -0.0))):
        found = difference(np.array([3j, a]), np.array([3j, b]))
        assert found is not None
        assert (found.index, found.elements) == ((1,), 1)
    assert difference(np.array([1 + 2j]), np.array([1 + 2j])) is None


def test_a_model_of_an_opset_that_is_not_known_is_refused_on_either_side() -> None:
    text = "g (float[N] x) => (float[N] y) { y = Exp (x) }"
    known, unknown = (HEAD.replace("23", opset) + text for opset in ("23", "99"))
    for pair in ((known, unknown), (unknown, known), (unknown, unknown)):
        with pytest.raises(OpsetError, match="99"):
            compared(*pair)


def test_a_mixed_model_is_run_by_the_rule() -> None:
    result = public.optimize(onnx.parser.parse_model(UNSAFE), promotion=UNSAFE_RULES)
    assert verify(parsed(UNSAFE), result.model, promotion=UNSAFE_RULES).same
    with pytest.raises(public.PromotionError):
        verify(parsed(UNSAFE), result.model)
    wrong = UNSAFE.replace("z = Add (x, y)", "a = Cast <to = 10> (y) f = Cast <to = 1> (a) z = Add (x, f)")
    found = verify(parsed(UNSAFE), parsed(wrong), promotion=UNSAFE_RULES).mismatch
    assert found is not None
    assert found.value == "z"


def test_inputs_are_awkward() -> None:
    model = parsed(HEAD + "g (float[N] x, bool[2, M] b, string[N] s) => (float16[N] y) { y = Cast <to = 10> (x) }")
    maker = Inputs((model,), [Reach(model)], 0)
    sets = {f"{kind} {number}": maker.make(kind, number) for kind, number in maker.plan(12)}
    values = np.concatenate([np.asarray(feeds["x"]) for feeds in sets.values()])
    assert {0.0, 1.0, 100000.0} <= set(values.tolist())
    assert np.isnan(values).any()
    assert {np.inf, -np.inf} <= set(values.tolist())
    assert np.signbit(values[values == 0]).any()
    assert (np.abs(values[values != 0]) < np.finfo(np.float32).tiny).any()
    assert np.asarray(sets["mild 1"]["b"]).shape == (2, 64)


def test_an_array_that_spells_its_byte_order_out_runs_on_the_same_engine() -> None:
    """Raw data read as '<f4' gives such arrays: one model's Relu must not be the runtime's and the other's not."""
    model = onnx_ir.from_onnx_text(f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Relu (x) }}")
    zeros = np.full(2, -0.0, np.float32)
    first, second = (
        Engine("onnxruntime").run(model.graph[0], [zeros.view(dtype)], {"": 23})[0]
        for dtype in (zeros.dtype, zeros.dtype.newbyteorder("<"))
    )
    assert first.tobytes() == second.tobytes()


def test_in_python_files_and_protos_and_the_name_of_a_preset_do_as_well(tmp_path: Path) -> None:
    path = write_model(tmp_path / "mixed.onnx", UNSAFE)
    repaired = public.optimize(path, promotion="torch").model
    assert public.verify(path, onnx_ir.to_proto(repaired), promotion="torch", sets=2).same


@pytest.mark.usefixtures("engines_apart")
def test_time_that_is_over_leaves_the_verdict_inconclusive() -> None:
    text = HEAD + "g (float[N] x) => (float[N] y) { a = Sqrt (x) y = Neg (a) }"
    verdict = compared(text, text.replace("y = Neg (a)", "b = Abs (a) y = Neg (b)"), seconds=1e-6)
    assert verdict.inconclusive
    assert "time" in verdict.unsure[0]


@pytest.mark.usefixtures("engines_apart")
def test_a_busy_machine_changes_neither_the_sets_nor_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock does not count, and the sizes that are tried do not depend on the seconds that were taken."""
    text = HEAD + "g (float[n, 4] x) => (float[n, 4] y) { small = Cast <to = 17> (x) y = Cast <to = 1> (small) }"
    quick = compared(text, text)
    late = iter([0.0])
    monkeypatch.setattr(limits, "_now", lambda: next(late, 9.0))
    assert compared(text, text).compared == quick.compared > 0
    monkeypatch.undo()
    budget = limits.Budget(0.05)
    time.sleep(0.1)
    assert budget.left > 0


@pytest.mark.usefixtures("engines_apart")
@pytest.mark.skipif(not TIMED, reason="this system counts no processor time")
def test_an_engine_is_ended_after_its_processor_time() -> None:
    """One that does not end costs its limit; one that waits for a processor is not ended."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]> g (int64 n, bool b, float x) => (float y) {
            y = Loop (n, b, x) <body = body (int64 i, bool c, float s) => (bool d, float t) {
                d = Identity (c) t = Identity (s) }> }"""
    )
    feeds = {"n": np.array(2**60), "b": np.array(True), "x": np.array(1.0, np.float32)}
    prepared, before = engines.Prepared("onnxruntime", model.SerializeToString()), engines.process().used
    with pytest.raises(engines.CrashError, match="does not end within 0 s") as ended:
        prepared.run(feeds, 0.25)
    assert ended.value.late
    assert engines.process().used >= before + 0.25
    assert prepared.run({**feeds, "n": np.array(2)}, 1.0) == [1.0]


def test_sums_do_not_depend_on_where_an_array_lies() -> None:
    """ONNX Runtime adds in another order at another address: what it gets is at the same one each time."""
    model = onnx_ir.from_onnx_text(f"{HEAD} g (float[7, 33] x) => (float[1, 1] y) {{ y = ReduceSum (x) }}")
    numbers = np.random.default_rng(0).normal(0, 2, (7, 33)).astype(np.float32)
    found = set[bytes]()
    for offset in range(0, 64, 4):
        room = np.empty(numbers.nbytes + 64, np.uint8)[offset:]
        here = room[: numbers.nbytes].view(np.float32).reshape(7, 33)
        here[...] = numbers
        found.add(Engine("onnxruntime").run(model.graph[0], [here], {"": 23})[0].tobytes())
    assert len(found) == 1


def test_an_engine_that_crashes_once_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that holds many models may lack memory; another implementation in its place rounds otherwise."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) { y = Softmax (x) }'
    )
    crashed = list[int]()
    plain = engines.Prepared.run

    def crash_once(self: engines.Prepared, *words: Any, **named: Any) -> list[Any]:
        if not crashed:
            crashed.append(1)
            raise engines.CrashError("crashed its process (signal 6)")
        return plain(self, *words, **named)

    monkeypatch.setattr(engines.Prepared, "run", crash_once)
    verdict = verify(model, model)
    assert crashed
    assert verdict.equal
    assert not verdict.stood_in
    assert not verdict.notes


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("map_type { key_type: 7 value_type { tensor_type { elem_type: 1 } } }", "of type map(int64, float)"),
        (
            "sequence_type { elem_type { map_type { key_type: 8 value_type { tensor_type { elem_type: 1 } } } } }",
            "map(",
        ),
        ("sparse_tensor_type { elem_type: 1 shape { dim { dim_value: 2 } } }", "of type sparse_tensor(float)"),
        ('opaque_type { domain: "d" name: "o" }', "of type opaque(d.o)"),
        (
            "optional_type { elem_type { sequence_type { elem_type { tensor_type { elem_type: 1 } } } } }",
            "no declared shape",
        ),
        ("tensor_type { elem_type: 1 }", "no declared shape"),
        ("tensor_type { elem_type: 1 shape { dim { dim_value: 4611686018427387904 } } }", "more than the limit"),
        ("", "no known element type"),
    ],
)
def test_inputs_that_cannot_be_made_leave_the_verdict_open(kind: str, said: str) -> None:
    model = onnx.parser.parse_model(f"{HEAD} g (float[2] z, float x) => (float[2] y) {{ y = Relu (z) }}")
    model.graph.input[1].type.CopyFrom(text_format.Parse(kind, onnx.TypeProto()))
    found = verify(model, model)
    assert found.inconclusive
    assert len(found.unsure) == 1
    assert "the models did not run on any of the inputs: " in found.unsure[0]
    assert said in found.unsure[0]
    other = onnx.parser.parse_model(f"{HEAD} g (float[2] z, float x) => (double[2] y) {{ y = Cast <to = 11> (z) }}")
    other.graph.input[1].CopyFrom(model.graph.input[1])
    assert verify(model, other).different
    given = {"z": np.array([-1, 2], np.float32)}
    assert verify(model, model, inputs=[("mine", given)]).proven or not kind


@pytest.mark.parametrize("kind", ["optional(float[2])", "optional(seq(float[2]))", "seq(float[2])"])
def test_optional_inputs_and_sequences_are_made(kind: str) -> None:
    y = "int64 y" if kind.startswith("seq") else "bool y"
    op = "SequenceLength" if kind.startswith("seq") else "OptionalHasElement"
    model = onnx.parser.parse_model(f"{HEAD} g ({kind} x) => ({y}) {{ y = {op} (x) }}")
    found = verify(model, model)
    assert found.equal
    assert not found.skipped


def test_an_output_without_dimensions_is_compared_through_its_code() -> None:
    """A scalar stays one: numpy makes a row of it where it is asked for contiguous elements."""
    cast = "h = Cast <to = 17> (x)"
    a = onnx.parser.parse_model(f"{HEAD} g (float x) => (float8e4m3fn h) {{ {cast} }}")
    b = onnx.parser.parse_model(
        f"{HEAD} g (float x) => (uint8 y) {{ {cast} y = BitCast <to = 2> (h) }}".replace("23", "26")
    )
    b.graph.output[0].name = b.graph.node[1].output[0] = "h"
    b.graph.node[0].output[0] = b.graph.node[1].input[0] = "k"
    assert verify(a, b, accept=("all",)).equal


@pytest.mark.parametrize("to", ["int4", "uint4", "int2", "uint2", "float4e2m1", "float8e4m3fn"])
def test_narrow_outputs_are_compared_through_their_codes(to: str) -> None:
    model = onnx_ir.from_onnx_text(
        f'<ir_version: 13, opset_import: ["": 25]> g (float[3] x) => ({to}[3] y)'
        f" {{ y = Cast <to = {int(onnx_ir.DataType[to.upper()])}> (x) }}"
    )
    made = public.optimize(model.clone(), target="openvino-cpu", verify="onnxruntime")
    assert made.verdict is not None
    assert made.verdict.outputs["y"].compared
    assert not made.verdict.different
