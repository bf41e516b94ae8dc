"""The answers of verify: the place of a difference, what an engine makes of the model, why nothing is concluded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx.parser
import onnx_ir
import pytest

from castsmith.numerics.errors import OptionError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification import run, whole
from castsmith.verification.compare import How, Tolerance
from castsmith.verification.evaluate.conversions import Content, Tensor
from castsmith.verification.evaluate.engines import Engine
from castsmith.verification.evaluate.evaluator import Evaluator
from castsmith.verification.evaluate.limits import Budget, FeedError
from castsmith.verification.run import verify
from castsmith.verification.verdict import Verdict
from castsmith.verification.whole import Whole

_HEAD = '<ir_version: 10, opset_import: ["" : 23]>\n'
_X = np.array([1, -2, 3e9], np.float32)


def parsed(text: str) -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(_HEAD + text))


def compared(a: str, b: str, x: Any = _X, **options: Any) -> Verdict:
    return verify(parsed(a), parsed(b), inputs=[("mine", {"x": np.asarray(x, np.float32)})], **options)


def test_the_place_of_a_difference() -> None:
    text = "g (float[3] x) => (float[3] y) {{ k = Constant <value_float = 2.0> () a = Neg (x) y = {} (a, {}) }}"
    found = compared(text.format("Add", "x"), text.format("Sub", "x"), [1, 2, 3]).mismatch
    assert found is not None
    assert (found.value, found.site.op, found.inputs, found.within) == ("y", "Sub", "mine", ())
    assert found.operands == ("a[0] = -1.0 (0xbf800000)", "x[0] = 1.0 (0x3f800000)")
    assert (found.difference.index, found.difference.elements, found.difference.of) == ((0,), 3, 3)
    assert [each.partition(" #")[0].strip() for each in (found.node_a, found.node_b)] == [
        "y = Add (a, x)",
        "y = Sub (a, x)",
    ]
    found = compared(text.format("Add", "k"), text.format("Sub", "k"), [1, 2, 3]).mismatch
    assert found is not None
    assert found.operands == ("a[0] = -1.0 (0xbf800000)",)
    scalars = text.replace("[3]", "")
    found = compared(scalars.format("Add", "x"), scalars.format("Sub", "x"), 1).mismatch
    assert found is not None
    assert (found.difference.index, found.operands) == ((), ())  # of scalars there is no place


_TWICE = "g (float[3] x) => (float[3] y) { a = Neg (x) OP }"


def test_a_second_model_that_does_not_run() -> None:
    """Where the first one does, that is a difference; not where no engine has the operator, nor beyond a limit."""
    good, bad = (
        _TWICE.replace("OP", "y = Abs (a)"),
        _TWICE.replace("OP", "s = Constant <value_ints = [2]> () y = Reshape (a, s)"),
    )
    found = compared(good, bad)
    assert found.different
    assert found.mismatch is not None
    said = found.mismatch.difference.b
    assert said.startswith("does not run: g: y (Reshape): Reshape does not run on float[3] and int64[1]: ")
    assert not said.endswith(".")
    assert (found.mismatch.value, found.mismatch.inputs, found.mismatch.nodes) == ("", "mine", (None, None))
    assert (found.mismatch.site.graph, found.mismatch.difference.index) == ("g", ())
    assert (found.mismatch.difference.elements, found.mismatch.difference.of) == (0, 0)
    assert found.summary() == f"different: on inputs mine the second model {said}"
    assert (found.mismatch.node_a, found.mismatch.node_b) == ("", "")
    sized = "u = Cast <to = 7> (x) z = Constant <value_ints = [2]> () s = Gather (u, z) y = Reshape (a, s)"
    for other, last, start in (
        ("y = Nothing (a)", 3, "no engine runs the second model: g: y (Nothing): no engine supports Nothing"),
        ("u = Cast <to = 7> (x) k = Constant <value_int = 7> () s = Add (u, k) y = Gather (a, s)", np.nan,
         "the second model depends on undefined results: g: y (Gather): "),
        (sized, 3e9, "the second model: g: y (Reshape): Reshape would make 3e+09 elements"),
    ):  # fmt: skip
        found = compared(good, _TWICE.replace("OP", other), [1, -2, last])
        assert found.inconclusive
        assert [name for name, _ in found.skipped] == ["mine"]
        assert found.skipped[0][1].startswith(start)
        assert found.unsure[0].startswith(f"the models did not run on any of the inputs: {start}")


def test_errors_of_values_are_measured_on_request() -> None:
    """Those that both models have, floats that no constant is, the largest where they are defined."""
    text = """g (float[4] x) => (float[4] y) {{ k = Constant <value_float = {}> () a = Mul (x, k) n = IsNaN (a)
        i = Cast <to = 6> (a) f = Cast <to = 1> (i) {} = Sqrt (a) y = Add (a, f) }}"""
    a, b = text.format("2.0", "p"), text.format("2.5", "q")
    inputs = [
        ("one", {"x": np.array([1, -4, 2.0**32, 2], np.float32)}),
        ("two", {"x": np.array([1, 1, 1, 1], np.float32)}),
    ]
    found = verify(parsed(a), parsed(b), inputs=inputs, rtol=1.0, atol=100.0, trace=True)
    assert [(each.value, each.magnitude, each.error) for each in found.traced] == [
        ("a", 2.0**33, 0.25),
        ("f", 8.0, 0.25),  # the third element is undefined
        ("y", 16.0, 0.25),
    ]
    vanished = [text.format(number, "p") for number in ("0.0", "2.5")]
    found = verify(*map(parsed, vanished), inputs=inputs[1:], rtol=1.0, atol=100.0, trace=True)
    assert [(each.value, each.magnitude, each.error) for each in found.traced][:1] == [("a", 0.0, 2.5)]
    infinite = [("one", {"x": np.array([np.inf, 1, np.nan, 2], np.float32)})]
    found = verify(parsed(a), parsed(a), inputs=infinite, trace=True)
    assert [(each.value, each.magnitude, each.error) for each in found.traced][:1] == [("a", 4.0, 0.0)]
    assert verify(parsed(a), parsed(b), inputs=inputs, rtol=1.0, atol=100.0).traced == []


def test_errors_are_traced_on_the_inputs_that_show_a_difference() -> None:
    """Of several the last; without a difference on the first that ran."""
    a, b = (parsed(f"g (float[4] x) => (float[4] y) {{ y = {op} (x) }}") for op in ("Relu", "Abs"))
    sets = [
        (f"set {n}", {"x": np.array(numbers, np.float32)})
        for n, numbers in enumerate(([4, 4, 1, 1], [-2, 1, 1, 1], [8, 1, 1, 1]))
    ]
    options: list[tuple[dict[str, Any], tuple[float, float]]] = [
        ({}, (1.0, 2.0)),
        ({"rtol": 0.1}, (1.0, 2.0)),
        ({"atol": 5.0}, (4.0, 0.0)),
    ]
    for option, expected in options:
        (traced,) = verify(a, b, inputs=sets, trace=True, **option).traced
        assert (traced.magnitude, traced.error) == expected, option


def test_the_error_is_traced_of_what_is_a_float_in_the_first_model() -> None:
    """The truncated 1.5 is apart by a fourth of the largest, 2; of an integer no error is measured."""
    a, b = (
        parsed(f"g (float[2] x) => ({dtype}[2] y) {{ y = Cast <to = {code}> (x) }}")
        for dtype, code in (("float", 1), ("int32", 6))
    )
    inputs = [("one", {"x": np.array([1.5, 2], np.float32)})]
    (traced,) = verify(a, b, inputs=inputs, trace=True).traced
    assert (traced.value, traced.magnitude, traced.error) == ("y", 2.0, 0.25)
    assert verify(b, a, inputs=inputs, trace=True).traced == []


def test_of_two_outputs_each_declaration_is_compared_with_its_own_value() -> None:
    text = "g (float[3] x) => ({0}[3] y, {1}[3] z) {{ y = Neg (x) z = Cast <to = 11> (x) }}"
    right = text.format("float", "double")
    for wrong, name, kinds in (("double", "y", "double[3] and float[3]"), ("float", "y", "")):
        verdict = compared(text.format(wrong, "double"), right)
        assert verdict.equal
        note = f"the output {name} is {kinds}; the first model computes the type that the second declares"
        assert verdict.notes == ([note] if kinds else [])
    verdict = compared(text.format("float", "float"), right)
    assert verdict.notes == [
        "the output z is float[3] and double[3]; the first model computes the type that the second declares"
    ]
    verdict = compared(right, text.format("float", "float"))
    assert verdict.interface == ["the output z is double[3] and float[3]"]


def test_of_two_outputs_the_wrong_declaration_is_that_of_its_own() -> None:
    text = "g (float[3] x) => ({0}[{1}] y, {2}[{3}] z) {{ y = Cast <to = 11> (x) z = Cast <to = 11> (x) }}"
    right = text.format("double", 3, "double", 3)
    for wrong, note in (
        (("double", 3, "float", 3), "the output z is float[3] and double[3]"),
        (("float", 3, "double", 3), "the output y is float[3] and double[3]"),
        (("double", 3, "double", 4), "the output z is double[4] and double[3]"),
        (("double", 4, "double", 3), "the output y is double[4] and double[3]"),
    ):
        verdict = compared(text.format(*wrong), right)
        assert verdict.notes == [f"{note}; the first model computes the type that the second declares"]
        assert verdict.equal


def test_a_constant_that_is_an_output_is_where_it_differs() -> None:
    a, b = (parsed(f"g () => (float y) {{ y = Constant <value_float = {number}> () }}") for number in (1.0, 2.0))
    ways: list[dict[str, Any]] = [{}, {"rtol": 0.1}]
    for options in ways:
        mismatch = verify(a, b, **options).mismatch
        assert mismatch is not None
        assert (mismatch.value, mismatch.operands, mismatch.site.op) == ("y", (), "Constant")
    assert verify(a, b, rtol=2.0).equal


def test_a_stored_output_differs_at_no_node() -> None:
    """Nothing is concluded of models that differ."""
    text = "g (float x) => (float[2] y, float z) <float[2] y = {{1, {}}}> {{ z = Nothing (x) }}"
    a, b = (text.format(number).replace("Nothing", op) for number, op in ((2, "Relu"), (3, "Abs")))
    verdict = verify(parsed(a), parsed(b), inputs=[("mine", {"x": np.array(1, np.float32)})], prove=True)
    mismatch = verdict.mismatch
    assert mismatch is not None
    assert (mismatch.value, mismatch.nodes, mismatch.site.graph) == ("y", (None, None), "g")
    assert mismatch.difference.index == (1,)
    assert (verdict.unsure, verdict.advice, verdict.not_reached, verdict.proven) == ([], [], [], {})


_NEG = "g (float[3] x) => ({}[{}] y) {{ y = Neg (x) }}"
_SILENT = "g (float[3] x) => () { y = Neg (x) }"
_PICKED = "g (float[3] x) => (float[K] y) <bool[3] c = {{0, 0, 0}}> {{ a = {} (x) y = Compress (a, c) }}"
_DRAWN = "g (float[3] x) => (float[3] y) {{ y = RandomUniformLike {}(x) }}"
_UNDEFINED = "g (float[3] x) => (int32[3] y) {{ a = {} (x) y = Cast <to = 6> (a) }}"


@pytest.mark.parametrize(
    ("a", "b", "x", "reasons"),
    [
        (_PICKED.format("Neg"), _PICKED.format("Abs"), _X,
         ["no element of the output y was compared: it is empty"]),
        (_DRAWN.format(""), _DRAWN.format(""), _X,
         ["no element of the output y was compared: it depends on RandomUniformLike without a seed"]),
        (_UNDEFINED.format("Neg"), _UNDEFINED.format("Abs"), [np.nan, np.inf, 3e9],
         ["no element of the output y was compared: all 3 depend on undefined results"]),
        (_NEG.format("float", 3), _NEG.format("float", 3).replace("Neg", "Abs"), [np.nan] * 3,
         ["the output y was NaN wherever it was compared"]),
        (_SILENT, _SILENT, _X,
         ["the models have no outputs, so there is nothing to compare"]),
    ],
)  # fmt: skip
def test_why_nothing_is_concluded(a: str, b: str, x: Any, reasons: list[str]) -> None:
    verdict = compared(a, b, x)
    assert verdict.unsure[:1] == reasons
    assert verdict.inconclusive


def test_a_test_is_no_proof_where_one_is_asked_for() -> None:
    a = "g (float[3] x) => (float[3] y, float[3] z) { y = Neg (x) z = Abs (x) }"
    b = "g (float[3] x) => (float[3] y, float[3] z) { y = Neg (x) n = Neg (x) z = Max (x, n) }"
    assert compared(a, b, [1, 2, 3]).unsure == compared(a, b, [1, 2, 3], prove=True).unsure[:-1]
    verdict = compared(a, b, [1, 2, 3], prove=True)
    assert verdict.unsure[-1] == "the output z is not proven, only tested"
    assert set(verdict.proven) == {"y"}


@pytest.mark.parametrize(
    ("a", "b", "note"),
    [
        (("double", 3), ("float", 3), "the output y is double[3] and float[3]"),
        (("float", 4), ("float", 3), "the output y is float[4] and float[3]"),
        (("float", "2, 3"), ("float", "N"), "the output y is float[2, 3] and float[N]"),
        (("float", 3), ("double", 3), None),
        (("float", 3), ("float", 4), None),
        (("float", 3), ("float", "1, 3"), None),
        (("double", 3), ("float", 4), None),
        (("float", 4), ("double", 3), None),
    ],
)
def test_a_declaration_may_be_corrected_and_not_made_wrong(a: Any, b: Any, note: str | None) -> None:
    verdict = compared(_NEG.format(*a), _NEG.format(*b))
    if note is None:
        assert verdict.different
        assert len(verdict.interface) == 1
        assert not verdict.notes
    else:
        assert verdict.notes == [f"{note}; the first model computes the type that the second declares"]
        assert verdict.equal


def test_the_notes_on_random_numbers() -> None:
    which = (" in the first model draws random numbers: ", " in the second model draws random numbers: ")
    for seed, name, what in (
        ("", "RandomUniformLike (no seed)", "it has no seed, so nothing that depends on it was compared"),
        ("<seed = 1.0> ", "RandomUniformLike", "it has a seed, so it was compared"),
    ):
        assert compared(_DRAWN.format(seed), _DRAWN.format(seed)).notes == [f"{name}{each}{what}" for each in which]


@pytest.mark.parametrize(("to", "through"), [("double", "the wider type"), ("float16", "the narrower type")])
def test_types_that_are_accepted_are_named(to: str, through: str) -> None:
    number = {"double": 11, "float16": 10}[to]
    b = f"g (float[3] x) => ({to}[3] y) {{ a = Neg (x) y = Cast <to = {number}> (a) }}"
    verdict = compared(_NEG.format("float", 3), b, [1, 2, 3], accept=["y"])
    assert verdict.accepted == [f"y is float in the first model and {to} in the second, compared through {through}"]
    assert not verdict.different


def test_what_did_not_run_is_said_with_the_sizes_that_were_made_up() -> None:
    text = "g (float[N] x) => (float[N] y) { y = Nothing (x) }"
    (reason,) = verify(parsed(text), parsed(text), sets=2).unsure
    assert reason.startswith("the models did not run on any of the inputs: g: y (Nothing): no engine supports")
    assert "Castsmith chose the sizes of symbolic dimensions: N=" in reason
    assert reason.endswith("; pass valid ones (`dims=`)")
    (reason,) = compared(text, text).unsure
    assert "made up" not in reason


@pytest.mark.parametrize(("node", "is_said"), [("Nothing (x)", True), ("Gather (x, i)", False)])
def test_that_no_option_decides_is_said_where_no_engine_supports_an_operator(node: str, is_said: bool) -> None:
    a, b = (f"g (float[3] x, int64 i) => (float[M] y) {{ w = {node} y = {op} (w) }}" for op in ("Neg", "Abs"))
    feeds = {"x": np.ones(3, np.float32), "i": np.array(7)}
    verdict = verify(parsed(a), parsed(b), inputs=[("mine", feeds)])
    (reason,) = verdict.unsure
    assert reason.startswith(f"the models did not run on any of the inputs: g: w ({node.split()[0]}): ")
    assert reason.endswith("; no option decides that") is is_said
    assert (verdict.advice == []) is is_said
    assert verdict.stood_in == ()  # no engine ran it


@pytest.mark.parametrize(
    ("node", "advice", "option", "index"),
    [
        ("Nothing (x)", "accept that (`allow_unreached`)", {"allow_unreached": True}, 7),
        ("Mod (x, x)", "run them by the reference implementation (`engine='reference'`)", {"engine": "reference"}, 7),
        ("Gather (x, i)", "pass inputs that the models accept and that reach it (`inputs=`)", {}, 1),
    ],
)
def test_the_advice_on_what_did_not_run_decides_it(node: str, advice: str, option: dict[str, Any], index: int) -> None:
    model, x = parsed(f"g (float[3] x, int64 i) => (float[M] y) {{ y = {node} }}"), np.ones(3, np.float32)
    found = verify(model, model.clone(), inputs=[("mine", {"x": x, "i": np.array(7)})])
    assert not found.equal
    assert [text.startswith(advice) for text in found.advice] == [True]
    assert verify(model, model.clone(), inputs=[("mine", {"x": x, "i": np.array(index)})], **option).equal


@pytest.mark.parametrize(("ran", "skipped", "equal"), [(1, 2, True), (1, 3, False), (2, 4, True), (2, 5, False)])
def test_more_than_two_skipped_sets_for_each_that_ran_are_too_many(ran: int, skipped: int, equal: bool) -> None:
    texts = ("y = Gather (x, i)", "m = Neg (x) w = Gather (m, i) y = Neg (w)")
    a, b = (parsed(f"g (float[3] x, int64 i) => (float y) {{ {text} }}") for text in texts)
    numbers = np.array([1, 2, 3], np.float32)
    sets = [(f"set {n}", {"x": numbers, "i": np.array(9 if n < skipped else 1)}) for n in range(ran + skipped)]
    verdict = verify(a, b, inputs=sets, rtol=1e-3)
    assert (len(verdict.runs), len(verdict.skipped), verdict.equal) == (ran, skipped, equal)
    said = f"the models ran on {ran} sets of inputs and not on {skipped}"
    assert verdict.unsure == ([] if equal else [said])


def test_inputs_that_end_early_count_where_models_are_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where they are proven to be equal; without any run they are the reason."""

    def sets(count: int) -> Iterator[tuple[str, Any]]:
        yield from [(f"set {n}", {"x": np.array([1, 2, 3], np.float32)}) for n in range(count)]
        raise FeedError("there are no more.")

    proven, tested = _NEG.format("float", 3), "g (float[3] x) => (float[3] y) { a = Neg (x) b = Neg (a) y = Neg (b) }"
    none = "the models did not run on any of the inputs: there are no more"
    for other, count, expected in (
        (proven, 1, []),
        (tested, 1, ["there are no more"]),
        (tested, 0, [none]),
    ):
        monkeypatch.setattr(run, "given_sets", Mock(return_value=sets(count)))
        verdict = verify(parsed(proven), parsed(other), inputs={}, rtol=1e-6)
        assert verdict.unsure == expected, (other, count)


