"""Rewrites lower the measure of `castsmith.passes.core.cost`: a run ends, and a second one finds nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.constants import constant_tensor
from castsmith.ir.io.loading import as_model
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import CASTS
from castsmith.ir.walks import all_nodes
from castsmith.lowering import pipeline
from castsmith.lowering.registry import make_pass
from castsmith.numerics.types import parse_type
from castsmith.passes.core.cost import ON_EITHER, Legality
from castsmith.passes.core.options import PASS_OPTIONS, Options, narrowed_types
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.session import Session
from tests.sampling import check_all, sampled
from tests.soak.idempotence import EXTRAS, random_models, second_run

_UNSAFE = castsmith.PromotionRules(promote_unsafe=True)


class Measure(NamedTuple):
    """Lines 2 to 5 of `castsmith.passes.core.cost`, compared from left to right."""

    wide: int
    casts: int
    nodes: int
    not_identities: int
    computed: int
    behind_casts: int
    operands: int


def measure(model: onnx_ir.Model, inference: Inference, narrowed: Sequence[DataType]) -> Measure:
    wide = casts = nodes = not_identities = computed = behind_casts = operands = 0
    for node in all_nodes(model):
        inputs = [value for value in node.inputs if value is not None]
        nodes += 1
        not_identities += node.op_type != "Identity"
        casts += _is_cast(node)
        operands += len(inputs)
        not_constant = [value for value in inputs if constant_tensor(value) is None]
        computed += len(not_constant)
        behind_casts += sum(map(_casts_before, not_constant))
        if node.op_type not in ON_EITHER and inputs:
            wide += sum(inference.type_of(value) in narrowed for value in (*inputs, *node.outputs))
    return Measure(wide, casts, nodes, not_identities, computed, behind_casts, operands)


def _casts_before(value: onnx_ir.Value) -> int:
    count, node = 0, value.producer()
    while node is not None and _is_cast(node) and node.inputs[0] is not None:
        count, node = count + 1, node.inputs[0].producer()
    return count


def _is_cast(node: onnx_ir.Node) -> bool:
    return node.op_type in CASTS and node.domain in DEFAULT_DOMAINS


_UP_TO_LINE_1 = ("insert-promote-types", "resolve-promote-types")
_MEASURED = ("fold-shapes", "fold-constants", "simplify-casts", "place-casts", "simplify-casts")


def _check_measure(seed: int, narrow: tuple[str, ...]) -> None:
    ((_, proto),) = random_models(seed, seed + 1)
    session = Session(as_model(proto), in_order=True)
    narrowed, options = narrowed_types("narrow", narrow), Options(narrow=narrow)
    settings = {**asdict(_UNSAFE), **{name: getattr(options, name) for name in PASS_OPTIONS}, "target": None}

    def run(name: str) -> bool:
        step = make_pass(name, settings)
        assert isinstance(step, SessionPass)
        result = step.run(session)
        session.record(result.records)
        return result.modified

    try:
        for name in _UP_TO_LINE_1:
            run(name)
        for name in (*(("narrow-types",) if narrow else ()), *_MEASURED * 2):
            before = measure(session.model, session.inference(_UNSAFE), narrowed)
            if run(name):
                after = measure(session.model, session.inference(_UNSAFE), narrowed)
                assert after < before, f"{name}: {before} -> {after}"
    except castsmith.PromotionError:
        return  # some operands have no common type


def test_each_pass_lowers_the_measure() -> None:
    cases = [(seed, narrow) for seed in range(600) for narrow in ((), ("int64", "double"))]
    check_all(_check_measure, sampled("measured passes", cases, 12))


TAKEN = [
    ("Gather", 0, "int8", None, (), True),
    ("Gather", 1, "int8", None, (), False),
    ("Gather", 1, "int32", None, (), True),
    ("Expand", 0, "bfloat16", None, (), False),
    ("Expand", 0, "bfloat16", "openvino-cpu", (), True),
    ("Add", 0, "int64", None, ("int64",), False),
    ("Add", 0, "int64", None, ("double",), True),
    *((operator, 0, "int64", None, ("int64",), True) for operator in ("Identity", "Shape", "Cast")),
]


def require_taken(
    operator: str, index: int, dtype: str, target: str | None, narrowed: tuple[str, ...], taken: bool
) -> None:
    node = onnx_ir.node(operator, [onnx_ir.Value(name=name) for name in "ab"])
    runtime = None if target is None else castsmith.load_target(target)
    legality = Legality(runtime, narrowed_types("narrow", narrowed))
    assert legality.takes(node, index, parse_type(dtype), {"": 21}) is taken


def test_the_types_that_a_node_may_be_given() -> None:
    check_all(require_taken, TAKEN)


# Pairs of passes that undid each other: by options, the model.
_UNDONE: Sequence[tuple[Mapping[str, Any], str]] = (
    (
        {},
        """agraph (int16[3] a) => (uint8[3] s_out) <uint8[3] v = {0, 1, 1}> {
            n = Constant <value = int64 {2}> ()
            s_out = Loop (n, "", v) <body = body (int64 i, bool c, uint8[3] s) => (bool c_out, uint8[3] t) {
                b = Cast <to = 9> (s)
                t = Cast <to = 2> (b)
                c_out = Identity (c)
            }>
        }""",
    ),
    (
        {"narrow": "double"},
        """agraph (bool[3] c, double[3] x) => (double[3] y) <double a = {2}, double b = {1}> {
            w = Where (c, a, b)
            y = Div (x, w)
        }""",
    ),
    (
        {"target": "onnx2torch"},
        """agraph (bool[3] x) => (float[3] f, bfloat16[3] b) {
            f = Cast <to = 1> (x)
            b = Cast <to = 16> (x)
        }""",
    ),
)


@pytest.mark.parametrize(("options", "text"), _UNDONE)
def test_no_pass_undoes_another(options: Mapping[str, Any], text: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    assert not second_run(model, options)


def _check_settled(seed: int, setting: str) -> None:
    for _, model in random_models(seed, seed + 1):
        assert not second_run(model, EXTRAS[setting])


def test_a_second_run_changes_nothing() -> None:
    cases = [(seed, setting) for seed in range(600) for setting in EXTRAS]
    check_all(_check_settled, sampled("optimized twice", cases, 1, cover=lambda case: case[1:]))


def test_a_run_that_reaches_its_limit_of_rounds_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> agraph (int32[2] x) => (int32[2] y) {
            a = Cast <to = 7> (x)
            y = Cast <to = 6> (a)
        }"""
    )
    assert not castsmith.optimize(model).diagnostics
    monkeypatch.setattr(pipeline, "_MOST_ROUNDS", 1)
    (told,) = castsmith.optimize(model).diagnostics
    assert told.code == "unsettled"
    assert told.message == "the passes still change the model after 1 rounds"
