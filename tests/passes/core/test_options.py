"""Each option stands in one place: what Python, the passes and the command line take, and refuse, is the same."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest
from onnx_ir import DataType

from castsmith import OptionError, PromotionError, optimize
from castsmith.cli.arguments import add_options, given_options
from castsmith.cli.deprecated import RETIRED
from castsmith.cli.main import main
from castsmith.cli.usage.writing import OPTIONS as ON_COMMAND_LINE
from castsmith.lowering.encodings.choose import Encoding
from castsmith.lowering.narrow.facts import NARROWER
from castsmith.lowering.narrow.run import NarrowTypes
from castsmith.lowering.pipeline import rules_of
from castsmith.lowering.registry import PASSES, make_pass, option_names, pass_class
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.runtimes.dispatch import (
    _RUNTIMES as DONE,  # pyright: ignore[reportPrivateUsage]
    RUNTIMES,
)
from castsmith.numerics.types import type_name
from castsmith.passes import SimplifyCasts
from castsmith.passes.core import options
from castsmith.passes.core.options import PASS_OPTIONS, Options, option_info
from castsmith.targets.target import load_target
from castsmith.verification.evaluate.engines import ENGINES
from docs.docstrings import descriptions
from tests.sampling import check_all, complete_only

FIELDS = {each.name: each for each in dataclasses.fields(Options)}
MODEL = """<ir_version: 10, opset_import: ["": 21]>
agraph (float[2, 3] x, float[7] table) => (float[1] y) {
  n = Shape <start = 1, end = 2> (x)
  one = Constant <value = int64[1] {1}> ()
  s = Add (n, one)
  y = Gather (table, s)
}"""


def model() -> onnx.ModelProto:
    return onnx.parser.parse_model(MODEL)


def test_optimize_takes_each_option_with_its_type_and_default() -> None:
    parameters = dict(inspect.signature(optimize).parameters)
    del parameters["model"]
    assert list(parameters) == list(FIELDS)
    for name, parameter in parameters.items():
        assert parameter.default == FIELDS[name].default
        assert parameter.annotation == FIELDS[name].type


def test_the_command_line_is_built_without_heavy_imports() -> None:
    code = "import sys; from castsmith.cli.main import main; import contextlib, io\n"
    code += "with contextlib.redirect_stdout(io.StringIO()): main(['optimize', '--help'])\n"
    code += "sys.exit(', '.join({'numpy', 'onnx', 'onnx_ir'} & sys.modules.keys()))"
    assert not subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr.strip()


def test_the_documentation_describes_each_option() -> None:
    assert list(descriptions(Options.__doc__ or "")) == [*FIELDS, "OptionError"]


FACTS = {"bound", "rounding_losses", "reference", "found"}
"""What a conversion knows already when it makes a pass: no options."""


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_takes_over_an_option_as_it_is(name: str) -> None:
    rules = {each.name: each for each in dataclasses.fields(PromotionRules)}
    kind: Any = pass_class(name)
    for each in dataclasses.fields(kind):
        if each.name in PASS_OPTIONS and each.name not in ("target", "lowerings"):
            ours = FIELDS[each.name]
            assert (each.type, each.default, each.metadata) == (ours.type, ours.default, ours.metadata)
        elif each.name in rules:
            assert (each.type, each.default) == (rules[each.name].type, rules[each.name].default)
        elif each.name not in ("target", "lowerings", *FACTS):
            assert option_info(kind, each.name).help


def test_every_option_of_a_run_is_of_a_pass_or_listed_apart() -> None:
    taken = {each.name for name in PASSES for each in dataclasses.fields(pass_class(name))}  # pyright: ignore[reportArgumentType]
    assert set(PASS_OPTIONS) <= taken


def test_choices_are_what_the_code_knows() -> None:
    assert get_args(options.Encoding) == ("auto", *[each for each in get_args(options.Encoding) if each != "auto"])
    assert set(get_args(options.Encoding)) == {"auto", *(each.value for each in Encoding)}
    assert {*get_args(options.Narrowed)} == {type_name(dtype) for dtype in NARROWER}
    assert get_args(options.FoldAs) == ("", *RUNTIMES)
    assert tuple(DONE) == RUNTIMES
    assert option_info(Options, "verify").choices == ENGINES


def test_the_command_line_has_the_choices_and_defaults() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, ON_COMMAND_LINE)
    given = given_options(parser.parse_args([]), ON_COMMAND_LINE)
    assert given == {name: getattr(Options(), name) for name in given}
    for action in parser._actions[1:]:  # pyright: ignore[reportPrivateUsage]
        info = option_info(Options, action.dest.removeprefix("no_"))
        retired = {*action.option_strings} & RETIRED
        assert action.help in ((argparse.SUPPRESS,) if retired else (info.help, f"do not {info.help}"))
        assert (*(action.choices or ()),) == info.choices
    flags = [word for word in parser.format_usage().split() if word.startswith("[--")]
    assert len(flags) == len(ON_COMMAND_LINE) - len({"--max-total-growth", "--fold-as"} & RETIRED)
    elsewhere = {
        *RULES,
        "promotion",
        "in_place",
        "lowerings",
        "progress",
        "ranges",
        "verify",
        "verify_dims",
        "certificate",
    }
    assert {*ON_COMMAND_LINE, "verify_inputs"} | elsewhere == {*FIELDS}


RULES = [each.name for each in dataclasses.fields(PromotionRules)]
FLAGS = [name for name in FIELDS if isinstance(getattr(PromotionRules, name, FIELDS[name].default), bool)]
WRONG_TYPES: dict[str, list[Any]] = {
    **{name: ["yes", None, 1.0, [], "1"] for name in FLAGS},
    **{name: ["1", None, 1.5, True, np.float32(1)] for name in ("max_growth", "max_total_growth", "largest_dim")},
    **{name: [1, None, True, b"packed", ["packed"]] for name in ("fold_as", "interface", "storage", "vendor")},
    "narrow": [None, 1.5, True, b"int64", [1.5], [None], [["int64"]], {"int64": 1.5}.values()],
    "ranges": [1, "ids=0:1", [("ids", 0, 1)]],
    "target": [1, True, Path("cpu.json"), ["cpu"]],
    "promotion": [1, True, {"promote_unsafe": True}],
    "library": [1, True, b"torch"],
    "u64_integer_promotion_target": [1.5, True, [7]],
    "passes": ["fold-constants", 1, [1], {"fold-constants": 1}, True],
    "until": [1, True, b"fold-constants"],
    "progress": [1, "print"],
    "verify": [1, True, False, ["reference"]],
    "verify_dims": [1, "N=1", [("N", 1)]],
    "verify_inputs": [1, "x", {"x": np.zeros(1)}],
    "lowerings": [1, "x", [print]],
}
WRONG_VALUES: dict[str, list[Any]] = {
    **{name: [2, -1] for name in FLAGS},
    "u64_integer_promotion_target": ["f9", "", 99, 0, int],
    **{name: [-1, np.int64(-5)] for name in ("max_growth", "max_total_growth", "largest_dim")},
    "ranges": [{"ids": (1, 0)}, {"ids": (0,)}, {"ids": 1}, {"ids": (0, np.inf)}, {"ids": ("0", 1)}, {1: (0, 1)}],
    "fold_as": ["tvm", "ONNXRUNTIME", " "],
    "interface": ["", "codes", "Wide", "wide "],
    "storage": ["", "bytes", "bits", "PACKED"],
    "vendor": ["microsoft", "trt ", "ai.onnx", "TRT"],
    "narrow": ["int32", "float16", "int64+half", "complex64", ["int64", "float"], np.int32, 0, 99, "no type", ","],
    "verify": ["", "tvm", "onnxruntime "],
}


def test_each_option_is_given_wrong_values() -> None:
    assert {*WRONG_TYPES} == {*FIELDS}


def wrong(table: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    return [(name, each) for name, values in table.items() for each in values]


def refusal_of(name: str, value: object) -> str:
    """The sentence, which is the same wherever the option is given in Python."""
    before = model().SerializeToString()
    proto = model()
    with pytest.raises(OptionError) as raised:
        optimize(proto, **{name: value})  # pyright: ignore[reportArgumentType]
    assert proto.SerializeToString() == before
    with pytest.raises(OptionError) as ours:
        Options(**{name: value})  # pyright: ignore[reportArgumentType]
    assert str(ours.value) == str(raised.value)
    assert isinstance(raised.value, TypeError) == isinstance(ours.value, TypeError)
    for each in PASSES:
        kind: Any = pass_class(each)
        known = {field.name for field in dataclasses.fields(kind)}
        if name in known - {"target", "lowerings", *RULES}:
            with pytest.raises(OptionError) as of_pass:
                kind(**{name: value}, **({"target": load_target("onnxruntime-cpu")} if "target" in known else {}))
            assert str(of_pass.value) == str(raised.value)
    text = str(raised.value)
    assert name in text
    assert text.endswith(".")
    assert "\n" not in text
    for choice in option_info(Options, name).choices:
        assert choice in text
    return text


def test_a_wrong_value_is_refused() -> None:
    check_all(refusal_of, wrong(WRONG_VALUES))


def require_type_refused(name: str, value: Any) -> None:
    refusal_of(name, value)
    with pytest.raises(TypeError):
        Options(**{name: value})


def test_a_wrong_type_is_refused() -> None:
    check_all(require_type_refused, (case for case in wrong(WRONG_TYPES) if case[1] is not None))


@pytest.mark.parametrize("name", [name for name in FIELDS if FIELDS[name].default is not None])
def test_none_is_refused_where_it_is_no_default(name: str) -> None:
    refusal_of(name, None)


@pytest.mark.parametrize("value", [None, object()])
@pytest.mark.parametrize("name", ["default_size", "sizes", "undefined_free"])
def test_options_of_a_pass_alone_refuse_other_types(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=name) as raised:
        SimplifyCasts(**{name: value})  # pyright: ignore[reportArgumentType]
    assert isinstance(raised.value, TypeError)


@pytest.mark.parametrize("value", [1, np.bool_(True), np.int8(1)])
def test_flags_and_numbers_are_kept_as_those_of_python(value: Any) -> None:
    assert Options(fold_disputed=value).fold_disputed is True
    assert type(Options(max_growth=np.int16(7)).max_growth) is int  # pyright: ignore[reportArgumentType]


MIXED = """<ir_version: 10, opset_import: ["": 21]>
g (int32[2] x, float[2] y, uint64[2] u, int64[2] i) => (float[2] a, float[2] b) {
    a = Add (x, y) b = Add (u, i) }"""


def test_each_field_of_the_rules_is_an_option() -> None:
    """As options they do what they do in PromotionRules, and override a preset."""
    assert set(RULES) <= set(FIELDS)
    values: dict[str, Any] = {name: not getattr(PromotionRules, name) for name in RULES if name in FLAGS}
    values |= {"library": "torch", "u64_integer_promotion_target": "f64"}
    for name, value in values.items():
        assert rules_of(Options(**{name: value})) == PromotionRules(**{name: value})
        expected = dataclasses.replace(PromotionRules.preset("jax"), **{name: value})
        assert rules_of(Options(**{name: value}, promotion="jax")) == expected
        for rules in (PromotionRules(), PromotionRules(**{name: value})):
            with pytest.raises(OptionError, match=rf"^`promotion` and `{name}` both state rules: set {name} in the Pr"):
                optimize(model(), promotion=rules, **{name: value})
    proto = onnx.parser.parse_model(MIXED)
    result = optimize(proto, promote_unsafe=True, u64_integer_promotion_target="double").model
    assert [value.dtype for value in result.graph.outputs] == [DataType.FLOAT, DataType.DOUBLE]
    with pytest.raises(PromotionError):
        optimize(proto, promotion="torch", promote_unsafe=False)


INT64: list[Any] = [
    *["int64", "i64", "INT64", "7", 7, np.int64, np.dtype("int64"), DataType.INT64, onnx.TensorProto.INT64],
    *[["int64"], ("i64",), {DataType.INT64}, [np.int64, "7"], "int64+i64", np.array(["int64"]), range(7, 8)],
]


@pytest.mark.parametrize("value", INT64, ids=range(len(INT64)))
def test_types_to_narrow_are_named_in_every_way(value: Any) -> None:
    result = optimize(model(), narrow=value)
    assert [rewrite.rule for rewrite in result.rewrites].count("narrow") == 1
    kept = [value.name for value in result.model.graph.initializers.values() if value.dtype == DataType.INT64]
    assert not kept, "no other pass takes the narrowing back"


def test_several_types_to_narrow() -> None:
    both = (DataType.INT64, DataType.DOUBLE)
    for value in ("int64+double", ["i64", "f64"], (np.int64, np.float64), [7, 11], ["int64+double"], "7+float64"):
        assert Options(narrow=value).narrow == both
    assert Options(narrow="").narrow == Options(narrow=[]).narrow == ()
    assert str(NarrowTypes("int64+double").narrow) == str(both)


@pytest.mark.parametrize(
    "words",
    [
        *[["--narrow", name] for name in ("int64", "i64", "7", "INT64")],
        ["--narrow=double", "--narrow=i64"],
        *[[f"--passes=narrow-types{{narrow={name}}}"] for name in ("int64", "i64", "7", "double+i64")],
    ],
    ids=" ".join,
)
def test_types_to_narrow_on_the_command_line(words: list[str], tmp_path: Path, capsys: Any) -> None:
    onnx.save(model(), tmp_path / "in.onnx")
    assert main(["optimize", str(tmp_path / "in.onnx"), "-o", str(tmp_path / "out.onnx"), *words]) == 0
    assert "narrow" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--storage=bytes"], ["--fold-as=tvm"], ["--narrow=int32"], ["--max-growth=-1"]])
def test_the_command_line_refuses(words: list[str], tmp_path: Path, capsys: Any) -> None:
    onnx.save(model(), tmp_path / "in.onnx")
    try:
        code = main(["optimize", str(tmp_path / "in.onnx"), "-o", str(tmp_path / "out.onnx"), *words])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert not (tmp_path / "out.onnx").exists()
    assert words[0].split("=")[0] in capsys.readouterr().err


def test_a_pass_by_name_is_refused_as_in_python() -> None:
    target = load_target("onnxruntime-cpu")
    for spec in ("lower-float8{storage=bytes}", "fold-constants{fold_as=tvm}", "lower-float8{sequence=ramp}"):
        name, _, value = spec.partition("{")[2].rstrip("}").partition("=")
        with pytest.raises(OptionError, match=f"unknown {name} '{value}'; expected one of|expected 'packed' or 'byte'"):
            make_pass(spec, {"target": target})
    assert "narrow" in option_names("narrow-types")


REFUSED = """
import castsmith
from castsmith.lowering import LowerFloat8, NarrowTypes
from castsmith.passes import FoldConstants
target = castsmith.load_target("onnxruntime-cpu")
castsmith.optimize("m", storage="bytes")  # error
castsmith.optimize("m", interface="codes")  # error
castsmith.optimize("m", fold_as="tvm")  # error
castsmith.optimize("m", verify="tvm")  # error
castsmith.optimize("m", max_growth="4096")  # error
castsmith.optimize("m", narrow=1.5)  # error
LowerFloat8(target, storage="bytes")  # error
LowerFloat8(target, sequence="ramp")  # error
FoldConstants(fold_as="tvm")  # error
NarrowTypes(largest_dim="many")  # error
castsmith.optimize("m", storage="byte", interface="wide", fold_as="reference", verify="openvino")
castsmith.optimize("m", narrow="int64")
castsmith.optimize("m", narrow=["int64", "double"], max_growth=0)
LowerFloat8(target, sequence="ladder", storage="byte")
"""


@complete_only
def test_a_type_checker_refuses_what_the_options_do_not_take(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    file = tmp_path / "uses.py"
    file.write_text(REFUSED)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", str(file)]
    found = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False).stdout
    import json

    said: dict[str, Any] = json.loads(found)
    lines = {each["range"]["start"]["line"] for each in said["generalDiagnostics"] if each["severity"] == "error"}
    assert lines == {number for number, line in enumerate(REFUSED.split("\n")) if line.endswith("# error")}
