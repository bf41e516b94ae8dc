"""`check` finds no error in what `optimize` gives for a target but those that `optimize` reported.

`python -m tests.lowering.test_reported` asks of every golden and every node test, for every target.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import onnx_ir
import pytest

import castsmith
from castsmith.lowering.check.run import findings
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.targets.target import load_target, target_names
from tests.cli.codes_in_source import undescribed
from tests.graphs.backend import node_cases
from tests.graphs.golden import read
from tests.sampling import SEED, check_all, sampled

RULES = PromotionRules(promote_unsafe=True)
GOLDENS = sorted((Path(__file__).parents[1] / "passes" / "golden").glob("*/*.onnxtxt"))


def unreported(model: onnx_ir.Model, target: str | None) -> list[str]:
    """The errors of `check` that `optimize` did not report, and the records that no page describes."""
    result = castsmith.optimize(model, target=target, promotion=RULES)
    reported = {(finding.code, finding.site) for finding in result.diagnostics}
    all_findings = findings(result.model, RULES, None if target is None else load_target(target))
    errors = [
        f"{each.code} {each.site}: {each.message}"
        for each in all_findings
        if each.severity is castsmith.Severity.ERROR and (each.code, each.site) not in reported
    ]
    return errors + undescribed((*result.rewrites, *result.refusals))


@pytest.mark.parametrize("inputs", ["x", "x, one, one, one, one, one", "x, one, one, one, one"])
@pytest.mark.parametrize("mode", ["FLOOR", "SIDEWAYS"])
@pytest.mark.parametrize("target", [None, "onnxruntime-cpu"])
def test_a_malformed_trunc_is_reported(inputs: str, mode: str, target: str | None) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 13, "qonnx.custom_op.general": 1]>
        g (float[2] x) => (float[2] y) <float one = {{1}}> {{
            y = qonnx.custom_op.general.Trunc <rounding_mode = "{mode}"> ({inputs}) }}"""
    assert unreported(onnx_ir.from_onnx_text(text), target) == []


def goldens() -> Iterator[tuple[str, onnx_ir.Model]]:
    for path in GOLDENS:
        yield f"{path.parent.name}/{path.stem}", read(path).model()


def node_tests() -> Iterator[tuple[str, onnx_ir.Model]]:
    for name, case in sorted(node_cases("").items()):
        if case.model is not None:
            yield name, onnx_ir.from_proto(case.model)


def for_some_target(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return each name with one target, which is another one with another seed."""
    targets = target_names()
    return [(name, targets[(index + int(SEED)) % len(targets)]) for index, name in enumerate(names)]


def require_reported(models: dict[str, onnx_ir.Model], name: str, target: str) -> None:
    assert not unreported(models[name], target)


def test_goldens() -> None:
    models = dict(goldens())
    check_all(partial(require_reported, models), sampled("golden cases for targets", for_some_target(models), 240))


def test_node_tests() -> None:
    models = dict(node_tests())
    cases = sampled("node tests for targets", for_some_target(models), 30)
    check_all(partial(require_reported, models), cases)


@pytest.mark.parametrize(
    ("body", "target", "lacking"),
    [
        ("g (string[2] x) => (string[2] y) { y = Identity (x) }", "tensorrt-10", ["string"]),
        ("g (complex64[2] x) => (complex64[2] y) { y = Identity (x) }", "openvino-cpu", ["complex64"]),
        (
            "g (string[2] x) => (bfloat16[2] y) { y = Cast <to = 16> (x) }",
            "openvino-npu",
            ["bfloat16", "string"],
        ),
    ],
)
def test_a_type_that_stays_is_one_finding(body: str, target: str, lacking: list[str]) -> None:
    """The fix is not the command that has just ended."""
    model = onnx_ir.from_onnx_text(f'<ir_version: 8, opset_import: ["": 16]> {body}')
    errors = [e for e in castsmith.optimize(model, target=target).diagnostics if e.severity is castsmith.Severity.ERROR]
    assert [each.code for each in errors] == ["target-lacks-type"] * len(lacking)
    for name, error in zip(lacking, errors, strict=True):
        assert f"has no {name}, " in error.message
    assert not [each for each in errors if "optimize" in (each.help or "")]


@pytest.mark.parametrize(("text", "target"), [
    ('<ir_version: 8, opset_import: ["": 17, "onnx.brevitas": 1]> g (float[2] x, float b) => (float[2] y) <float s={1}'
     ", float z = {0}, float w = {8}> { y = onnx.brevitas.Trunc (x, s, z, w, b) }", "onnxruntime-cpu"),
    ('<ir_version: 8, opset_import: ["": 17, "onnx.brevitas": 1]> g (float[2] x) => (float[2] y) <float s = {1}>'
     " { y = onnx.brevitas.Trunc (x, s) }", "tensorrt-10"),
    *((f'<ir_version: 8, opset_import: ["": {opset}]> g (float[2] x) => (y) {{ y = Cast <to = {to}> (x) }}', target)
      for opset, to, target in ((8, 16, None), (12, 16, None), (18, 17, None), (20, 22, None), (8, 16, "tensorrt-10"),
                                (12, 16, "tensorrt-11"), (8, 16, "qonnx"))),
])  # fmt: skip
def test_what_stays_is_an_error(text: str, target: str | None) -> None:
    model = onnx_ir.from_onnx_text(text)
    result = castsmith.optimize(model, target=target)
    assert [finding.code for finding in result.diagnostics if finding.severity is castsmith.Severity.ERROR]
    assert not unreported(model, target)


def main() -> int:
    count, wrong = 0, 0
    for name, model in (*goldens(), *node_tests()):
        for target in target_names():
            count += 1
            for line in unreported(model, target):
                wrong += 1
                print(f"{name} for {target}: {line}", flush=True)
    print(f"{count} models lowered, {wrong} unreported errors")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
