"""Each trait of an operator is executed: what the row says is compared with what the operator computes.

A row that claims too much fails here, such as `cast_passes` of Neg. The reference evaluator of onnx runs the operators.
"""

from __future__ import annotations

from dataclasses import fields
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.shape_inference
from onnx.reference import ReferenceEvaluator
from onnx_ir import DataType

from castsmith.ir.ops.movement import RULES
from castsmith.ir.ops.table import TRAITS, operators
from castsmith.ir.ops.traits import Answer, Conversion, Indices, Moves, Size, Traits
from tests.ir.ops.models import fed_to, model_of, run, schemas_by_operator
from tests.sampling import check_all

Array = np.ndarray[Any, Any]
STANDARD = {op_type: row for (domain, op_type), row in TRAITS.items() if not domain}


# Moves of elements.

_HEAD = '<ir_version: 10, opset_import: ["" : {}]> agraph '
MOVING: dict[str, str] = {
    "Identity": "(float[2,3] x) => (float y) {{ y = {} (x) }}",
    "Dropout": "(float[2,3] x) => (float y) {{ y = {} (x) }}",
    "Reshape": "(float[2,3] x) => (float y) <int64[2] s = {{3, 2}}> {{ y = {} (x, s) }}",
    "Squeeze": "(float[1,3] x) => (float y) <int64[1] s = {{0}}> {{ y = {} (x, s) }}",
    "Unsqueeze": "(float[2,3] x) => (float y) <int64[1] s = {{0}}> {{ y = {} (x, s) }}",
    "Flatten": "(float[2,3,2] x) => (float y) {{ y = {} (x) }}",
    "Transpose": "(float[2,3] x) => (float y) {{ y = {} (x) }}",
    "DepthToSpace": "(float[1,8,1,2] x) => (float y) {{ y = {} <blocksize = 2> (x) }}",
    "SpaceToDepth": "(float[1,2,2,2] x) => (float y) {{ y = {} <blocksize = 2> (x) }}",
    "ReverseSequence": "(float[2,2] x) => (float y) <int64[2] n = {{1, 2}}> {{ y = {} (x, n) }}",
    "Slice": "(float[4] x) => (float y) <int64[1] b = {{1}}, int64[1] e = {{3}}> {{ y = {} (x, b, e) }}",
    "Gather": "(float[4] x) => (float y) <int64[2] i = {{2, 0}}> {{ y = {} (x, i) }}",
    "GatherElements": "(float[4] x) => (float y) <int64[2] i = {{2, 0}}> {{ y = {} (x, i) }}",
    "GatherND": "(float[2,3] x) => (float y) <int64[1,1] i = {{1}}> {{ y = {} (x, i) }}",
    "Compress": "(float[3] x) => (float y) <bool[3] c = {{1, 0, 1}}> {{ y = {} (x, c) }}",
    "Split": "(float[3] x) => (float y, float z) <int64[2] s = {{1, 2}}> {{ y, z = {} (x, s) }}",
    "Expand": "(float[3] x) => (float y) <int64[2] s = {{2, 3}}> {{ y = {} (x, s) }}",
    "Tile": "(float[3] x) => (float y) <int64[1] s = {{2}}> {{ y = {} (x, s) }}",
    "Resize": "(float[1,1,2,2] x) => (float y) <float[4] s = {{1.0, 1.0, 2.0, 2.0}}>"
    ' {{ y = {} <mode = "nearest"> (x, , s) }}',
    "Concat": "(float[3] x, float[2] z) => (float y) {{ y = {} <axis = 0> (x, z) }}",
    "Where": "(float[3] x, float[3] z) => (float y) <bool[3] c = {{1, 0, 1}}> {{ y = {} (c, x, z) }}",
    "Pad": "(float[3] x, float z) => (float y) <int64[2] p = {{1, 2}}> {{ y = {} (x, p, z) }}",
    "Trilu": "(float[2,2] x) => (float y) {{ y = {} (x) }}",
    "CenterCropPad": "(float[2,2] x) => (float y) <int64[2] s = {{1, 3}}> {{ y = {} (x, s) }}",
    "ScatterElements": "(float[3] x, float[2] u) => (float y) <int64[2] i = {{2, 0}}> {{ y = {} (x, i, u) }}",
    "ScatterND": "(float[3] x, float[2] u) => (float y) <int64[2,1] i = {{2, 0}}> {{ y = {} (x, i, u) }}",
    "TensorScatter": "(float[1,1,3,2] x, float[1,1,1,2] u) => (float y) {{ y = {} (x, u) }}",
}
"""Models of the operators that only move elements; no input has an element twice."""
_UNEXECUTED = {"Upsample", "Scatter", "OneHot"}
"""Deprecated, in place of Resize and ScatterElements; OneHot writes one of two values over the other."""
_ARRANGING = operators(
    lambda row: row.moves not in (None, Moves.MAKE, Moves.PACK, Moves.UNPACK, Moves.FLOW, Moves.SHAPE, Moves.CONTENT)
)


