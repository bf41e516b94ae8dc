"""castsmith verify: the command, its exit codes and what it says."""

from __future__ import annotations

import argparse
import json
import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest

from castsmith.cli.commands import verify as command
from castsmith.cli.wording import with_command_options
from castsmith.ir.records import RewriteResult
from castsmith.passes import SimplifyCasts
from castsmith.passes.core.session import Session
from castsmith.verification.run import verify
from tests.cli.helpers import CHAIN, CLEAN, MIXED, Command, is_one_sentence, write_model

pytestmark = pytest.mark.usefixtures("engines_here")

HEAD = '<ir_version: 10, opset_import: ["" : 23]>\n'
ROUND_TWICE = "g (double[N] x) => (float16[N] y) { a = Cast <to = 1> (x) y = Cast <to = 10> (a) }"
ROUND_ONCE = "g (double[N] x) => (float16[N] y) { y = Cast <to = 10> (x) }"


def test_the_command(castsmith: Command, tmp_path: Path) -> None:
    a = write_model(tmp_path / "a.onnx", HEAD + ROUND_TWICE)
    b = write_model(tmp_path / "b.onnx", HEAD + ROUND_ONCE)
    same = castsmith("verify", a, a)
    assert (same.code, same.err) == (0, "")
    assert same.out.startswith("equal, proven for all inputs; ")
    assert " elements of outputs compared, on 15 sets of inputs\n" in same.out
    ended = castsmith("verify", a, b, "--engine", "reference")
    assert (ended.code, ended.err) == (1, "")
    assert "the first value that differs is y" in ended.out
    assert "+ y = Cast <to = float16> (x)" in ended.out
    data = json.loads(castsmith("verify", a, b, "--json").out)
    assert (data["schema"], data["same"], data["difference"]["value"]) == (1, False, "y")


def test_given_inputs(castsmith: Command, tmp_path: Path) -> None:
    a = write_model(tmp_path / "a.onnx", HEAD + "g (float[N] x) => (float[N] y) { y = Relu (x) }")
    b = write_model(tmp_path / "b.onnx", HEAD + "g (float[N] x) => (float[N] y) { y = Identity (x) }")
    arrays: dict[str, Any] = {"in0/x": np.ones(3, np.float32), "out0/y": np.ones(3, np.float32)}
    np.savez(tmp_path / "good.npz", **arrays)
    (tmp_path / "sets").mkdir()
    np.savez(tmp_path / "bad.npz", x=-np.ones(3, np.float32))
    (tmp_path / "no.npz").write_text("no")
    assert castsmith("verify", a, a, "--inputs", tmp_path / "good.npz").code == 0
    unmet = castsmith("verify", a, b, "--inputs", tmp_path / "good.npz")
    assert unmet.code == 3
    assert "no input gave g: y (Relu) an element" in unmet.out
    assert castsmith("verify", a, b, "--inputs", tmp_path / "bad.npz").code == 1
    (tmp_path / "bad.npz").rename(tmp_path / "sets" / "bad.npz")
    assert castsmith("verify", a, b, "--inputs", tmp_path / "sets").code == 1
    for words in (("--inputs", str(tmp_path / "no.npz")), ("--dim", "N"), ("--dim", "N=many")):
        ended = castsmith("verify", a, b, *words)
        assert ended.code == 2
        assert is_one_sentence(ended.err)


def missing(name: str) -> None:
    """Find no package."""
    del name


def test_trouble_is_a_sentence(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = write_model(tmp_path / "a.onnx", CLEAN), write_model(tmp_path / "b.onnx", MIXED)
    ended = castsmith("verify", b, tmp_path / "none.onnx")
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)
    monkeypatch.setattr("castsmith.verification.evaluate.engines.find_spec", missing)
    for engine in ("onnxruntime", "openvino"):
        ended = castsmith("verify", a, a, "--engine", engine)
        assert ended.code == 2
        assert is_one_sentence(ended.err)
        assert f"pip install {engine}" in ended.err
    assert castsmith("verify", a, a, "--engine", "reference").code == 0