# The whole model in the engine.

_CHAIN = """g (float[3] x) => (int32[3] y, float[3] z) {
    b = Abs (x) a = Cast <to = 7> (b) [narrow] y = Cast <to = 6> (a) z = Neg (b) }"""
_LEVELS = ("ONNX Runtime", "ONNX Runtime, with its default optimization")


def in_the_engine(x: Any, meant: dict[str, Any] | None = None, feeds: Any = None, **how: Any) -> list[str]:
    """The sentences on the chain, of which the outputs may be given."""
    model, given = parsed(_CHAIN), {"x": np.asarray(x, np.float32)}
    evaluator = Evaluator(model, PromotionRules(), Engine("onnxruntime"), Budget(20))
    results: dict[str, Content] = dict(evaluator.run(given))
    results |= {name: Tensor(array) for name, array in (meant or {}).items()}
    run = Whole(model, "onnxruntime", 20)
    assert (run.reason, run.invalid) == ("", False)
    return run.differences("mine", given if feeds is None else feeds, results, evaluator, How(**how))


def test_the_node_at_which_an_engine_changes_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime makes one cast of two, of which the first wraps."""
    for cause in ("; it starts at y, made by Cast narrow", ""):
        found = in_the_engine(_X)
        assert [text.partition("]")[0] for text in found] == [f"run as a whole by {level}, y[2" for level in _LEVELS]
        end = f" instead of -1294967296 (mine; 1 of 3 elements){cause}"
        assert all(text.endswith(end) for text in found), found
        monkeypatch.setattr(whole, "_LARGEST_CUT", 8)


def test_an_output_that_an_engine_changes() -> None:
    assert in_the_engine([1, -2, 3]) == []
    said = "z[2] is -3.0 (0xc0400000) instead of 0.0 (0x00000000) (mine; 1 of 3 elements)"
    found = in_the_engine([1, -2, 3], {"z": np.array([-1, -2, 0], np.float32)})
    assert found == [f"run as a whole by {level}, {said}" for level in _LEVELS]


def test_what_is_a_difference_to_an_engine_is_what_is_one_to_verify() -> None:
    """NaN of another sign if asked, within the tolerance of the output, and in the first output that differs."""
    zero, half, nan = (np.array([-1, -2, last], np.float32) for last in (0, -3.5, np.nan))
    assert in_the_engine([1, -2, 3], {"z": half}, tolerances={"z": Tolerance(0.25)}) == []
    assert len(in_the_engine([1, -2, 3], {"z": half}, tolerances={"y": Tolerance(0.25)})) == 2
    assert len(in_the_engine([1, -2, 3], {"z": zero}, tolerances={"z": Tolerance(0.25)})) == 2
    assert in_the_engine([1, -2, np.nan], {"y": np.array([1, 2, 0], np.int32), "z": nan}) == [
        text for text in in_the_engine([1, -2, np.nan], {"y": np.array([1, 2, 0], np.int32)}) if ", y[" in text
    ]
    said = f"z is {'float[3]'} instead of {'double[3]'} (mine; 3 of 3 elements)"
    found = in_the_engine([1, -2, 3], {"z": half.astype(np.float64)})
    assert found == [f"run as a whole by {level}, {said}" for level in _LEVELS]
    both = {"y": np.array([1, 2, 4], np.int32), "z": half}
    assert [text.partition("[")[0] for text in in_the_engine([1, -2, 3], both)] == [
        f"run as a whole by {level}, y" for level in _LEVELS
    ]


def test_inputs_that_an_engine_is_not_given() -> None:
    assert in_the_engine(_X, feeds={"x": [_X]}) == []
    assert [text.split(": ")[0] for text in in_the_engine(_X, feeds={"other": _X})] == [
        "ONNX Runtime does not run the whole model",
        "ONNX Runtime, with its default optimization, does not run the whole model",
    ]


@pytest.mark.parametrize(
    ("text", "invalid"),
    [
        ("g (float[3] x, double[3] z) => (float[3] y) { y = Add (x, z) }", True),
        ("g (float[3] x) => (float[3] y) { y = Nothing (x) }", True),
        ("g (bfloat16[3] x) => (bfloat16[3] y) { y = Sqrt (x) }", False),
    ],
)
def test_a_model_that_an_engine_does_not_load(text: str, invalid: bool) -> None:
    model = parsed(text)
    run = Whole(model, "onnxruntime", 20)
    assert run.reason
    assert run.invalid is invalid
    evaluator = Evaluator(model, PromotionRules(), Engine("onnxruntime"), Budget(20))
    said = f"ONNX Runtime does not load the second model as a whole: {run.reason}"
    assert run.differences("mine", {}, {}, evaluator, How()) == [said]


def test_a_model_that_is_too_large_once_its_functions_are_inlined(monkeypatch: pytest.MonkeyPatch) -> None:
    for most, reason in ((3, "it has 4 nodes once its functions are inlined, more than 3"), (4, "")):
        monkeypatch.setattr(whole, "MOST_INLINED", most)
        assert Whole(parsed(_CHAIN), "onnxruntime", 20).reason == reason


@pytest.mark.parametrize(("node", "to"), [("Mul (w, w)", "int32"), ("Where (c, l, w)", "int32"), ("Abs (w)", "int8")])
def test_an_input_of_a_narrower_type_is_fed_what_both_models_hold(node: str, to: str) -> None:
    """No proof is possible, and numbers that the second model cannot be given show nothing."""
    wide, narrow, other = (
        f"g ({dtype}[4] x) => (int64[4] y) {{ k = Constant <value = int64 {{{k}}}> () w = Cast <to = 7> (x)"
        f" l = Neg (k) c = Equal (w, k) y = {node} }}"
        for dtype, k in (("int64", 100), (to, 100), (to, 102))
    )
    assert verify(parsed(wide), parsed(narrow), accept=["x"], sets=2).equal
    assert verify(parsed(wide), parsed(other), accept=["x"], sets=2).different is node.startswith("Where")


@pytest.mark.parametrize("seconds", [0, -1.0])
def test_a_time_limit_is_above_0(seconds: float) -> None:
    with pytest.raises(OptionError, match="seconds"):
        compared(_NEG.format("float", 3), _NEG.format("float", 3), seconds=seconds)
