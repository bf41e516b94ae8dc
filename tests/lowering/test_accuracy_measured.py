"""The measured error of any pair of results, number for number: two models that return one of two inputs each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx.parser
import onnx_ir
import pytest
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.lowering import accuracy
from castsmith.lowering.accuracy import (
    Reference,
    _within,  # pyright: ignore[reportPrivateUsage]
    measure,
    reference,
)
from castsmith.lowering.conversion import _evidence  # pyright: ignore[reportPrivateUsage]
from castsmith.lowering.results import Accuracy, ConvertResult, OutputError
from castsmith.verification.evaluate.engines import Engine

NAN, INF = math.nan, math.inf
Numbers = Sequence[float] | Sequence[Sequence[float]]


def model_of(body: str, outputs: str = "float[n] y") -> onnx_ir.Model:
    head = '<ir_version: 8, opset_import: ["" : 17]> g (float[n] a, float[n] b) => '
    return onnx_ir.from_proto(onnx.parser.parse_model(f"{head} ({outputs}) {{ {body} }}"))


def measured(
    before: str, after: str, *sets: Mapping[str, NDArray[Any]], outputs: str = "float[n] y", other: str = ""
) -> Accuracy:
    return measure(reference(model_of(before, outputs), list(sets)), model_of(after, other or outputs))


def of_numbers(a: Numbers, b: Numbers) -> OutputError:
    feeds = {"a": np.array(a, np.float32), "b": np.array(b, np.float32)}
    rank = "float[n]" if feeds["a"].ndim == 1 else "float[n, m]"
    models = [model_of(f"y = Identity ({name})", f"{rank} y") for name in "ab"]
    for model in models:
        for value in model.graph.inputs:
            value.shape = onnx_ir.Shape(["n"] if feeds["a"].ndim == 1 else ["n", "m"])
    (output,) = measure(reference(models[0], feeds), models[1]).outputs
    assert output.name == "y"
    return output


ERRORS: list[tuple[Numbers, Numbers, tuple[float, float, float, float | None]]] = [
    ([1, -4], [1, -4], (0, 0, 1, None)),
    ([1, -4], [2, -4], (1, 0.25, 18 / math.sqrt(17 * 20), None)),
    ([0, 0], [0, 0], (0, 0, 1, None)),
    ([0, 0], [0, 1], (1, INF, 1, None)),
    ([3, 4], [-3, -4], (8, 2, -1, None)),
    ([INF, 2], [INF, 2], (0, 0, 1, None)),
    ([INF, 2], [-INF, 2], (INF, INF, 1, None)),
    ([2, 4], [2, NAN], (INF, INF, 1, None)),
    ([2, 4], [2, INF], (INF, INF, 1, None)),
    ([INF, INF], [INF, 1], (INF, INF, 1, None)),
    # NaN in the model is not compared, and a mask value matters only in its size.
    ([NAN, 4], [1, 4], (0, 0, 1, None)),
    ([NAN, NAN], [1, 4], (0, 0, 1, None)),
    ([-1e5, 4], [-6e4, 4], (0, 0, 1, None)),
    ([-1e5, 4], [-50000, 4], (0, 0, 1, None)),
    ([-1e5, 4], [-49999, 4], (50001, 0.50001, 1, None)),
    ([-99999, 4], [-99998, 4], (1, 1 / 99999, 1, None)),
    # Rows of scores: at least three along the last axis.
    ([[1, 2], [2, 1]], [[2, 1], [2, 1]], (1, 0.5, 0.9, None)),
    ([[1, 2, 0], [2, 1, 0]], [[2, 1, 0], [2, 1, 0]], (1, 0.5, 0.9, 0.5)),
    ([[1, 2, 0], [2, 1, NAN]], [[1, 2, 0], [1, 2, 0]], (1, 0.5, 9 / 10, 1)),
    ([[1, 2, NAN]], [[1, 2, 0]], (0, 0, 1, 0)),
    ([1, 2, 0], [2, 1, 0], (1, 0.5, 0.8, None)),
]


@pytest.mark.parametrize(("a", "b", "expected"), ERRORS, ids=str)
def test_the_error_of_two_results(a: Numbers, b: Numbers, expected: tuple[float, float, float, float | None]) -> None:
    absolute, relative, cosine, top1 = expected
    output = of_numbers(a, b)
    assert (output.absolute, output.relative, output.top1) == (absolute, pytest.approx(relative, rel=1e-15), top1)
    assert output.cosine == pytest.approx(cosine, rel=1e-9)


def vectors(*numbers: tuple[Sequence[float], Sequence[float]]) -> list[dict[str, NDArray[Any]]]:
    return [{"a": np.array(a, np.float32), "b": np.array(b, np.float32)} for a, b in numbers]


def test_of_several_sets_the_worst_of_each_figure_counts() -> None:
    """The cosine is worst in the first set, the relative error in the second, the absolute one in the third."""
    sets = vectors(([1, 0], [1, 1]), ([1, 1], [4, 4]), ([100, 100], [200, 200]), ([8, 8], [8, 8]))
    errors = measured("y = Identity (a)", "y = Identity (b)", *sets)
    (output,) = errors.outputs
    assert (output.absolute, output.relative) == (100, 3)
    assert output.cosine == pytest.approx(math.sqrt(0.5))
    assert errors.worst == 3
    assert len(errors.sets) == 4


def test_an_output_that_is_no_number_counts_each_element_and_another_shape_all() -> None:
    sets = vectors(([1, 2, 3], [1, 0, 3]), ([1, 2, 3], [3, 2, 1]))
    names = "int64[n] y, bool[n] z"
    before = "y = Cast <to = 7> (a) z = Cast <to = 9> (a)"
    errors = measured(before, "y = Cast <to = 7> (b) z = Cast <to = 9> (b)", *sets, outputs=names)
    assert errors.differing == {"y": (3, 6), "z": (1, 6)}
    assert errors.outputs == ()
    longer = "c = Concat <axis = 0> (a, b) y = Cast <to = 7> (c) z = Cast <to = 9> (b)"
    errors = measured(before, longer, *sets, outputs=names, other="int64[m] y, bool[n] z")
    assert errors.differing == {"y": (6, 6), "z": (1, 6)}
    assert errors.notes == ("y has the shape [6] instead of [3]",)


CHAIN = "c = Identity ({}) d = Identity (c) e = Identity ({}) y = Add (d, e)"


def test_a_node_that_adds_an_error_is_named_and_those_after_it_are_not() -> None:
    sets = vectors(([1, 2, 4], [1, 2, 5]))
    errors = measured(CHAIN.format("a", "a"), CHAIN.format("a", "b"), *sets)
    assert errors.contributions == {"c": 0, "d": 0, "e": 0.25, "y": 0}
    assert errors.leap == ("e", 0.25)
    assert errors.overflows == ()
    assert measured(CHAIN.format("a", "a"), CHAIN.format("a", "a"), *sets).leap is None


@pytest.mark.parametrize(("more", "leaps"), [(7, False), (8, False), (9, True)])
def test_an_error_leaps_where_it_is_over_eight_times_that_of_the_inputs(more: int, leaps: bool) -> None:
    """The first node is off by 1 of 1024, which is too little to be told."""
    chain = "c = Identity ({}) {} = Constant <value_floats = [0.0, {}.0]> () y = Add (c, {})"
    sets = vectors(([1024, 0], [1024, 1]))
    errors = measured(chain.format("a", "zero", 0, "zero"), chain.format("b", "k", more, "k"), *sets)
    assert errors.contributions == {"c": 1 / 1024, "y": more / 1024}
    assert errors.leap == (("y", more / 1024) if leaps else None)


@pytest.mark.parametrize(("off", "told"), [(1.0, True), (0.5, False)])
def test_a_small_error_is_no_leap(off: float, told: bool) -> None:
    errors = measured("y = Identity (a)", "y = Identity (b)", *vectors(([512, 0], [512, off])))
    assert errors.leap == (("y", off / 512) if told else None)


def test_what_becomes_infinite_is_told_where_it_was_finite_before() -> None:
    sets = vectors(([1, 2], [1, INF]), ([1, INF], [1, INF]))
    names = "c = Identity ({0}) y = Exp (c)"
    errors = measured(names.format("a"), names.format("b"), *sets)
    assert errors.overflows == ("c", "y")
    assert measured(names.format("b"), names.format("a"), *sets).overflows == ()
    assert measured(names.format("b"), names.format("b"), sets[1]).overflows == ()


def test_a_set_on_which_one_model_does_not_run_is_noted() -> None:
    sets = vectors(([1, 2], [1, 2]), ([1, 2, 3], [1, 2, 3]))
    broken = "s = Constant <value_ints = [2]> () y = Reshape (b, s)"
    errors = measured("y = Identity (a)", broken, *sets)
    assert (len(errors.sets), errors.worst) == (1, 0)
    assert errors.notes[0].startswith("the result does not run on ")
    errors = measured(broken.replace("b,", "a,"), "y = Identity (b)", *sets)
    assert len(errors.sets) == 1
    assert errors.notes[0].startswith("not run on ")


def test_the_bounds_of_a_value_are_those_of_its_finite_elements_in_all_sets() -> None:
    sets = vectors(([1, -2], [INF, 3]), ([4, -1], [NAN, -7]))
    bounds = reference(model_of("c = Identity (b) y = Add (a, c)"), sets).measured()
    assert {name: (bound.low, bound.high, bound.how) for name, bound in bounds.items()} == {
        "a": (-2, 4, "measured"),
        "b": (-7, 3, "measured"),
        "c": (-7, 3, "measured"),
        "y": (-8, 1, "measured"),
    }


def test_a_result_shows_its_summary() -> None:
    assert repr(ConvertResult(model_of("y = Identity (a)"))) == "<ConvertResult: 0 rewrites, 0 refusals, 0 diagnostics>"


@pytest.mark.parametrize(("most", "kept"), [(7, "a b y"), (8, "a b c y"), (15, "a b c y"), (16, "a b c d y")])
def test_values_are_kept_up_to_a_number_of_bytes(most: int, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs and outputs are kept in any case: results are compared."""
    monkeypatch.setattr(accuracy, "_MOST_BYTES", most)
    body = "c = Identity (a) d = Identity (c) y = Identity (d)"
    baseline = reference(model_of(body), vectors(([1, 2], [3, 4])))
    assert [name for _, name in baseline.runs[0][2]] == kept.split()
    assert baseline.runs[0][2][(), "y"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("made_up", "search", "expected"),
    [(True, True, "c"), (True, False, ""), (False, True, "abc"), (False, False, "abc")],
)
def test_made_up_inputs_keep_a_node_in_a_search_alone_and_beyond_the_precision(
    made_up: bool, search: bool, expected: str
) -> None:
    baseline = Reference(model_of("y = Identity (a)"), Engine("reference"), 1)
    values = {((), name): np.array([number, -1.0]) for name, number in (("a", 1.0), ("b", 65504.0), ("c", 65505.0))}
    baseline.runs.append(("one", {}, values))
    evidence = _evidence(baseline.measured(), DataType.FLOAT16, made_up=made_up, search=search)
    assert "".join(evidence) == expected


def test_generated_inputs_have_both_ends_of_their_range() -> None:
    feeds = {"a": np.zeros((2, 8), np.float32), "b": np.zeros(1, np.float16)}
    feeds |= {"i": np.zeros(4, np.int64), "e": np.zeros(0)}
    spread = _within(feeds, {"a": (-3.0, 5.0), "b": (7.0, 9.0), "i": (1.0, 2.0), "other": (0.0, 1.0)})
    assert (spread["a"].min(), spread["a"].max(), spread["a"].shape, spread["a"].dtype) == (-3, 5, (2, 8), np.float32)
    assert len(set(spread["a"].ravel().tolist())) == 16
    assert (spread["b"].tolist(), spread["b"].dtype) == ([7], np.float16)
    assert all(spread[name] is feeds[name] for name in "ie")
    assert spread.keys() == feeds.keys()
    assert not feeds["a"].any()