def _kind(sources: list[Array], results: list[Array]) -> Moves:
    """Return the kind of movement that results show, of sources whose elements are all different and not 0."""
    first, base, moved = results[0], sources[0], np.concatenate([result.ravel() for result in results]).tolist()
    count, whole = len(moved), sum(source.size for source in sources)
    if len(results) > 1:
        return Moves.SPLIT
    if 0 in moved or any(source.ndim == 0 for source in sources):
        return Moves.FILL
    if len(sources) > 1 and count == whole:
        return Moves.JOIN
    if len(sources) > 1:
        same_place = all(source.shape == first.shape for source in sources)
        return Moves.CHOOSE if same_place else Moves.WRITE
    if moved == base.ravel().tolist():
        return Moves.KEEP
    if len(set(moved)) < count:
        return Moves.REPEAT
    return Moves.PERMUTE if count == whole else Moves.SELECT


def _check_moves(op_type: str) -> None:
    row, model = STANDARD[op_type], onnx.parser.parse_model(_HEAD.format(24) + MOVING[op_type].format(op_type))
    fed, start = dict[str, Array](), 1
    for value in model.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        size = int(np.prod(shape))
        fed[value.name] = np.arange(start, start + size, dtype=np.float32).reshape(shape)
        start += size
    results = [np.asarray(each) for each in ReferenceEvaluator(model).run(None, fed)]
    names = list(model.graph.node[0].input)
    found = {element for result in results for element in result.ravel().tolist()}
    sources = {names.index(name): array for name, array in fed.items() if found & {*array.ravel().tolist()}}
    assert _kind([sources[index] for index in sorted(sources)], results) is row.moves
    assert set(sources) == set(range(len(names)) if row.elements is None else row.elements)


def test_what_moves_elements_moves_them_so() -> None:
    assert MOVING.keys() | _UNEXECUTED == _ARRANGING
    check_all(_check_moves, MOVING)


# Casts.

_WRAPPED = [(DataType.INT32, DataType.INT8), (DataType.INT32, DataType.BOOL), (DataType.INT16, DataType.UINT8)]
_ROUNDED = [(DataType.FLOAT, DataType.FLOAT16), (DataType.FLOAT, DataType.INT8), (DataType.FLOAT, DataType.BOOL)]
_WIDENED = [
    (DataType.FLOAT16, DataType.FLOAT),
    (DataType.FLOAT, DataType.DOUBLE),
    (DataType.INT32, DataType.INT64),
]


def _check_cast(op_type: str) -> None:
    """A cast of the elements commutes with the operator: any cast, or one that keeps the order of integers."""
    row = STANDARD[op_type]
    assert row.ordered or row.moves is not None
    names = [value.name for value in (model_of(op_type, DataType.FLOAT) or onnx.ModelProto()).graph.input]
    moved = names if row.elements is None else [names[index] for index in row.elements if index < len(names)]
    tried = 0
    for source, target in _WIDENED if row.ordered else (*_WRAPPED, *_ROUNDED):
        before, after = model_of(op_type, source), model_of(op_type, target)
        if before is None or after is None or (op_type, target) == ("Resize", DataType.BOOL):
            continue  # not a type of the operator; the reference resizes no bool
        fed = fed_to(before, source, 1, scale=1 if row.ordered else 100)
        cast = {name: _cast(array, target) if name in moved else array for name, array in fed.items()}
        np.testing.assert_array_equal(run(after, cast)[0], _cast(run(before, fed)[0], target))
        tried += 1
    assert tried


def _cast(array: Array, target: DataType) -> Array:
    small = np.where(np.abs(array) < 100, array, np.sign(array)) if array.dtype.kind == "f" else array
    return small.astype(target.numpy())


def test_a_cast_commutes_with_what_it_passes() -> None:
    check_all(_check_cast, operators(lambda row: row.cast_passes) - {"Upsample"})


# Order, shapes, sizes.


def _rising(array: Array) -> Array:
    """A function that keeps the order, 0, 1 and -1, and treats neither signs nor fractions alike."""
    return np.where(array > 1, array**3, np.where(array < -1, 2 * array + 1, array)).astype(array.dtype)


def _check_order(op_type: str) -> None:
    model = model_of(op_type, DataType.FLOAT)
    assert model is not None
    for seed in range(3):
        fed = fed_to(model, DataType.FLOAT, seed)
        fed = {name: array / 2 if array.dtype == np.float32 else array for name, array in fed.items()}
        other = {name: _rising(array) if array.dtype == np.float32 else array for name, array in fed.items()}
        np.testing.assert_array_equal(run(model, other)[0], _rising(run(model, fed)[0]))


