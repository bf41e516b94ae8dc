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
