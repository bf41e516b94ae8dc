"""fit: which way it takes, what it says of the others, and that the plan makes the same model."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import castsmith
from castsmith.cli.main import main
from castsmith.cli.wording import with_command_options
from castsmith.ir.records import Severity
from castsmith.lowering.fit import run
from castsmith.lowering.fit.results import FitResult
from castsmith.targets.target import Target
from tests.lowering.fit.models import HEAD, brain_floats, doubles, four_bits, indices, plain

pytestmark = pytest.mark.usefixtures("engines_here")

CASES: Mapping[str, tuple[Any, str, dict[str, Any]]] = {
    "plain": (plain, "onnxruntime-cpu", {}),
    "4 bits": (four_bits, "onnxruntime-webgpu", {}),
    "4 bits, exact": (four_bits, "onnxruntime-webgpu", {"exact": True}),
    "bfloat16": (brain_floats, "onnxruntime-cpu", {}),
    "bfloat16 with an error": (brain_floats, "onnxruntime-cpu", {"max_error": 0.05}),
    "two steps": (brain_floats, "tract", {"max_error": 0.05}),
    "double": (doubles, "tensorrt-11", {"max_error": 1e-6}),
    "ranges": (indices, "no-int64.json", {"ranges": {"ids": (0, 7)}}),
}


@pytest.fixture(autouse=True)
def target_without_int64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a target that has int64 for shapes alone."""
    monkeypatch.chdir(tmp_path)
    target = {"name": "no-int64", "types": ["float", "int32", "bool"], "newest_opset": 21, "newest_ir_version": 10}
    Path("no-int64.json").write_text(json.dumps({**target, "kernels": {}}))


@cache
def fitted(name: str) -> FitResult:
    """Return the result of a case; it is the same each time, and not to be changed."""
    model, target, options = CASES[name]
    return castsmith.fit(model(), target=target, **options)


def commands(result: FitResult) -> list[str]:
    """Return the steps of the plan, without the target."""
    return [re.sub(r" --target \S+", "", text) for text in result.commands("in.onnx", "out.onnx")]


def test_a_legal_model_takes_one_step() -> None:
    done = list[str]()
    result = castsmith.fit(plain(), target="onnxruntime-cpu", progress=done.append)
    assert done == ["optimize(target='onnxruntime-cpu')"]
    assert commands(result) == ["castsmith optimize in.onnx -o out.onnx"]
    assert not result.hint


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_legal(name: str) -> None:
    result = fitted(name)
    assert result.plan
    assert castsmith.check(result.proto, target=CASES[name][1]) == result.findings
    assert all(finding.severity is not Severity.ERROR for finding in result.findings)


@pytest.mark.parametrize("name", CASES)
def test_the_commands_of_the_plan_make_the_same_file(name: str, tmp_path: Path, capsys: Any) -> None:
    model, target, options = CASES[name]
    source, planned, fit_makes = (str(tmp_path / file) for file in ("in.onnx", "planned.onnx", "fit.onnx"))
    onnx.save(model(), source)
    words = ["--exact"] if "exact" in options else []
    words += ["--max-error", str(options["max_error"])] if "max_error" in options else []
    words += [word for key, (a, b) in options.get("ranges", {}).items() for word in ("--range", f"{key}={a}:{b}")]
    assert main(["fit", source, "--target", target, *words, "-o", fit_makes]) == 0
    printed = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("    castsmith ")]
    assert printed == fitted(name).commands(source, fit_makes)
    for text in fitted(name).commands(source, planned):
        assert main(shlex.split(text)[1:]) == 0, capsys.readouterr().err
    assert Path(planned).read_bytes() == Path(fit_makes).read_bytes()


def test_it_takes_the_operators_of_the_target() -> None:
    result = fitted("4 bits")
    assert commands(result) == ["castsmith optimize in.onnx --vendor com.microsoft -o out.onnx"]
    assert result.changes == ("MatMulNBits adds products in a different order",)
    assert len(result.model.graph) <= 1.1 * len(four_bits().graph.node)


def test_exact_leaves_them_out() -> None:
    result = fitted("4 bits, exact")
    assert not result.changes
    assert {node.domain for node in result.model.graph} == {""}


def test_rounding_is_taken_only_where_it_is_allowed_and_saves_half() -> None:
    exact, rounded = fitted("bfloat16"), fitted("bfloat16 with an error")
    assert [step.command for step in exact.plan] == ["optimize"]
    assert exact.error is None
    assert [step.command for step in rounded.plan] == ["convert"]
    assert rounded.error is not None
    assert rounded.error.worst <= 0.05
    casts = [step.cost.casts for step in (exact.plan[-1], rounded.plan[-1]) if step.cost is not None]
    assert casts[0] > 2 * casts[1]


