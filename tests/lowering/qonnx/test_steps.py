"""Trunc and Quant at every setting: the standard operators give the bits of the evaluator's own arithmetic."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.numerics.trunc import ROUNDING_MODES
from castsmith.targets.target import Target
from tests.evaluator import evaluate
from tests.sampling import sampled

pytestmark = pytest.mark.usefixtures("engines_here")

PLAIN = Target("t", "", newest_opset=23, newest_ir_version=11)
OWN = Target("t", "", newest_opset=23, newest_ir_version=11, domains=frozenset({"qonnx.custom_op.general"}))
X = np.array([-9.5, -3.0, -2.5, -0.75, -0.0, 0.25, 1.5, 2.5, 3.5, 100.0], np.float32)


def text_of(
    version: int,
    attributes: str,
    zero: str = "0",
    inputs: str = "x, s, z, i, q, o",
    more: str = "",
    imports: str = "",
    constants: str = "float s = {0.5}, float q = {2}, float i = {8}, float o = {4}",
) -> str:
    inputs = inputs if version == 2 else inputs.replace(" q,", "")
    imports = imports or f', "qonnx.custom_op.general" : {version}'
    return f"""<ir_version: 10, opset_import: ["" : 21{imports}]>
        g (float[10] x{more}) => (float[10] y) <{constants}, float z = {{{zero}}}> {{
            y = qonnx.custom_op.general.Trunc <{attributes}> ({inputs}) }}"""


def lowered(text: str, target: Target = PLAIN) -> castsmith.Result:
    return castsmith.optimize(onnx.parser.parse_model(text), target=target, passes=["lower-trunc", "lower-quant"])


@pytest.mark.parametrize(
    ("version", "mode"),
    sampled("versions and modes of Trunc", product([1, 2], sorted(ROUNDING_MODES)), 0, cover=enumerate),
)
def test_trunc_at_every_setting(version: int, mode: str) -> None:
    for signed, narrow, zero in product([0, 1], [0, 1], ["0", "-3"]):
        text = text_of(version, f'signed = {signed}, narrow = {narrow}, rounding_mode = "{mode}"', zero)
        before, result = onnx_ir.from_proto(onnx.parser.parse_model(text)), lowered(text)
        (rewrite,) = result.rewrites
        assert rewrite.reason == f"QONNX Trunc version {version}, {mode}, step by step in standard operators"
        assert (result.refusals, result.diagnostics) == ([], [])
        onnx.checker.check_model(onnx_ir.to_proto(result.model), full_check=True)
        (old,), (new,) = (evaluate(model, {"x": X}) for model in (before, result.model))
        assert old.tobytes() == new.tobytes(), (signed, narrow, zero)


NOT_CONSTANT = [
    (1, "x, s, z, b, q, o", "in_bitwidth must be constant"),
    (1, "x, s, z, i, q, b", "out_bitwidth must be constant"),
    (1, "x, s, z, b, q, b", "in_bitwidth and out_bitwidth must be constant"),
    (1, "x, b, z, i, q, o", ""),
    (1, "x, s, b, i, q, o", ""),
    (2, "x, b, z, i, q, o", "scale must be constant"),
    (2, "x, s, z, i, b, o", "out_scale must be constant"),
    (2, "x, s, z, i, q, b", "out_bitwidth must be constant"),
    (2, "x, b, z, i, b, b", "scale and out_scale and out_bitwidth must be constant"),
    (2, "x, s, z, b, q, o", ""),
    (2, "x, s, b, i, q, o", ""),
]


@pytest.mark.parametrize(("version", "inputs", "reason"), NOT_CONSTANT)
def test_parameters_that_are_not_constant(version: int, inputs: str, reason: str) -> None:
    text = text_of(version, 'rounding_mode = "FLOOR"', inputs=inputs, more=", float b")
    result = lowered(text)
    assert [each.reason for each in result.refusals] == ([reason] if reason else [])
    if not reason:
        feeds = {"x": X, "b": np.array(2, np.float32)}
        before = onnx_ir.from_proto(onnx.parser.parse_model(text))
        (old,), (new,) = (evaluate(model, feeds) for model in (before, result.model))
        assert old.tobytes() == new.tobytes()


def test_a_parameter_with_a_default_becomes_constant() -> None:
    text = text_of(1, 'rounding_mode = "FLOOR"', more=", float o, float z")
    result = lowered(text)
    assert [(each.rule, each.site.node, each.effect) for each in result.rewrites] == [
        ("lower-trunc", "", castsmith.Effect.BIT_EXACT),
        ("make-constant", "o", castsmith.Effect.INTERFACE),
        ("make-constant", "z", castsmith.Effect.INTERFACE),
    ]
    assert [value.name for value in result.model.graph.inputs] == ["x"]


@pytest.mark.parametrize("version", [1, 2])
def test_a_version_that_is_guessed_is_told_once(version: int) -> None:
    text = text_of(version, 'rounding_mode = "FLOOR"', imports=', "other" : 1')
    result = lowered(text)
    assert [(each.code, each.message, each.help) for each in result.diagnostics] == [
        (
            "trunc-version-guessed",
            f"qonnx.custom_op.general is not imported, so version {version} of Trunc is inferred from its inputs",
            "import the domain",
        )
    ]
    assert f"Trunc version {version}" in result.rewrites[0].reason
    assert lowered(text_of(version, 'rounding_mode = "FLOOR"')).diagnostics == []


@pytest.mark.parametrize(("attributes", "kept"), [("signed = 1, narrow = 0", True), ("signed = 1", False)])
def test_a_target_that_runs_the_operators_keeps_them(attributes: str, kept: bool) -> None:
    """One without a required attribute does not run there."""
    head = text_of(1, "").partition("y =")[0]
    quant = f"{head} y = qonnx.custom_op.general.Quant <{attributes}> (x, s, z, o) }}"
    assert bool(lowered(quant, OWN).rewrites) != kept
    assert lowered(quant).rewrites
