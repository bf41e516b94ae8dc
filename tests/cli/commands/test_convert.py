"""castsmith convert: the file that it writes, what it prints, and how it refuses."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.cli.commands import convert as command
from castsmith.cli.main import main
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.lowering.check.target import TRIES
from castsmith.lowering.results import ConvertResult
from tests.passes.precision.models import model


def written(tmp_path: Path, *words: str) -> tuple[int, Path]:
    source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model("exponential"), source)
    return main(["convert", str(source), "-o", str(output), *words]), output


def test_it_writes_a_valid_model_and_says_what_it_did(tmp_path: Path, capsys: Any) -> None:
    code, output = written(tmp_path, "--to", "float16")
    assert code == 0
    found = onnx.load(output)
    onnx.checker.check_model(found, full_check=True)
    assert found.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    text = capsys.readouterr().out
    assert "2 float16, 1 float" in text
    assert "error: not measured" in text


def test_it_measures_where_asked(tmp_path: Path, capsys: Any) -> None:
    np.savez(tmp_path / "data.npz", x=np.ones((4, 4), np.float32))
    assert written(tmp_path, "--to", "f16", "--inputs", str(tmp_path / "data.npz"))[0] == 0
    assert "error on 1 set of inputs" in capsys.readouterr().out


def test_it_measures_on_a_folder(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "data").mkdir()
    for number in range(2):
        np.savez(tmp_path / "data" / f"{number}.npz", x=np.full((4, 4), number + 1, np.float32))
    assert written(tmp_path, "--to", "float16", "--inputs", str(tmp_path / "data"))[0] == 0
    assert "error on 2 sets of inputs" in capsys.readouterr().out


def test_json_has_the_precision_of_every_node(tmp_path: Path, capsys: Any) -> None:
    assert written(tmp_path, "--to", "float16", "--json", "--measure")[0] == 0
    found = json.loads(capsys.readouterr().out)["conversion"]
    assert [each["type"] for each in found["precisions"]] == ["float16", "float", "float16"]
    assert all(each["reason"] for each in found["precisions"])
    assert found["error"]["outputs"][0]["name"] == "y"


def test_explain_tells_why_a_node_is_left(tmp_path: Path, capsys: Any) -> None:
    assert written(tmp_path, "--to", "float16", "--explain")[0] == 0
    assert "Exp stays in a wider type by default" in capsys.readouterr().out


def test_patterns_choose_nodes(tmp_path: Path, capsys: Any) -> None:
    code, output = written(tmp_path, "--to", "float16", "--force", "op:Exp", "--io", "convert")
    assert code == 0
    assert "Cast" not in {node.op_type for node in onnx.load(output).graph.node}
    assert "3 float16" in capsys.readouterr().out


def test_the_report_has_the_regions(tmp_path: Path) -> None:
    assert written(tmp_path, "--to", "float16", "--report", str(tmp_path / "report.html"))[0] == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert [(each["op"], each["type"]) for each in data["map"]] == [
        ("MatMul", "float16"),
        ("Exp", "float"),
        ("MatMul", "float16"),
    ]
    assert all(each["reason"] for each in data["map"])
    assert "error" not in data
    assert [(each["rule"], each["casts"]) for each in data["rules"] if each["casts"]] == [("cast-at-border", "+4")]


def test_the_report_has_the_measured_error(tmp_path: Path) -> None:
    assert written(tmp_path, "--to", "float16", "--measure", "--report", str(tmp_path / "report.html"))[0] == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    error = json.loads(page.partition('id="data">')[2].partition("</script>")[0])["error"]
    assert error["title"].endswith("sets of inputs, relative to the largest element")
    assert error["table"][0] == ["output", "relative", "absolute", "cosine", "top-1"]
    assert [row[0] for row in error["table"][1:]] == ["y"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "int8"], "cannot be converted to int8"),
        (["--to", "float"], "already in float"),
        (["--to", "float16", "--keep", "nothing"], "--keep 'nothing' matches no node"),
        (["--to", "bfloat16", "--target", "onnxruntime-directml"], "has no bfloat16"),
        (["--to", "float16", "--io", "q"], "--io names 'q', which is not an input or output"),
        (["--to", "float16", "--max-error", "-1"], "not a number above 0"),
        (["--to", "float16", "--target", "nowhere"], "nowhere"),
        (["--to", "float17"], "float17"),
    ],
)
def test_bad_requests_are_one_sentence_and_write_nothing(
    words: list[str], message: str, tmp_path: Path, capsys: Any
) -> None:
    code, output = written(tmp_path, *words)
    assert code == 2
    assert not output.exists()
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert error.count("\n") == 1


@pytest.mark.usefixtures("one_process")
def test_of_many_models_those_with_nothing_to_convert_are_written_unchanged(tmp_path: Path, capsys: Any) -> None:
    folder, text = tmp_path / "in", '<ir_version: 8, opset_import: ["" : 17]> g (D[4] x) => (D[4] y) { y = Add (x, x) }'
    folder.mkdir()
    for dtype in ("int64", "float16", "float"):
        onnx.save(onnx.parser.parse_model(text.replace("D", dtype)), folder / f"{dtype}.onnx")
    assert main(["convert", str(folder), "-o", str(tmp_path / "out"), "--to", "float16", "--jobs", "1"]) == 0
    told = capsys.readouterr()
    assert "3 written, 0 failed" in told.out
    assert told.err.count("nothing-to-convert") == told.err.count("\n") == 1
    assert "the model has no floating-point values" in told.err
    for dtype in ("int64", "float16"):
        assert not castsmith.diff(folder / f"{dtype}.onnx", tmp_path / "out" / f"{dtype}.onnx")
    assert {node.op_type for node in onnx.load(tmp_path / "out" / "float.onnx").graph.node} == {"Add", "Cast"}
    assert main(["convert", str(folder), "-o", str(tmp_path / "no"), "--to", "float16", "--keep", "none"]) == 2


def test_inputs_that_do_not_fit_name_their_file(tmp_path: Path, capsys: Any) -> None:
    for names, message in (
        (("q",), "are for 'q'; expected"),
        (("one/q",), "data.npz/one are for 'q'"),
        ((), "no inputs"),
    ):
        arrays: dict[str, Any] = dict.fromkeys(names, np.zeros(1))
        np.savez(tmp_path / "data.npz", **arrays)
        assert written(tmp_path, "--to", "float16", "--inputs", str(tmp_path / "data.npz"))[0] == 2
        error = capsys.readouterr().err
        assert message in error
        assert not names or str(tmp_path / "data.npz") in error


def test_elements_of_integer_outputs_that_differ_are_printed(tmp_path: Path, capsys: Any) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,2] x) => (int64[2] i)
    <float k = {1.0001}> { y = Mul (x, k) i = ArgMax <axis = 1, keepdims = 0> (y) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "a.onnx")
    np.savez(tmp_path / "data.npz", x=np.array([[1, 1.0001], [2, 3]], np.float32))
    words = ["convert", str(tmp_path / "a.onnx"), "-o", str(tmp_path / "b.onnx"), "--to", "float16", "--force", "*"]
    assert main([*words, "--inputs", str(tmp_path / "data.npz")]) == 0
    told = capsys.readouterr().out
    assert "error on 1 set of inputs:\n    output i: 1 of 2 elements differs\n" in told
    assert main([*words, "--inputs", str(tmp_path / "data.npz"), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["conversion"]["error"]["differing"] == [{"name": "i", "elements": 1, "of": 2}]


def test_diff_has_one_line_for_all_converted_constants(tmp_path: Path, capsys: Any) -> None:
    names = [f"w{index}" for index in range(6)]
    steps = " ".join(f"v{i + 1} = MatMul (v{i}, {name})" for i, name in enumerate(names))
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[4,4] v0) => (float[4,4] v6) {{ {steps} }}"""
    found = onnx.parser.parse_model(text)
    draw = np.random.default_rng(0)
    found.graph.initializer.extend(
        onnx.numpy_helper.from_array(draw.normal(0, 1, (4, 4)).astype("f4"), name) for name in names
    )
    onnx.save(found, tmp_path / "a.onnx")
    assert main(["convert", str(tmp_path / "a.onnx"), "-o", str(tmp_path / "b.onnx"), "--to", "float16"]) == 0
    capsys.readouterr()
    assert main(["diff", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")]) == 1
    text = capsys.readouterr().out
    assert "converted from float to float16: 6 constants" in text
    assert "constant w3" not in text
    assert main(["diff", "--full", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")]) == 1
    assert "constant w3" in capsys.readouterr().out


def test_the_diff_shows_the_ends_of_a_long_region_and_types_of_undeclared_values(tmp_path: Path, capsys: Any) -> None:
    steps = " ".join(f"v{n + 1} = Relu (v{n})" for n in range(19))
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[4] v0) => (float[4] y) {{ {steps} y = Neg (v19) }}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
    words = [
        "convert",
        str(tmp_path / "in.onnx"),
        "-o",
        str(tmp_path / "out.onnx"),
        "--to",
        "float16",
        "--io",
        "convert",
    ]
    assert main([*words, "--diff"]) == 0
    short = capsys.readouterr().out
    assert main([*words, "--diff=full"]) == 0
    full = capsys.readouterr().out
    assert "+ 12 more (shown by --diff=full)" in short
    assert "v9 = Relu (v8)" not in short
    assert "+ v9 = Relu (v8)  # (float16) -> float16" in full
    assert "+ v2 = Relu (v1)  # (float16) -> float16" in short
    assert "?" not in short


def finding(help_text: str) -> Diagnostic:
    return Diagnostic("code", Severity.ERROR, Site("g"), "why", help_text)


def test_what_is_converted_and_on_which_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One model is always; of many those that compute in half precision, or have something to convert."""
    loaded = onnx_ir.from_proto(model("exponential"))
    found: dict[str, Any] = {}

    def convert(_: object, **options: Any) -> ConvertResult:
        found.update(options)
        return ConvertResult(loaded, diagnostics=[finding(f"{TRIES}x)`")])

    monkeypatch.setattr(command, "convert", convert)
    monkeypatch.setattr("castsmith.cli.advice.tried_way_out", lambda *words: str(words[1:]))  # pyright: ignore
    everything = {
        "outcome": None, "to": "float16", "inputs": None, "measure": False, "max_error": None, "target": "iree",
        "output": "b.onnx", "io": "keep", "keep": ["k"], "force": ["f"], "range": [], "dim": ["N=3"], "shape": [],
        "weights_only": False, "rescale": True,
    }  # fmt: skip
    passed = {"io": "keep", "keep": ["k"], "lower": ["f"], "target": "iree", "rescale": True, "in_place": True}
    passed |= {"weights_only": False, "dims": {}}
    many, tried = {"outcome": 1}, "('b.onnx', 'b.onnx', 'iree')"
    monkeypatch.setattr(command, "require_names", lambda *_: None)  # pyright: ignore
    monkeypatch.setattr(command, "inputs_to_measure_on", lambda _: {"dims": {}, "inputs": found["sets"]})  # pyright: ignore
    rows: list[tuple[dict[str, Any], bool, str, Any, Any, str]] = [
        ({}, False, "nothing", None, None, tried),
        (many, True, "nothing", None, None, f"{TRIES}x)`"),
        (many, False, "", None, None, f"{TRIES}x)`"),
        (many, False, "nothing", None, "no run", "it is written unchanged"),
        (many | {"to": "bfloat16"}, True, "nothing", None, "no run", "it is written unchanged"),
        ({"measure": True}, False, "", None, "made-up", tried),
        ({"max_error": 0.0}, False, "", None, "made-up", tried),
        ({"inputs": "made-up", "max_error": 0.1}, False, "", "made-up", "made-up", tried),
        ({"inputs": "d.npz"}, False, "", [("given", 1), ("s", 2)], [("d.npz", 1), ("d.npz/s", 2)], tried),
    ]
    for options, is_half, why, sets, inputs, advice in rows:
        found.clear()
        found["sets"] = sets
        monkeypatch.setattr(command, "computes_in_half", lambda _, half=is_half: half)  # pyright: ignore
        monkeypatch.setattr(command, "nothing_to_convert", lambda *_, why=why: why)  # pyright: ignore
        arguments = argparse.Namespace(**{**everything, **options})
        result = command._convert(arguments, loaded, print)  # pyright: ignore[reportPrivateUsage]
        assert [diagnostic.help for diagnostic in result.diagnostics] == [advice], options
        if inputs == "no run":
            assert found == {"sets": None}
        else:
            assert found["inputs"] == inputs, options
            assert passed.items() <= found.items()
            assert (found["to"], found["max_error"]) == (arguments.to, arguments.max_error)


def test_a_way_out_takes_the_place_of_the_advice_to_try_one(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = onnx_ir.from_proto(model("exponential"))
    monkeypatch.setattr("castsmith.cli.advice.tried_way_out", lambda _, *words: str(words))  # pyright: ignore
    arguments = argparse.Namespace(output="b.onnx", target="iree")
    texts, tries = ["", "other"], f"{TRIES}'iree')`"
    for helps, expected in ((texts, texts), ([tries, "other"], ["('b.onnx', 'b.onnx', 'iree')", "other"])):
        result = ConvertResult(loaded, diagnostics=list(map(finding, helps)))
        given = command._with_tried_way_out(arguments, result)  # pyright: ignore[reportPrivateUsage]
        assert [diagnostic.help for diagnostic in given.diagnostics] == expected
