"""A hint of `check` helps on the model that it is about: whoever makes the call that it names is rid of the finding."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import onnx
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith import Diagnostic, PromotionRules
from castsmith.ir.records import Severity, Site
from castsmith.lowering.check import tried
from tests.sampling import check_all

_CALL = re.compile(r"`(optimize\([^`]*\))`")
_NO_HELP = ("does not help", "stops at another error")
MIXED = "g (float[2] x, {0}[2] z) => (float[2] y) {{ y = Add (x, z) }}"


def _model(text: str, opset: int = 21) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {text}')


def _made(hint: str, model: onnx_ir.Model | onnx.ModelProto) -> onnx_ir.Model | None:
    """Return what the call that a hint names makes of the model; None for a hint without one."""
    if any(words in hint for words in _NO_HELP):
        return None
    if hint.startswith("`fold_disputed` "):
        return castsmith.optimize(model, fold_disputed=True).model
    call = _CALL.match(hint)
    if call is not None:
        names = {"optimize": castsmith.optimize, "PromotionRules": PromotionRules}
        return eval(call[1].replace("optimize(", "optimize(model, "), {**names, "model": model}).model
    return castsmith.optimize(model).model if hint.startswith("optimize ") else None


def _kinds(found: list[Diagnostic]) -> Counter[tuple[str, str]]:
    return Counter((each.code, each.site.op) for each in found)


def _models() -> Iterator[tuple[str, onnx.ModelProto, str | None]]:
    for kind in ("int8", "int64", "double", "string", "float16", "bool"):
        yield f"float and {kind}", _model(MIXED.format(kind)), None
        yield f"float and {kind} in a target", _model(MIXED.format(kind)), "onnxruntime-cpu"
    for text in (
        "g (bfloat16[2,2] x) => (bfloat16[2,2] y) { y = MatMul (x, x) }",
        "g (double[2] x) => (double[2] y) { y = Neg (x) }",
        "g (uint8[2] x, float s) => (float[2] y) { y = DequantizeLinear (x, s) }",
        "g (float[2] x) => (int4[2] y) { y = Cast <to = 22> (x) }",
        "g (string[2] x) => (string[2] y) { y = Identity (x) }",
        "g (float[2] x) => (int32[2] y) { y = Neg (x) }",
        "g (float8e4m3fn[2] x) => (float[2] y) { y = Cast <to = 1> (x) }",
        "g (float[2] x, int64[2] z, bfloat16[2,2] w) => (float[2] y, bfloat16[2,2] v)"
        " { y = Add (x, z) v = MatMul (w, w) }",
    ):
        for target in (None, "onnxruntime-cpu", "tensorrt-11", "openvino-cpu"):
            yield f"{text} in {target}", _model(text), target
    disputed = "g () => (float8e4m3fnuz[1] y) <float[1] w = {inf}> { y = Cast <to = 18> (w) }"
    yield "a disputed constant", _model(disputed), None


_MODELS = {name: (model, target) for name, model, target in _models()}


@cache
def _found(name: str) -> list[Diagnostic]:
    model, target = _MODELS[name]
    return castsmith.check(model, target=target)


def _check_hints(name: str) -> None:
    model, target = _MODELS[name]
    for finding in _found(name):
        made = _made(finding.help, model)
        if made is not None:
            left = castsmith.check(made, target=target)
            assert (finding.code, finding.site.op) not in _kinds(left), f"{finding.message}: {finding.help}"


def test_whoever_follows_a_hint_is_rid_of_the_finding() -> None:
    check_all(_check_hints, _MODELS)


def test_each_call_that_a_hint_names_was_made() -> None:
    """No condition is left in a hint: the call helps, or the hint says that it does not, and what else there is."""
    hints = [each.help for name in _MODELS for each in _found(name)]
    called = [hint for hint in hints if "optimize" in hint]
    assert len(called) > 15
    assert not any(" if " in hint for hint in called)
    assert {words for words in _NO_HELP for hint in called if words in hint} == set(_NO_HELP)
    assert any("replaces it" in hint for hint in called)


def test_what_does_not_help_says_what_else_to_try() -> None:
    (finding,) = castsmith.check(_model("g (double[2] x) => (double[2] y) { y = Neg (x) }"), target="tensorrt-11")
    assert (
        finding.help
        == "`optimize(target='tensorrt-11')` does not help; `fit(target='tensorrt-11')` tries all other ways"
    )
    foreign = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> g (float[2] x) => (float[2] y)'
        " { y = com.microsoft.QuickGelu (x) }"
    )
    (finding,) = castsmith.check(foreign, target="tensorrt-11")
    assert finding.help == "export without the optimizer of ONNX Runtime"


def test_a_large_model_keeps_the_general_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tried, "_MOST_NODES", 0)
    model = _model("g (bfloat16[2,2] x) => (bfloat16[2,2] y) { y = MatMul (x, x) }")
    (finding,) = castsmith.check(model, target="onnxruntime-cpu")
    assert finding.help == "`optimize(target='onnxruntime-cpu')` replaces it if there is an exact replacement"


BOTH = """g (float[2] x, int64[2] z, bfloat16[2,2] w) => (float[2] y, bfloat16[2,2] v) {
    y = Add (x, z) v = MatMul (w, w) }"""
BITS = "int64 with float could lose precision: a safe promotion to floating point needs twice the integer's bits"
SAFER = f"`optimize(promote_unsafe=True)` makes them float; {BITS}"
CPU, PHONE = "`optimize(target='onnxruntime-cpu')`", "`optimize(target='onnxruntime-android')`"
WORDS: list[tuple[str, str | None, str | None, list[str]]] = [
    (MIXED.format("int64"), None, None, [SAFER]),
    (MIXED.format("int64"), None, "torch", ["optimize makes them float"]),
    (BOTH, "onnxruntime-cpu", None,
     [SAFER, f"{CPU} stops at another error: g: y (Add): operands x (float, an input) and z (int64, an input): {BITS}"
             " (`promote_unsafe` allows it) [rule precision]"]),
    (BOTH, "onnxruntime-cpu", "torch", ["optimize makes them float", f"{CPU} replaces it"]),
    ("g (float[2] x, string[2] z, float16[2] w) => (float[2] y, float[2] v) { y = Add (x, z) v = Add (x, w) }", None,
     None, ["string with float have no common type",
      "optimize stops at another error: g: y (Add): operands x (float, an input) and z (string, an input): string with"
      " float have no common type [rule kind]"]),
    ("g () => (float8e4m3fnuz[1] y) <float[1] w = {inf}> { y = Cast <to = 18> (w) }", None, None,
     ["`fold_disputed` folds it by the schema's own table"]),
    ("g (float[2] x) => (int32[2] y) { y = Neg (x) }", None, None, ["optimize corrects the declaration"]),
    ("g (float8e4m3fn[2] x) => (float8e4m3fn[2] y) { y = Transpose (x) }", "onnxruntime-android", None,
     [f"{PHONE} replaces it"]),
    ("g (float[2] x) => (float16[2] y) { [n] a = Relu (x) [n] y = Cast <to = 10, saturate = 0> (a) }",
     "onnxruntime-cpu", None, [f"{CPU} gives each a name of its own", f"{CPU} removes it"]),
]  # fmt: skip


def _check_words(text: str, target: str | None, promotion: str | None, hints: list[str]) -> None:
    found = castsmith.check(_model(text), target=target, promotion=promotion)
    assert [each.help for each in found] == hints


def test_a_hint_after_it_was_tried_word_for_word() -> None:
    check_all(_check_words, WORDS)


def _finding(output: str = "y", subject: str = "", **site_of: str) -> Diagnostic:
    site = Site(**{"graph": "g", "op": "Add", "output": output} | site_of)
    return Diagnostic("c", Severity.ERROR, site, "m", "optimize does it if it can", subject)


def test_what_a_call_left_is_recognized() -> None:
    """By its subject, or its place; under another name, by its operator."""
    model = onnx_ir.from_proto(_model("g (float[2] x) => (float[2] y) { y = Add (x, x) }"))

    def hint(finding: Diagnostic, after: list[Diagnostic]) -> str:
        (told,) = tried.with_tried_hints(model, [finding], PromotionRules(), None, lambda _: after)
        return told.help

    left = "optimize does not help"
    assert hint(_finding(), []) == "optimize does it"
    assert hint(_finding(), [_finding()]) == left
    assert hint(_finding(), [_finding(output="z")]) == left
    assert hint(_finding(), [replace(_finding(), code="d")]) == "optimize does it"
    assert hint(_finding(), [replace(_finding(), site=Site("g", "", "Mul", "z"))]) == "optimize does it"
    assert hint(_finding(subject="s"), [replace(_finding(subject="s"), site=Site("g"))]) == left
    assert hint(_finding(subject="s"), [replace(_finding(subject="t"), site=Site("g"))]) == "optimize does it"


PAIRS = {
    "output": (_finding("y"), _finding("z")),
    "node": (_finding(node="a"), _finding(node="b")),
    "graph": (_finding(), _finding(graph="h")),
    "operator": (_finding(), _finding(op="Mul")),
    "subject": (_finding(subject="s"), _finding(subject="t")),
}


def _check_left(left: int, pair: tuple[Diagnostic, Diagnostic]) -> None:
    model = onnx_ir.from_proto(_model("g (float[2] x) => (float[2] y) { y = Add (x, x) }"))
    told = tried.with_tried_hints(model, [*pair], PromotionRules(), None, lambda _: [pair[left]])
    assert [each.help == "optimize does not help" for each in told] == [left == 0, left == 1]


def test_of_two_findings_the_one_that_is_left_is_told_by_its_place() -> None:
    check_all(_check_left, [(left, pair) for left in (0, 1) for pair in PAIRS.values()])