def test_sizes_that_the_model_fits_are_found(castsmith: Command, tmp_path: Path) -> None:
    ones = ", ".join(["1"] * 12)
    text = f"{HEAD} g (float[n,m] x) => (float[n,3] y) <float[4,3] w = {{{ones}}}> {{ y = MatMul (x, w) }}"
    path = write_model(tmp_path / "m.onnx", text)
    assert castsmith("verify", path, path).code == 0
    assert castsmith("verify", path, path, "--dim", "m=4").code == 0
    ended = castsmith("verify", path, path, "--dim", "m=7")
    assert ended.code == 3
    assert "did not run on any of the inputs" in ended.out
    assert "chose the sizes of symbolic dimensions: n=" in ended.out
    assert "pass valid ones (--dim NAME=SIZE)" in ended.out
    verdict = verify(path, path, dims={"m": 7})
    assert "pass valid ones (`dims=`)" in verdict.unsure[0]


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        (
            "the time limit is exceeded (`seconds=` allows more).",
            "the time limit is exceeded (--time-limit allows more).",
        ),
        ("give the inputs (`inputs=`).", "give the inputs (--inputs FILE.npz)."),
        ("`promote_unsafe` allows it", "--promote-unsafe allows it"),
        ("`optimize(target='qonnx')` lowers it", "optimize --target qonnx lowers it"),
    ],
)
def test_a_sentence_names_parameters_and_the_command_line_its_options(sentence: str, shown: str) -> None:
    assert with_command_options(sentence) == shown