def test_what_goes_by_order_commutes_with_what_keeps_it() -> None:
    check_all(_check_order, operators(lambda row: row.ordered))


def _check_shape(op_type: str) -> None:
    """The first output has the shape of the first input, also where that is smaller than the others."""
    model = model_of(op_type, DataType.INT32 if op_type.startswith("Bit") else DataType.FLOAT)
    assert model is not None
    fed = fed_to(model, DataType.FLOAT, 0)
    first = model.graph.input[0].name
    assert run(model, fed)[0].shape == fed[first].shape
    if op_type != "PRelu":  # whose slope is never the larger one, which the reference does not check
        assert run(model, {**fed, first: fed[first][:1]})[0].shape == fed[first][:1].shape


def test_what_keeps_the_shape_of_its_first_input() -> None:
    check_all(_check_shape, operators(lambda row: row.keeps_shape))


def _check_size(op_type: str) -> None:
    """The result grows with what its size follows from, and has at most twice that, as AffineGrid has."""
    size = STANDARD[op_type].size
    model = model_of(op_type, DataType.INT64 if op_type in ("HannWindow", "MelWeightMatrix") else DataType.FLOAT)
    if model is None or size is None or size[0] not in (Size.SHAPE, Size.TIMES):
        return
    fed = {name: np.ones_like(array) for name, array in fed_to(model, DataType.FLOAT, 0).items()}
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    (node,) = (node for node in model.graph.node if node.op_type == op_type)
    if any(index >= len(node.input) for index in size[1]):
        return
    arrays = {**fed, **constants}
    named = [node.input[index] for index in size[1]]
    bound = float(np.prod([np.prod(arrays[name]) for name in named]))
    bound *= arrays[node.input[0]].size if size[0] is Size.TIMES else 1
    count = run(model, fed)[0].size
    assert count <= 2 * bound
    for name in named:
        try:
            other = run(model, {**fed, name: 2 * arrays[name]})[0].size
        except (RuntimeError, ValueError):  # it does not fit the other inputs
            continue
        assert other > count, name


def test_sizes_follow_from_the_inputs_that_rows_name() -> None:
    check_all(_check_size, operators(lambda row: row.size))


# Other traits.


def _check_bool(op_type: str) -> None:
    """On 0 and 1 the arithmetic is the logical operator, if all that is not 0 counts as true."""
    arithmetic, logical = model_of(op_type, DataType.FLOAT), model_of(STANDARD[op_type].on_bool or "", DataType.BOOL)
    assert arithmetic is not None
    assert logical is not None
    a, b = np.array([[0, 0], [1, 1]]), np.array([[0, 1], [0, 1]])
    found = run(arithmetic, {"x": a.astype(np.float32), "z": b.astype(np.float32)})[0]
    wanted = run(logical, dict(zip([value.name for value in logical.graph.input], (a == 1, b == 1), strict=True)))[0]
    np.testing.assert_array_equal(found != 0, wanted)


def test_arithmetic_on_bool_is_the_logical_operator() -> None:
    check_all(_check_bool, operators(lambda row: row.on_bool))


def _check_pairs(op_type: str) -> None:
    pair = model_of(STANDARD[op_type].in_pairs or "", DataType.FLOAT)
    text = f"(float[3] a, float[3] b, float[3] c) => (float[3] y) {{ y = {op_type} (a, b, c) }}"
    fed = {name: np.random.default_rng(index).standard_normal(3).astype(np.float32) for index, name in enumerate("abc")}
    assert pair is not None
    chained = reduce(lambda x, z: run(pair, {"x": x, "z": z})[0], fed.values())
    np.testing.assert_array_equal(run(onnx.parser.parse_model(_HEAD.format(21) + text), fed)[0], chained)


def test_chains_of_pairs() -> None:
    check_all(_check_pairs, operators(lambda row: row.in_pairs))


def _rising_above_zero(array: Array) -> Array:
    return _rising(array) + 20


def _check_answer(op_type: str) -> None:
    """Comparisons and extremes go by order, places by what is 0, predicates by one operand, logic by bool."""
    answer = STANDARD[op_type].answer
    model = model_of(op_type, DataType.BOOL if answer is Answer.LOGIC else DataType.FLOAT)
    assert model is not None
    assert (len(model.graph.input) == 1) >= (answer is Answer.QUESTION)
    if answer in (Answer.LOGIC, Answer.QUESTION):
        return
    for seed in range(3):
        fed = fed_to(model, DataType.FLOAT, seed)
        for array in fed.values():
            array.reshape(-1)[0] = 0
        wanted = run(model, fed)[0]
        change = np.square if answer is Answer.PLACES else _rising_above_zero
        other = {name: change(array) for name, array in fed.items()}
        np.testing.assert_array_equal(run(model, other)[0], wanted)
        assert answer is Answer.COMPARISON or wanted.dtype == np.int64


