"""castsmith.check: the findings of a model as data, and the same findings as the command prints them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.ir.errors import OpsetError
from castsmith.lowering.check.run import all_findings, findings_by_target
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.targets.target import load_target, target_names
from tests.cli.helpers import CLEAN, MIXED, UNSAFE, Command, write_model
from tests.house import trees
from tests.sampling import sampled

ROOT = Path(__file__).parents[3]
TARGET = "onnxruntime-android"

FLOAT8 = """<ir_version: 10, opset_import: ["" : 21]>
float8 (float[N] x) => (float[N] z) {
    a = Cast <to = 17> (x)
    z = Cast <to = 1> (a)
}"""
TOO_NEW = FLOAT8.replace("21", "25").replace("ir_version: 10", "ir_version: 13")
DISPUTED = """<ir_version: 10, opset_import: ["" : 21]>
constant () => (float8e4m3fnuz[1] z) <float[1] w = {inf}> {
    z = Cast <to = 18> (w)
}"""
BFLOAT16 = """<ir_version: 10, opset_import: ["" : 21]>
brain (bfloat16[2, 2] x) => (bfloat16[2, 2] z) {
    z = MatMul (x, x)
}"""
QUANTIZER = """<ir_version: 10, opset_import: ["" : 21, "qonnx.custom_op.general" : 1]>
quantized (float[N] x) => (float[N] z) <float s = {0.5}, float zero = {0.0}, float bits = {4.0}> {
    z = qonnx.custom_op.general.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, s, zero, bits)
}"""
MODELS = (CLEAN, MIXED, UNSAFE, FLOAT8, TOO_NEW, DISPUTED, BFLOAT16, QUANTIZER)


def fields(found: list[castsmith.Diagnostic]) -> list[tuple[str, castsmith.Severity, castsmith.Site, str, str]]:
    return [(each.code, each.severity, each.site, each.message, each.help) for each in found]


def test_a_clean_model_has_no_finding(tmp_path: Path) -> None:
    assert castsmith.check(write_model(tmp_path / "m.onnx", CLEAN)) == []


def test_a_path_a_proto_and_a_model_give_the_same(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.onnx", FLOAT8)
    proto = onnx.load_model(path)
    model = castsmith.load(path)
    forms = (path, str(path), proto, onnx_ir.from_proto(proto), model)
    found = [fields(castsmith.check(form, target=TARGET)) for form in forms]
    assert found[0]
    assert all(each == found[0] for each in found)
    file = str(ROOT / "targets/data" / f"{TARGET}.json")
    for target in (load_target(TARGET), file):
        again = fields(castsmith.check(path, target=target))
        assert [[str(field).replace(file, TARGET) for field in each] for each in again] == [
            [*map(str, each)] for each in found[0]
        ]


@pytest.mark.parametrize("text", MODELS)
def test_check_leaves_the_model_as_it_is(text: str) -> None:
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    before = onnx_ir.to_proto(model).SerializeToString()
    first = fields(castsmith.check(model, target=TARGET))
    assert onnx_ir.to_proto(model).SerializeToString() == before
    assert fields(castsmith.check(model, target=TARGET)) == first


def test_a_finding_has_a_severity_a_place_and_a_way_out_as_fields() -> None:
    (found,) = castsmith.check(onnx.parser.parse_model(UNSAFE))
    assert (found.code, found.severity) == ("mixed-operand-types", castsmith.Severity.ERROR)
    assert (found.site.graph, found.site.op) == ("mixed", "Add")
    assert found.help.startswith("`optimize(promote_unsafe=True)` makes them float")
    found = castsmith.check(onnx.parser.parse_model(FLOAT8), target=TARGET)
    (lacks,) = (each for each in found if each.code == "target-lacks-type")
    assert lacks.help == f"`optimize(target='{TARGET}')` replaces it"


@pytest.mark.parametrize("promotion", ["torch", castsmith.PromotionRules.preset("torch")])
def test_promotion_is_a_preset_or_rules(promotion: castsmith.PromotionRules | str) -> None:
    (found,) = castsmith.check(onnx.parser.parse_model(UNSAFE), promotion=promotion)
    assert found.help == "optimize makes them float"


@pytest.mark.parametrize("text", MODELS)
def test_a_way_out_is_python_that_runs(text: str) -> None:
    """The calls that help names exist, and what they name is accepted."""
    names = {name: getattr(castsmith, name) for name in castsmith.__all__}
    for target in (None, *sampled(f"targets of hints [{MODELS.index(text)}]", target_names(), 4)):
        model = onnx.parser.parse_model(text)
        found = castsmith.check(model, target=target)
        assert not any("--" in each.message + each.help for each in found)
        for code in {code for each in found for code in re.findall(r"`(optimize\([^`]*\))`", each.help)}:
            call = ast.parse(code, mode="eval").body
            assert isinstance(call, ast.Call)
            call.args.append(ast.Name("model", ast.Load()))
            compiled = compile(ast.fix_missing_locations(ast.Expression(call)), "help", "eval")
            try:
                result = eval(compiled, {**names, "model": model})
            except castsmith.PromotionError:
                continue  # what another finding of the model is about
            assert isinstance(result, castsmith.Result)


@pytest.mark.usefixtures("untried")
@pytest.mark.parametrize("text", MODELS)
def test_the_command_prints_the_findings_with_its_own_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    path = write_model(tmp_path / "m.onnx", text)
    for target in (None, "onnxruntime-cpu", TARGET, "tflite"):
        found = castsmith.check(path, target=target)
        options = [] if target is None else ["--target", target]
        printed = Command(capsys)("check", path, *options, "--json")
        data = json.loads(printed.out)["findings"]
        assert printed.code == any(f.severity is not castsmith.Severity.NOTE for f in found)
        assert [(d["code"], d["severity"]) for d in data] == [(f.code, f.severity.value) for f in found]
        assert all("optimize(" not in each["help"] and "`" not in each["help"] + each["message"] for each in data)
        expected = [f"optimize --target {target}" for f in found if "optimize(target=" in f.help]
        assert [each["help"][: len(expected[0])] for each in data if "--target" in each["help"]] == expected


WRONG = (3, None, bytearray(b"model.onnx"), [])


@pytest.mark.parametrize("model", WRONG)
def test_what_is_no_model_is_said(model: object) -> None:
    calls = (
        castsmith.check,
        castsmith.load,
        castsmith.optimize,
        lambda it: castsmith.diff(it, it),  # pyright: ignore[reportUnknownLambdaType]
        lambda it: castsmith.verify(it, it),  # pyright: ignore[reportUnknownLambdaType]
    )
    expected = r"a model must be a path, an onnx_ir\.Model, a ModelProto, its bytes or|load\(\) reads a file"
    for call in calls:
        with pytest.raises(castsmith.ArgumentTypeError, match=expected):
            call(model)  # pyright: ignore[reportArgumentType, reportCallIssue]


@pytest.mark.parametrize(
    "option", [{"target": 3}, {"target": b"qonnx"}, {"promotion": 3}, {"promotion": True}, {"strict_device": "x"}]
)
def test_an_option_of_another_type_is_said(option: dict[str, object]) -> None:
    with pytest.raises(castsmith.ArgumentTypeError):
        castsmith.check(onnx.parser.parse_model(CLEAN), **option)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("option", "error"), [({"target": "qonn"}, castsmith.TargetError), ({"promotion": "x"}, castsmith.PromotionError)]
)
def test_an_unknown_target_or_preset_is_said(option: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        castsmith.check(onnx.parser.parse_model(CLEAN), **option)  # pyright: ignore[reportArgumentType]


def test_a_cycle_is_a_model_error() -> None:
    model = onnx_ir.from_proto(onnx.parser.parse_model(CLEAN))
    (node, *_) = model.graph
    node.replace_input_with(0, node.outputs[0])
    with pytest.raises(castsmith.ModelError):
        castsmith.check(model)


def test_no_library_text_of_a_finding_or_pass_names_an_option_of_the_command() -> None:
    """Only the command line knows how its options are spelled, and the pages of codes, which only it prints."""
    option = re.compile(r"(?<![\w-])--[a-z]")
    named = [
        f"{name}:{text.lineno}"
        for name, tree in trees("--").items()
        if name.startswith(("lowering/", "passes/", "numerics/"))
        for text in _texts_outside_of_codes(tree)
        if option.search(text.value)
    ]
    assert named == []


def _texts_outside_of_codes(tree: ast.AST) -> Iterator[Any]:
    """Yield the constants that are texts, apart from those in the page of a code."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree
    is_page = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in _PAGES
    for child in () if is_page else ast.iter_child_nodes(tree):
        yield from _texts_outside_of_codes(child)