def test_optimize_verifies_each_pass(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain, mixed = write_model(tmp_path / "a.onnx", CHAIN), write_model(tmp_path / "c.onnx", MIXED)
    out = tmp_path / "b.onnx"
    for source in (chain, mixed):
        ended = castsmith("optimize", source, "-o", out, "--verify")
        assert ended.code == 0
        assert "verified: equal, " in ended.out
    out.unlink()

    class Wrong(SimplifyCasts):
        def rewrite(self, session: Session) -> RewriteResult:
            result = super().rewrite(session)
            next(node for node in session.model.graph if node.op_type == "Relu").op_type = "Abs"
            return result

    monkeypatch.setattr("castsmith.passes.simplify.run.SimplifyCasts", Wrong)
    ended = castsmith("optimize", chain, "-o", out, "--verify")
    assert (ended.code, ended.out) == (1, "")
    assert is_one_sentence(ended.err)
    assert "after simplify-casts, z[" in ended.err
    assert not out.exists()


def test_a_tolerance_by_output(castsmith: Command, tmp_path: Path) -> None:
    text = "g (float[N] x) => (float[N] y, float[N] z) <float w = {{{}}}> {{ y = Mul (x, w) z = Neg (x) }}"
    a = write_model(tmp_path / "a.onnx", HEAD + text.format("1.0"))
    b = write_model(tmp_path / "b.onnx", HEAD + text.format("1.001"))
    within = castsmith("verify", a, b, "--rtol", "2e-3")
    assert within.code == 0
    assert within.out.startswith("match within rtol 0.002, atol 0 on 15 sets of inputs: ")
    ended = castsmith("verify", a, b, "--rtol", "z=1", "--rtol", "y=1e-6", "--atol", "1e-30")
    assert ended.code == 1
    assert "the first value that exceeds the tolerance is y" in ended.out
    assert "  z: proven" in ended.out or "  z: tested" in ended.out
    assert re.search(r"  y: tested, .*; largest error [0-9.e-]+, relative 0\.001 \(rtol 1e-06, atol 1e-30\)", ended.out)
    assert re.search(r"\n  compared in [0-9]+\.[0-9] s\n", ended.out)
    data = json.loads(castsmith("verify", a, b, "--rtol", "1e-2", "--json").out)
    assert 9e-4 < data["outputs"][0]["relative"] < 1.1e-3
    for words in (("--rtol", "much"), ("--rtol", "-1"), ("--atol", "w=1"), ("--shape", "x"), ("--shape", "x=1xN"),
                  ("--shape", "w=1"), ("--shape", "x=1x2")):  # fmt: skip
        ended = castsmith("verify", a, b, *words)
        assert ended.code == 2, words
        assert ended.err.count("\n") >= 1


@pytest.mark.usefixtures("one_process")
def test_folders_take_tolerances_and_shapes(castsmith: Command, tmp_path: Path) -> None:
    text = "g (float[?] x) => (float[N] y) <float w = {{{}}}> {{ y = Mul (x, w) }}"
    for folder, number in (("a", "1.0"), ("b", "1.001")):
        (tmp_path / folder).mkdir()
        write_model(tmp_path / folder / "m.onnx", HEAD + text.format(number))
    pair = tmp_path / "a", tmp_path / "b"
    within = ("--rtol", "1e-6", "--rtol", "y=2e-3", "--atol", "1e-9", "--shape", "x=7", "-j", "1")
    assert castsmith("verify", *pair, *within).code == 0
    assert castsmith("verify", *pair, "--rtol", "1e-6", "-j", "1").code == 1


def test_the_advice_names_options_that_work(castsmith: Command, tmp_path: Path) -> None:
    ones = ", ".join(["1"] * 12)
    text = f"{HEAD} g (float[2,4] x) => (float[2,3] y) <float[4,3] w = {{{ones}}}> {{ y = MatMul (x, w) }}"
    path = write_model(tmp_path / "m.onnx", text)
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(model, path)
    ended = castsmith("verify", path, path)
    assert ended.code == 3
    assert "--shape NAME=1x512" in ended.out
    assert castsmith("verify", path, path, "--shape", "x=2x4").code == 0


def test_folders_have_the_same_models(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/x.onnx", "a/y.onnx", "a/z.onnx", "b/x.onnx"):
        Path(name).parent.mkdir(exist_ok=True)
        write_model(Path(name), CLEAN)
    for words in (("a", "b"), ("b", "a")):
        ended = castsmith("verify", *words)
        assert (ended.code, ended.err) == (2, "castsmith: b has no y.onnx to compare with, nor 1 other.\n")
    Path("a/z.onnx").unlink()
    assert castsmith("verify", "a", "b").err == "castsmith: b has no y.onnx to compare with.\n"


def test_a_type_that_was_to_change_is_no_difference(castsmith: Command, tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float8e4m3fn[4] x) => (float8e4m3fn[4] y) { y = Identity (x) }"""
    words = ("--target=onnxruntime-android", "--interface=wide", "--verify", "--engine=reference", "--json")
    ended = castsmith("optimize", write_model(tmp_path / "a.onnx", text), "-o", tmp_path / "b.onnx", *words)
    assert ended.code in (0, 3), ended.err
    assert json.loads(ended.out)["verification"]["accepted"]


def test_how_many_steps_are_announced(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as follow: reading, and each set of inputs."""
    counts: list[int] = []
    steps: list[str] = []

    def progress(count: int, *, quiet: bool) -> Any:
        assert quiet
        counts.append(count)
        return nullcontext(steps.append)

    monkeypatch.setattr(command, "progress", progress)
    model = write_model(tmp_path / "a.onnx", CLEAN)
    np.savez(tmp_path / "x.npz", **{f"{name}/x": np.ones(3, np.float32) for name in "ab"})  # pyright: ignore
    words = ("verify", model, model, "--engine", "reference", "-q")
    for more in (("--sets", "2"), ("--sets", "5"), ("--inputs", tmp_path / "x.npz")):
        steps.clear()
        castsmith(*words, *more)
        assert counts.pop() == len(steps), steps


def test_a_report_that_is_no_page_is_json(castsmith: Command, tmp_path: Path) -> None:
    model, report = write_model(tmp_path / "a.onnx", CLEAN), tmp_path / "r.json"
    words = ("verify", model, model, "--engine", "reference", "--sets", "1", "--json", "--report", report)
    printed = json.loads(castsmith(*words).out)
    assert printed["a"] == str(model)
    assert json.loads(report.read_text()) == printed


def test_a_folder_is_not_compared_with_a_file(castsmith: Command, tmp_path: Path) -> None:
    model, folder = write_model(tmp_path / "a.onnx", CLEAN), tmp_path / "models"
    folder.mkdir()
    write_model(folder / "a.onnx", CLEAN)
    for words in ((folder, model), (model, folder)):
        ended = castsmith("verify", *words)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith(f"castsmith: {folder}: ")


def test_only_a_certificate_of_all_proves(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = onnx.parser.parse_model(f"{HEAD} g (float[2] x) => (float[2] y, float[2] z) {{ y = Abs (x) z = Neg (x) }}")
    arguments = argparse.Namespace(a="a", b="b", certificate="c", engine="reference")
    for certified, proven in ((True, {"y", "z"}), (False, None)):

        def check(*words: str, certified: bool = certified) -> SimpleNamespace:
            assert words == ("a", "b", "c")
            return SimpleNamespace(certified=certified)

        monkeypatch.setattr("castsmith.verification.checker.check_files", check)
        verdict = command._certified(arguments, onnx_ir.from_proto(proto))  # pyright: ignore[reportPrivateUsage]
        assert (None if verdict is None else {*verdict.proven}) == proven
        assert verdict is None or verdict.equal
