"""A refusal names the operators of the user's file."""

from __future__ import annotations

import onnx

import castsmith
from castsmith.ir.records import Severity
from castsmith.targets.target import Target
from tests.lowering.fit.models import HEAD

NO_ERF = Target(
    "no-erf",
    newest_opset=22,
    newest_ir_version=10,
    types=["float", "int32", "int64", "uint8", "bool"],
    kernels={"float": {"Add": 7, "Relu": 6}},
    probed=["Add", "Relu", "Erf", "Gather", "GatherElements", "Clip", "Abs", "Max", "Where", "IsNaN", "Mul", "Div"],
)


def test_a_refusal_names_the_operators_of_the_file() -> None:
    text = f"{HEAD} g (float[2] x) => (float[2] y) {{ [mine] a = Erf (x) [mine_too] y = Relu (a) }}"
    result = castsmith.fit(onnx.parser.parse_model(text), target=NO_ERF, max_error=0.1)
    assert not result.plan
    assert [(finding.site.node, finding.message) for finding in result.diagnostics] == [
        ("mine", "no-erf has no Erf of float at opset 21")
    ]
    assert all(error.severity is Severity.ERROR for error in result.diagnostics)


def test_a_refusal_names_the_operator_from_which_a_lowered_one_comes() -> None:
    text = f"{HEAD} g (float[2] x) => (float[2] y) {{ [code] a = Cast <to = 17> (x) [mine] y = Cast <to = 1> (a) }}"
    result = castsmith.fit(onnx.parser.parse_model(text), target=NO_ERF)
    assert not result.plan
    assert {finding.site.node for finding in result.diagnostics} <= {"code", "mine"}
    assert all(error.message.endswith(", which Cast is lowered to") for error in result.diagnostics)


def test_an_operator_of_another_runtime_is_refused_and_one_of_the_users_own_is_not() -> None:
    for domain, is_refused in (("com.microsoft", True), ("mine", False)):
        text = f'{HEAD[:-2]}, "{domain}" : 1]> g (float[2] x) => (float[2] y) {{ [other] y = {domain}.QGemm (x) }}'
        result = castsmith.fit(onnx.parser.parse_model(text), target="openvino-cpu")
        assert bool(result.plan) != is_refused, domain
        assert {error.site.node for error in (result.diagnostics if is_refused else result.findings)} == {"other"}
