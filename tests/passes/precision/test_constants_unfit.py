"""Constants that a precision does not hold, wherever a model keeps them: nothing overflows or vanishes unsaid."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from castsmith import convert
from castsmith.ir.io.protos import to_proto
from tests.passes.precision.judged import session
from tests.sampling import sampled

Array = np.ndarray[Any, Any]
LOWEST = float(np.finfo(np.float32).min)
CONTENTS: dict[str, tuple[float, ...]] = {
    "overflow": (1, 1e5, 2, 3),
    "negative overflow": (1, -7e4, 2, 3),
    "the last number that fits": (1, 65519, 2, 3),
    "the first number that overflows": (1, 65520, 2, 3),
    "one subnormal": (1, 1e-5, 2, 3),
    "all subnormal": (1e-6, 1e-6, 1e-6, 1e-6),
    "one lost": (1, 1e-9, 2, 3),
    "all lost": (1e-9, 1e-9, 1e-9, 1e-9),
    "minus infinity": (0, -np.inf, 0, -np.inf),
    "-1e9": (0, -1e9, 1, -1e9),
    "the lowest float": (0, LOWEST, 0, LOWEST),
    "the lowest float alone": (LOWEST, LOWEST, LOWEST, LOWEST),
    "a mask among numbers": (0.5, -1e9, 0, 1),
    "infinity": (1, np.inf, 2, 3),
    "a mask that fits": (0, -1e4, 0, -1e4),
    "numbers": (1, 0.1, 2, 3),
}


def _product(w: str, made: str = "y") -> list[onnx.NodeProto]:
    """Nodes that multiply the ones of `x` by `w`; the MatMul is always converted."""
    return [
        helper.make_node("MatMul", ["x", "m"], [f"h_{made}"], name=f"matmul_{made}"),
        helper.make_node("Mul", [f"h_{made}", w], [made], name=f"mul_{made}"),
    ]


def _value(name: str, dtype: int = TensorProto.FLOAT, shape: tuple[int, ...] = (4,)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _model(nodes: list[onnx.NodeProto], *inputs: onnx.ValueInfoProto, **given: Any) -> onnx.ModelProto:
    weights = [numpy_helper.from_array(np.eye(4, dtype=np.float32), "m"), *given.pop("weights", ())]
    sparse = given.pop("sparse", ())
    graph = helper.make_graph(nodes, "g", [_value("x"), *inputs], [_value("y")], weights, sparse_initializer=sparse)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, **given)


def _tensor(w: Array, name: str = "w") -> onnx.TensorProto:
    return numpy_helper.from_array(w, name)


def _constant(**value: Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], ["w"], **value)


def _sparse(w: Array) -> onnx.SparseTensorProto:
    (places,) = np.nonzero(w)
    return helper.make_sparse_tensor(_tensor(w[places]), numpy_helper.from_array(places.astype(np.int64), "i"), [4])


def _function(nodes: list[onnx.NodeProto], inputs: list[str]) -> onnx.FunctionProto:
    return helper.make_function("local", "F", inputs, ["y"], nodes, [helper.make_opsetid("", 17)])


def _branches(nodes: Callable[[str], list[onnx.NodeProto]], weights: Callable[[str], Any], made: str = "y") -> Any:
    graphs = (helper.make_graph(nodes(each), each, [], [_value(each)], weights(each)) for each in ("p", "q"))
    names = ("then_branch", "else_branch")
    return helper.make_node("If", ["c"], [made], name="if", **dict(zip(names, graphs, strict=True)))


def _filled(w: Array) -> list[onnx.NodeProto]:
    shape = helper.make_node("Constant", [], ["s"], value_ints=[4])
    return [shape, helper.make_node("ConstantOfShape", ["s"], ["w"], name="filled", value=_tensor(w[1:2]))]


def _loop(w: Array) -> onnx.ModelProto:
    body = helper.make_graph(
        [helper.make_node("Identity", ["more"], ["again"]), helper.make_node("Identity", ["held"], ["next"])],
        "body",
        [_value("i", TensorProto.INT64, ()), _value("more", TensorProto.BOOL, ()), _value("held")],
        [_value("again", TensorProto.BOOL, ()), _value("next")],
    )
    count = numpy_helper.from_array(np.asarray(2, np.int64), "n")
    loop = helper.make_node("Loop", ["n", "", "w"], ["l"], name="loop", body=body)
    return _model([loop, *_product("l")], weights=[count, _tensor(w)])


CONDITION = _value("c", TensorProto.BOOL, ())
HOLDERS: dict[str, Callable[[Array], onnx.ModelProto]] = {
    "initializer": lambda w: _model(_product("w"), weights=[_tensor(w)]),
    "default of an input": lambda w: _model(_product("w"), _value("w"), weights=[_tensor(w)]),
    "value": lambda w: _model([_constant(value=_tensor(w)), *_product("w")]),
    "value_floats": lambda w: _model([_constant(value_floats=w.tolist()), *_product("w")]),
    "value_float": lambda w: _model([_constant(value_float=float(w[1])), *_product("w")]),
    "sparse_value": lambda w: _model([_constant(sparse_value=_sparse(w)), *_product("w")]),
    "sparse initializer": lambda w: _model(_product("w"), sparse=[_sparse(w)]),
    "filling": lambda w: _model([*_filled(w), *_product("w")]),
    "moved": lambda w: _model(
        [helper.make_node("Concat", ["w", "w"], ["v"], axis=0), helper.make_node("Split", ["v"], ["a", "b"]),
         *_product("b")], weights=[_tensor(w)],
    ),
    "subgraph": lambda w: _model(
        [_branches(lambda each: _product(f"w_{each}", each), lambda each: [_tensor(w, f"w_{each}")])], CONDITION
    ),
    "captured": lambda w: _model(
        [_branches(lambda each: _product("w", each), lambda _: [])], CONDITION, weights=[_tensor(w)]
    ),
    "result of a branch": lambda w: _model(
        [_branches(lambda each: [helper.make_node("Identity", ["w"], [each])], lambda _: [], "v"), *_product("v")],
        CONDITION, weights=[_tensor(w)],
    ),
    "state of a loop": _loop,
    "function": lambda w: _model(
        [helper.make_node("F", ["x", "m"], ["y"], domain="local", name="call")],
        functions=[_function([_constant(value=_tensor(w)), *_product("w")], ["x", "m"])],
    ),
    "argument of a call": lambda w: _model(
        [helper.make_node("F", ["x", "m", "w"], ["y"], domain="local", name="call")],
        weights=[_tensor(w)], functions=[_function(_product("w"), ["x", "m", "w"])],
    ),
    "result of a call": lambda w: _model(
        [helper.make_node("F", ["x"], ["v"], domain="local", name="call"), *_product("v")],
        functions=[_function([_constant(value=_tensor(w)), helper.make_node("Identity", ["w"], ["y"])], ["x"])],
    ),
}  # fmt: skip


def is_kept(w: Array, *, masks: bool) -> bool:
    """True if the constant stays in float; masks: mask values are lowered instead."""
    with np.errstate(over="ignore"):
        half = w.astype(np.float16)
    masked, overflow = is_mask(w), np.isfinite(w) & np.isinf(half)
    if masked.any() and not (overflow & ~masked).any() and np.isin(w[~masked], (0, 1)).all():
        return not masks
    return bool(overflow.any() or ((w != 0) & (np.abs(half) < 2.0**-14)).mean() > 0.5)


def is_mask(w: Array) -> Array:
    return w <= -1e5


def lowered(w: Array) -> Array:
    """The constant in float16, with mask values as its lowest number."""
    with np.errstate(over="ignore"):
        return np.where(is_mask(w), np.float16(-65504), w.astype(np.float16))


@pytest.mark.parametrize(
    ("holder", "content"), sampled("unfit constants", product(HOLDERS, CONTENTS), 120, cover=enumerate)
)
def test_no_constant_overflows_or_vanishes_unsaid(holder: str, content: str) -> None:
    w = np.asarray(CONTENTS[content], np.float32)
    scalar = holder in ("value_float", "filling")
    given = w[1:2] if scalar else w[w != 0] if holder.startswith("sparse") else w
    can_change = holder == "default of an input"  # a caller may give another, so that it is cast when the model runs
    result = convert(HOLDERS[holder](w), to="float16", lower="name:mul_y" if can_change else ())
    feeds = {"x": np.ones(4, np.float32), "c": np.asarray(True)}
    runs = session(to_proto(result.model))
    made = np.asarray(
        runs.run(None, {port.name: feeds[port.name] for port in runs.get_inputs() if port.name in feeds})[0]
    )
    kept = is_kept(given, masks=not can_change)
    whole = np.broadcast_to(given, 4) if scalar else w
    if kept or not can_change:  # the runtime removes the cast to float16 of an input, since it has no such Mul
        assert made.tolist() == (whole if kept else lowered(whole)).tolist()
    changed = [rewrite.reason for rewrite in result.rewrites if " become" in rewrite.reason]
    left = [refusal.reason for refusal in result.refusals if refusal.site.op == "Mul"]
    few = (np.abs(lowered(given)) < 2.0**-14) & (given != 0)
    assert bool(left) == kept
    assert bool(changed) == (not kept and not can_change and bool(few.any() or is_mask(given).any()))


@pytest.mark.parametrize("to", ["float", "float16"])
def test_constants_in_attributes_keep_the_operands_in_their_type(to: str) -> None:
    kind = np.float64
    tree: dict[str, Any] = {
        **{f"nodes_{name}": [0, 0, 0] for name in ("treeids", "missing_value_tracks_true")},
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "nodes_values_as_tensor": numpy_helper.from_array(np.array([0.1, 0, 0], kind)),
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights_as_tensor": numpy_helper.from_array(np.array([1.5, 2.5], kind)),
        "n_targets": 1,
    }
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"]),
        helper.make_node("TreeEnsembleRegressor", ["square"], ["y"], domain="ai.onnx.ml", **tree),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.DOUBLE, [2, 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 1])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets, ir_version=9)
    feeds = {"x": np.array([[0.1], [1.0]])}
    given: Any = session(model).run(None, feeds)[0]
    made = to_proto(convert(model, to=to, target="tensorrt-11").model)
    found: Any = session(made).run(None, feeds)[0]
    assert np.array_equal(found, given)


@pytest.mark.parametrize(
    "back", ["next = Identity (big)", "a, b = Split <axis = 0> (big) next = Concat <axis = 0> (b, a)"]
)
@pytest.mark.parametrize(("size", "dtype"), [(1e6, "FLOAT"), (1e3, "FLOAT16")])
def test_a_constant_that_a_loop_passes_back_counts_where_the_body_reads_it(back: str, size: float, dtype: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[4,4] x) => (float[4,4] y) <int64 n = {{2}}> {{
      last, y = Loop <body = body (int64 i, bool more, float[4,4] held, float[4,4] old)
                   => (bool again, float[4,4] next, float[4,4] made) {{
        again = Identity (more) made = MatMul (held, m) {back}
      }}> (n, , x, x)
    }}"""
    model = onnx.parser.parse_model(text)
    arrays = {"m": np.eye(4, dtype=np.float32), "big": np.full((4, 4), size, np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    result = convert(model, to="float16")
    assert result.precisions["made"][0].name == dtype
    made = np.asarray(session(to_proto(result.model)).run(None, {"x": np.ones((4, 4), np.float32)})[0])
    assert made.tolist() == arrays["big"].tolist()