def test_the_hint_names_an_error_that_suffices() -> None:
    for model, target in ((brain_floats(), "onnxruntime-cpu"), (doubles(), "tensorrt-11")):
        hint = castsmith.fit(model, target=target).hint
        error = re.match(r"`max_error` (\S+) allows `convert", hint)
        assert error is not None, hint
        plan = castsmith.fit(model, target=target, max_error=float(error[1])).plan
        assert plan[0].command == "convert"
        assert str(plan[0]) in hint


def test_the_hint_of_a_large_model_names_the_way_to_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_MOST_MEASURED", 30)
    hint = castsmith.fit(brain_floats(20), target="onnxruntime-cpu").hint
    assert re.match(r"`max_error` allows `convert\(.*\)`: 40 nodes, 0 casts; `all_ways` measures its error", hint)
    assert "--plan measures its error" in with_command_options(hint)


def test_bfloat16_is_tried_where_float16_overflows() -> None:
    nodes = "[up] a = Mul (x, k) [more] b = Mul (a, k) [down] c = Div (b, k) [back] y = Div (c, k)"
    text = f"{HEAD} g (float[4] x) => (float[4] y) <float k = {{30000}}> {{ {nodes} }}"
    target = Target("halves", newest_opset=22, newest_ir_version=10, types=["float16", "bfloat16", "bool", "int64"])
    result = castsmith.fit(onnx.parser.parse_model(text), target=target, max_error=0.05)
    assert [step.options["to"] for step in result.plan] == ["bfloat16"]
    assert any("its error is inf" in obstacle for way in result.ways for obstacle in way.obstacles)


def test_ranges_let_integers_become_narrower() -> None:
    result = fitted("ranges")
    assert result.changes == ("ids is int32 instead of int64",)
    assert "--narrow int64 --range ids=0:7 --narrow-interface" in commands(result)[0]
    assert not castsmith.fit(indices(), target="no-int64.json").plan


def test_inputs_that_the_target_lacks_are_converted_alone() -> None:
    result = fitted("double")
    assert result.plan[0].options["io"] == "amount"
    assert result.changes == ("amount is float instead of double",)


def test_an_error_that_is_not_reached_is_stated() -> None:
    result = castsmith.fit(doubles(), target="tensorrt-11", max_error=1e-12)
    assert not result.plan
    assert re.search(r"its error is \S+ on 3 sets of generated inputs, above 1e-12", result.hint)


def test_the_error_is_measured_on_the_inputs() -> None:
    inputs = {"amount": np.array([0.1, 3e30]), "rate": np.array([1, 1], np.float32)}
    result = castsmith.fit(doubles(), target="tensorrt-11", max_error=1e-6, inputs=inputs)
    assert result.error is not None
    assert len(result.error.sets) == 1


def test_a_conversion_may_help_where_an_exact_way_leaves_one_operator() -> None:
    text = f"{HEAD} g (double[2] x) => (double[2] y) {{ [mine] y = Gelu (x) }}"
    result = castsmith.fit(onnx.parser.parse_model(text), target="onnxruntime-cpu", max_error=1e-6)
    assert [step.command for step in result.plan] == ["convert", "optimize"] or len(result.plan) == 1
    assert result.error is not None


def test_the_model_is_not_changed() -> None:
    for name in ("4 bits", "double"):
        model, target, options = CASES[name]
        before = model()
        kept = onnx.ModelProto.FromString(before.SerializeToString())
        castsmith.fit(before, target=target, **options)
        assert before == kept, name


def test_exact_and_max_error_exclude_each_other() -> None:
    with pytest.raises(castsmith.OptionError, match="exclude each other"):
        castsmith.fit(plain(), target="onnxruntime-cpu", exact=True, max_error=0.1)


def test_a_target_is_needed() -> None:
    target: Any = None
    with pytest.raises(castsmith.ArgumentTypeError, match="target must be a Target or the name of one, not None"):
        castsmith.fit(plain(), target=target)


def test_operands_without_a_common_type_are_an_error_of_the_model() -> None:
    text = f"{HEAD} g (float[2] x, int64[2] i) => (float[2] y) {{ y = Add (x, i) }}"
    with pytest.raises(castsmith.PromotionError):
        castsmith.fit(onnx.parser.parse_model(text), target="onnxruntime-cpu")