def test_answers() -> None:
    check_all(_check_answer, operators(lambda row: row.answer))


def test_scales_and_zero_points_are_called_so() -> None:
    for op_type, row in STANDARD.items():
        schemas = schemas_by_operator()["", op_type]
        formals = {index: each.name.lower() for schema in schemas for index, each in enumerate(schema.inputs)}
        named = {index for index, name in formals.items() if name.endswith(("scale", "zero_point"))}
        assert set(row.scaling) == named, op_type


def test_indices_are_called_so_and_lie_along_an_axis_where_an_attribute_names_it() -> None:
    for schema in onnx.defs.get_all_schemas():
        if not schema.domain and len(schema.inputs) > 1 and schema.inputs[1].name == "indices":
            kind = Indices.ALONG_AXIS if "axis" in schema.attributes else Indices.TUPLES
            assert STANDARD[schema.name].indices is kind, schema.name
    assert operators(lambda row: row.indices) == {
        *("Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND"),
    }  # fmt: skip


def test_what_computes_unless_its_row_holds() -> None:
    assert operators(lambda row: row.computes) == {"Resize", "Upsample", "Dropout"}
    assert all(row.when is not None for row in STANDARD.values() if row.computes)


def test_constants_are_followed_through_the_moves_that_have_a_rule() -> None:
    assert operators(lambda row: row.carries) == RULES.keys() - {"Tile"}


def test_conversions_by_name() -> None:
    quantizing = {op_type: row.conversion for op_type, row in STANDARD.items() if row.conversion}
    assert quantizing == {
        "Cast": Conversion.CAST, "CastLike": Conversion.CAST, "BitCast": Conversion.BITS,
        "QuantizeLinear": Conversion.QUANTIZE, "DequantizeLinear": Conversion.DEQUANTIZE,
    }  # fmt: skip


def _check_rank(op_type: str) -> None:
    model = model_of(op_type, DataType.FLOAT)
    assert model is not None
    assert all(result.ndim for result in run(model, fed_to(model, DataType.FLOAT, 0)))


def test_results_that_are_never_scalars() -> None:
    check_all(_check_rank, operators(lambda row: row.never_scalar))


def _check_draws(op_type: str) -> None:
    model = model_of(op_type, DataType.FLOAT)
    assert model is not None
    fed = {name: np.full_like(array, 0.5) for name, array in fed_to(model, DataType.FLOAT, 0).items()}
    draws = {run(model, fed)[0].tobytes() for _ in range(20)}
    assert len(draws) > 1


def test_what_draws_numbers() -> None:
    check_all(_check_draws, operators(lambda row: row.random) - {"Multinomial"})  # of which there is no model


def _check_type(op_type: str) -> None:
    row, model = STANDARD[op_type], model_of(op_type, DataType.DOUBLE)
    assert model is not None
    (node,) = (node for node in model.graph.node if node.op_type == op_type)
    if all(attribute.name not in (row.types or ()) for attribute in node.attribute):
        for value in model.graph.output:
            value.type.tensor_type.ClearField("elem_type")
        inferred = onnx.shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.elem_type
        assert inferred == model.graph.input[0].type.tensor_type.elem_type


def test_results_of_the_type_of_an_input() -> None:
    check_all(_check_type, operators(lambda row: row.typed_by_input) - {"DequantizeLinear"})  # that of the scale


def test_what_later_versions_added() -> None:
    for op_type, row in STANDARD.items():
        versions = schemas_by_operator()["", op_type]
        first, last = (choose(versions, key=lambda schema: schema.since_version) for choose in (min, max))
        assert not row.revised or len(versions) > 1, op_type
        assert not set(row.later) & first.attributes.keys(), op_type
        assert all(not last.attributes[name].required for name in row.later), op_type


def test_products_grow_with_both_operands() -> None:
    for op_type in operators(lambda row: row.products) - {"Attention", "GRU", "LSTM", "RNN"}:  # which squash them
        model = model_of(op_type, DataType.FLOAT)
        assert model is not None
        fed = fed_to(model, DataType.FLOAT, 1)
        doubled = {name: 2 * array for name, array in fed.items()}
        np.testing.assert_array_equal(run(model, doubled)[0], 4 * run(model, fed)[0])


def test_every_trait_is_tested() -> None:
    """A new one needs a test here that fails for a wrong row."""
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    for trait in fields(Traits):
        assert f"row.{trait.name}" in sources or trait.name in ("restrictions",), trait.name  # see `restriction`


def test_operands_that_are_left_out_move_nothing() -> None:
    for key, row in TRAITS.items():
        assert row.moved([]) == [], key
        assert row.moved([None]) == [None] * (row.elements is None or 0 in row.elements), key