_PAGES = ("Rule", "NodeRule", "FindingCode", "RefusalCode")


SPLIT = "g (float[2] x) => (y, z) { y, z = Split <num_outputs = 3> (x) }"
GATHER = "g (float[2,2] x, int64[2,1] i) => (y) { y = GatherND <batch_dims = -1> (x, i) }"


@pytest.mark.usefixtures("untried")
@pytest.mark.parametrize("target", [None, "onnxruntime-cpu"])
def test_what_would_end_the_process_of_onnx_is_an_error(target: str | None) -> None:
    for text, op_type in ((SPLIT, "Split"), (GATHER, "GatherND")):
        found = castsmith.check(
            onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}'), target=target
        )
        message = f"{op_type} has an attribute that does not fit its outputs or the rank of its operand"
        way_out = "correct the model where it says so, or export it again"
        assert [(each.code, str(each.site), each.message, each.help) for each in found] == [
            ("invalid-model", f"g: y ({op_type})", message, way_out)
        ]


def test_a_function_of_a_newer_opset_than_any_is_an_error() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "local" : 1]> g (float[2] x) => (float[2] y) { y = local.f (x) }
        <domain: "local", opset_import: ["" : 99]> f (a) => (b) { b = Relu (a) }"""
    with pytest.raises(OpsetError, match="unsupported opset 99 of the model"):
        castsmith.check(onnx.parser.parse_model(text), target="onnxruntime-cpu")


BRANCHES = """<ir_version: 10, opset_import: ["" : 21]> g (bool c, string[2] s, float[2] x) => (y) { y = If (c) <
    then_branch = t () => (string[2] p) { p = Identity (s) }, else_branch = e () => (float[2] q) { q = Abs (x) }> }"""


@pytest.mark.usefixtures("untried")
@pytest.mark.parametrize("text", [BRANCHES, MIXED, FLOAT8, BFLOAT16, QUANTIZER, CLEAN, TOO_NEW])
def test_the_findings_of_many_targets_are_those_of_each(text: str) -> None:
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    targets = [load_target(name) for name in ("onnxruntime-cpu", TARGET, "openvino-cpu", "tensorrt-11")]
    each = {target.name: all_findings(model, PromotionRules(), target) for target in targets}
    assert findings_by_target(model, targets) == each
