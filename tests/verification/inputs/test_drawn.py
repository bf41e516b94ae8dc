"""Inputs that are made: every critical value is fed, each kind of set, masks and positions, sizes that are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import onnx_ir
import pytest

from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.evaluate.engines import Engine
from castsmith.verification.evaluate.evaluator import Evaluator
from castsmith.verification.evaluate.limits import FeedError
from castsmith.verification.inputs.drawn import MILD_SETS, Inputs
from castsmith.verification.inputs.reach import Needs, Reach
from castsmith.verification.inputs.sets import mild_sets  # pyright: ignore[reportPrivateUsage]

_HEAD = '<ir_version: 10, opset_import: ["" : 21]> '


def model_of(inputs: str, body: str = "y = Identity (x)", output: str = "float[N] y") -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(f"{_HEAD} g ({inputs}) => ({output}) {{ {body} }}"))


def maker(inputs: str, **given: Any) -> Inputs:
    model = model_of(inputs, **given)
    return Inputs([model, model], [Reach(model), Reach(model)], 0)


def made(inputs: str, kind: str, number: int, **given: Any) -> Any:
    return maker(inputs, **given).make(kind, number)["x"]


def test_a_large_input_needs_no_more_sets() -> None:
    assert list(maker("float16[4096] x").more(4)) == []
    assert list(maker("float16[0] x").more(4)) == []


def test_sets_are_the_same_again_and_differ_from_each_other() -> None:
    for kind in ("adversarial", "finite", "sparse", "mild"):
        one, again, other = (np.asarray(made("float[64] x", kind, number)) for number in (1, 1, 2))
        assert one.tobytes() == again.tobytes()
        assert one.tobytes() != other.tobytes()


@pytest.mark.parametrize(("name", "dtype"), [("attention_mask", "int64"), ("mask", "float"), ("Mask", "int32")])
def test_masks_start_with_ones(name: str, dtype: str) -> None:
    def mask(kind: str, number: int, shape: str = "4,6") -> Any:
        declared = f"{dtype}[{shape}]" if shape else dtype
        given = maker(f"{declared} {name}", body=f"y = Identity ({name})", output=f"{dtype}[N,M] y")
        return np.asarray(given.make(kind, number)[name])

    for number in (1, 3):
        rows = mask("finite", number).astype(np.int64)
        assert set(rows.reshape(-1).tolist()) <= {0, 1}
        assert (np.sort(rows, axis=1)[:, ::-1] == rows).all()
        assert rows[:, 0].all()
    assert mask("finite", 2).all()
    assert mask("finite", 1, "").shape == ()


def test_positions_count_up() -> None:
    inputs = maker("int64[2,5] position_ids", body="y = Identity (position_ids)", output="int64[N,M] y")
    assert np.asarray(inputs.make("finite", 1)["position_ids"]).tolist() == [[0, 1, 2, 3, 4]] * 2
    floats = maker("float[2,5] position_ids", body="y = Identity (position_ids)", output="float[N,M] y")
    assert np.asarray(floats.make("finite", 1)["position_ids"]).tolist() != [[0, 1, 2, 3, 4]] * 2


def test_bool_and_text() -> None:
    one = [bool(made("bool x", "finite", number, output="bool y")) for number in range(4)]
    assert one == [False, True, False, True]
    flags = made("bool[64] x", "finite", 1, output="bool[N] y")
    assert 0 < flags.sum() < 64
    assert len(set(made("bool[64] x", "uniform", 1, output="bool[N] y").tolist())) == 1
    texts = made("string[3] x", "mild", 1, output="string[N] y")
    assert texts.dtype == object
    assert made("string[3] x", "mild", 2, output="string[N] y").tolist() == texts.tolist()
    assert made("string[3] x", "adversarial", 2, output="string[N] y").tolist() != texts.tolist()
    assert made("complex64[40] x", "adversarial", 1, output="complex64[N] y").dtype == np.complex64


def test_inputs_with_a_default_and_sequences() -> None:
    inputs = maker("float[2] x, float[2] w")
    inputs.values[1].const_value = onnx_ir.tensor(np.zeros(2, np.float32))
    assert [sorted(inputs.make("finite", number)) for number in (1, 2)] == [["w", "x"], ["x"]]
    members = made("seq(float[3]) x", "finite", 1, output="seq(float[3]) y")
    assert [each.shape for each in members] == [(3,)] * 3
    assert len({each.tobytes() for each in members}) == 3
    optional = [made("optional(float[3]) x", "finite", number, output="optional(float[3]) y") for number in (1, 2)]
    assert (optional[0].shape, optional[1]) == ((3,), None)


def test_needs_of_an_input_are_kept() -> None:
    inputs = maker("int64[64] x", output="int64[N] y")
    inputs.needs["x"] = Needs(low=-2, high=3)
    for kind in ("adversarial", "finite", "mild", "sparse"):
        for number in (1, 2):
            fed = np.asarray(inputs.make(kind, number)["x"])
            assert fed.min() >= -2
            assert fed.max() <= 3
    assert set(np.asarray(inputs.make("adversarial", 1)["x"]).tolist()) == {-2, -1, 0, 1, 2, 3}
    assert set(np.asarray(inputs.make("finite", 1)["x"]).tolist()) == {0, 1, 2, 3}
    inputs.needs["x"].nonzero = True
    assert 0 not in np.asarray(inputs.make("adversarial", 1)["x"])
    assert 0 not in np.asarray(inputs.make("mild", 1)["x"])


def test_an_input_without_a_shape_is_refused() -> None:
    inputs = maker("float[2] x")
    inputs.values[0].shape = None
    text = r"^the input x \(float\) has no declared shape; give one \(`shapes=`\) or the inputs \(`inputs=`\)\.$"
    with pytest.raises(FeedError, match=text):
        inputs.make("finite", 1)


def test_a_negative_dimension_is_unknown() -> None:
    inputs = maker("float[2] x")
    inputs.values[0].shape = onnx_ir.Shape([-1, 2])
    unknown = np.asarray(inputs.make("finite", 1)["x"]).shape
    assert unknown[1] == 2
    assert unknown[0] > 0


def test_mild_sets_of_a_model_are_the_same_again() -> None:
    model = model_of("float[N] x")
    made = list[list[tuple[str, Any]]]()
    for _ in range(2):
        evaluator = Evaluator(model, PromotionRules(), Engine("reference"))
        sets = mild_sets(model, evaluator, evaluator.budget, {"N": 6})
        made.append([(name, np.asarray(feeds["x"]).tolist()) for name, feeds in sets])
    names = [name for name, _ in made[0]]
    assert made[0] == made[1]
    assert len(names) >= MILD_SETS
    assert all(len(numbers) == 6 for _, numbers in made[0])
    first = maker("float[6] x").make("mild", 1)["x"]
    assert np.asarray(first).tolist() in [numbers for _, numbers in made[0]]


def test_numbers_of_uniform_sets() -> None:
    """Those that are demanded, those that are compared with, with their neighbours, and common ones."""
    inputs = maker(
        "float[2] x, int64[2] n", body="k = Constant <value_float = 7.0> () y = Less (x, k)", output="bool[N] y"
    )
    inputs.needs["x"].demanded.update(dict.fromkeys((0.75, "text")))
    every = [inputs.make(kind, number) for kind, number in inputs.uniform()]
    numbers = [float(np.asarray(feeds["x"])[0]) for feeds in every]
    common = [0.0, 1.0, -1.0, 2.0, 3.0, 0.25, -0.25, 5.0, 16.0, 100.0, -100.0, 1e4, -1e4, 1e30, -1e30]
    assert numbers == [*map(np.float32, [0.75, 7.0, 8.0, 6.0, -7.0, -6.0, -8.0, *common])]
    assert all((np.asarray(feeds["x"]) == number).all() for feeds, number in zip(every, numbers, strict=True))
    integers = [np.asarray(feeds["n"]).tolist() for feeds in every]
    assert integers[:6] == [[0, 0], [7, 7], [8, 8], [6, 6], [-7, -7], [-6, -6]]
    assert integers[-2:] == [[2**63 - 1] * 2, [-(2**63)] * 2]


def test_what_is_required_is_fed_first_and_once() -> None:
    """Two bools, every number of a byte, the numbers that are demanded, and texts."""
    assert sorted(
        np.concatenate([np.asarray(made("int8[64] x", "adversarial", n, output="int8[N] y")) for n in range(1, 5)])
    ) == [*range(-128, 128)]
    inputs = maker("float[8] x")
    inputs.needs["x"].demanded[0.3] = None
    first = np.asarray(inputs.make("adversarial", 1)["x"])
    assert np.float32(0.3) in first[:3]
    texts = maker("string[2] x", output="string[N] y")
    texts.needs["x"].demanded["mine"] = None
    assert np.asarray(texts.make("mild", 1)["x"]).tolist()[0] == "mine"
    second = [np.asarray(texts.make("finite", n)["x"]).tolist() for n in (1, 2)]
    assert not {*second[0]} & {*second[1]}


def test_complex_numbers_have_all_kinds_of_parts() -> None:
    fed = np.asarray(made("complex64[100] x", "adversarial", 1, output="complex64[N] y"))
    for part in (np.real(fed), np.imag(fed)):
        assert np.isnan(part).any()
        assert np.isinf(part).any()
        assert (part == 0).any()
    assert (np.real(fed) != np.imag(fed)).any()


def test_plain_numbers_are_of_three_sizes() -> None:
    sizes = [float(np.abs(made("float[4000] x", "finite", number)).mean()) for number in (3, 1, 2)]
    mean = float(np.sqrt(2 / np.pi))
    assert sizes == pytest.approx([mean, 4 * mean, mean / 4], rel=0.1)
    mild = [np.abs(made("float[4000] x", "mild", number)).mean() for number in (1, 2, 3)]
    assert mild == pytest.approx([mean] * 3, rel=0.1)


def test_a_sparse_set_has_a_few_critical_values() -> None:
    for size, count in ((64, 2), (31, 1), (320, 10)):
        plain, sparse = (np.asarray(made(f"float[{size}] x", kind, 1)) for kind in ("finite", "sparse"))
        assert plain.shape == sparse.shape
        assert (
            1
            <= (np.abs(sparse) > 20).sum() + (~np.isfinite(sparse)).sum() + (sparse == 0).sum() + count
            <= 2 * count + 1
        )


def test_large_arrays_repeat() -> None:
    size = (1 << 20) + 7
    fed = np.asarray(made(f"float[{size + 3}] x", "finite", 1))
    assert np.array_equal(fed[size:], fed[:3])
    whole = np.asarray(made(f"float[{size}] x", "finite", 1))
    assert np.array_equal(whole, fed[:size])


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("int8", -128, 127), ("uint64", 0, 2**64 - 1), ("int64", -(2**63), 2**63 - 1)]
)
def test_numbers_fit_their_type(kind: str, low: int, high: int) -> None:
    inputs = maker(f"{kind}[2] x", output=f"{kind}[N] y")
    value = inputs.values[0]
    numbers = np.array([-1e30, 1e30, np.nan, 2.0, np.inf])
    fitting = inputs._fitting(value, numbers, onnx_ir.DataType[kind.upper()])  # pyright: ignore[reportPrivateUsage]
    assert [*map(int, fitting)] == [low, high, 0, 2, high]
    inputs.needs["x"] = Needs(low=1, high=9, nonzero=True)
    fitting = inputs._fitting(value, numbers, onnx_ir.DataType[kind.upper()])  # pyright: ignore[reportPrivateUsage]
    assert [*map(int, fitting)] == [1, 9, 1, 2, 9]


def test_sets_in_turn() -> None:
    inputs = maker("float[64] x")
    mild = [("mild", number) for number in (1, 2, 3)]
    turn = [("adversarial", 1), ("finite", 1), ("adversarial", 2), ("sparse", 1), ("adversarial", 3), ("finite", 2)]
    assert list(inputs.plan(6)) == [*turn, *mild]
    assert list(inputs.plan(2, ordinary=True)) == [("ordinary", 1), ("ordinary", 2), *mild]
    assert list(inputs.plan(0)) == mild
    byte = maker("int8[100] x", output="int8[N] y")
    assert list(byte.more(1)) == [("adversarial", 2), ("adversarial", 3)]
    assert list(byte.more(3)) == [("adversarial", 3)]
    assert len(list(maker("int8 x, int8[3] z", output="int8 y").more(0))) == 256
    assert inputs.elements({}) == 64
    assert maker("float[N, 3] x, float[2] z", output="float[A, B] y").elements({"N": 5}) == 17


def test_a_mask_without_elements() -> None:
    for shape in ("0", "2,0", "0,2"):
        inputs = maker(f"int64[{shape}] mask", body="y = Identity (mask)", output="int64[N] y")
        assert np.asarray(inputs.make("finite", 1)["mask"]).shape == tuple(map(int, shape.split(",")))


@pytest.mark.parametrize(
    ("dtype", "kind", "number", "wanted"),
    [
        ("int64", "ordinary", 1, True), ("int8", "ordinary", 3, True), ("int64", "ordinary", 2, False),
        ("int64", "finite", 1, False), ("float", "ordinary", 1, False),
    ],
)  # fmt: skip
def test_ordinary_integers_are_those_that_are_compared_with(dtype: str, kind: str, number: int, wanted: bool) -> None:
    inputs = maker(f"{dtype}[64] x", output=f"{dtype}[N] y")
    inputs.needs["x"].wanted.update(dict.fromkeys((40.0, 2.5, 50.0)))
    fed = {*np.asarray(inputs.make(kind, number)["x"]).tolist()}
    assert (fed == {40, 50}) is wanted


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int64", -2, np.inf), ("int64", 2, np.inf), ("int64", -np.inf, 3), ("int32", -np.inf, -3), ("uint8", 2, np.inf)],
)
def test_a_bound_of_one_side(dtype: str, low: float, high: float) -> None:
    inputs = maker(f"{dtype}[64] x", output=f"{dtype}[N] y")
    inputs.needs["x"] = Needs(low=low, high=high)
    for kind in ("adversarial", "finite", "mild", "sparse"):
        fed = np.asarray(inputs.make(kind, 1)["x"]).astype(np.float64)
        assert low <= fed.min() <= fed.max() <= high, kind


def test_bounds_make_no_integers_of_floats() -> None:
    inputs = maker("float[64] x")
    inputs.needs["x"] = Needs(low=-2, high=3)
    fed = np.asarray(inputs.make("finite", 1)["x"])
    assert (fed != np.round(fed)).any()


def test_a_shape_that_is_given_and_sizes_that_one_model_needs() -> None:
    other, model = model_of("int64[1] x"), model_of("int64[1] x", "y = ConstantOfShape (x)")
    for models in ([model, other], [other, model]):
        need = Inputs(models, [*map(Reach, models)], 0).needs["x"]
        assert (need.low, need.high) == (1, 4)
    model.graph.inputs[0].shape = None
    fed = Inputs([model], [Reach(model)], 0, dims={"x": (2, 3)}).make("finite", 1)["x"]
    assert np.asarray(fed).shape == (2, 3)


def test_ordinary_numbers_are_not_all_rounded() -> None:
    """Numbers that are compared with are fed if they are integers, to integers, in ordinary sets."""
    inputs = maker("int64[64] x", output="int64[N] y")
    inputs.needs["x"].wanted[2.5] = None
    assert len({*np.asarray(inputs.make("ordinary", 1)["x"]).tolist()}) > 3


@pytest.mark.parametrize(("shape", "expected"), [("", 9), ("2", [0, 1])])
def test_a_position_without_dimensions_is_a_number(shape: str, expected: int | list[int]) -> None:
    declared = f"int64[{shape}] position" if shape else "int64 position"
    inputs = maker(declared, body="y = Identity (position)", output="int64 y")
    inputs.needs["position"] = Needs(low=9, high=9) if not shape else Needs()
    assert np.asarray(inputs.make("finite", 1)["position"]).tolist() == expected


@pytest.mark.parametrize(("low", "high", "most"), [(-np.inf, 40, 16), (3, np.inf, 16), (0, 40, 40), (30, 40, 40)])
def test_plain_integers_are_small_unless_bounded_on_both_sides(low: float, high: float, most: int) -> None:
    inputs = maker("int64[999] x", output="int64[N] y")
    inputs.needs["x"] = Needs(low=low, high=high)
    fed = np.asarray(inputs.make("finite", 1)["x"])
    assert (fed.min(), fed.max()) == (max(low, 0), most)


def test_zero_is_left_out_of_divisors_alone() -> None:
    """Integers that others are divided by are not 0; a float may be."""
    for dtype, has_zero in (("int16", False), ("float16", True)):
        inputs = maker(f"{dtype}[9999] x", output=f"{dtype}[N] y")
        inputs.needs["x"].nonzero = True
        fed = np.asarray(inputs.make("adversarial", 1)["x"])
        assert (fed == 0).any() == has_zero


def test_flags_of_an_input_of_one_element_alternate_by_its_place() -> None:
    """So that two flags take all four combinations; more elements are drawn, and booleans of a mask start with ones."""
    inputs = maker("bool x, bool[1] z", output="bool y")
    fed = [inputs.make("finite", number) for number in range(4)]
    assert [(bool(feeds["x"]), np.asarray(feeds["z"]).tolist()) for feeds in fed] == [
        (False, [False]), (True, [False]), (False, [True]), (True, [True]),
    ]  # fmt: skip
    assert inputs._pool(inputs.values[0], onnx_ir.DataType.BOOL)[0].tolist() == [False, True]  # pyright: ignore[reportPrivateUsage]


def test_sizes_that_a_model_needs_are_those_of_the_first_that_has_any() -> None:
    one, other = model_of("int64[1] x", "y = ConstantOfShape (x)"), model_of("int64[4] x", "y = Pad (w, x)")
    reaches = [Reach(one), Reach(one), Reach(other)]
    reaches[1].needs["x"].sizes = (0, 4)
    reaches[2].needs["x"].sizes = None
    inputs = Inputs([one, one], reaches, 0)
    assert inputs.needs["x"].sizes == (1, 4)
