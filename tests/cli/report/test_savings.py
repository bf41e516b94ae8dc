"""The amounts of all rules add up to the change of the model; many rewrites of one form are shown once."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import onnx.helper
import pytest

from tests.cli.helpers import MIXED, Command, write_model

MODELS = sorted((Path(__file__).parents[3] / "models").glob("*.onnx"))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_the_rules_of_a_real_model_add_up(castsmith: Command, tmp_path: Path, path: Path) -> None:
    words = ("--target", "onnxruntime-android", "--promote-unsafe", "--json")
    summary = json.loads(castsmith("optimize", path, "-o", tmp_path / "b.onnx", *words).out)["summary"]
    rules, before, after = summary["rewrites"], summary["before"], summary["after"]
    assert sum(rule["casts_added"] - rule["casts_removed"] for rule in rules) == after["casts"] - before["casts"]
    changed = sum(rule["bytes_added"] - rule["bytes_removed"] for rule in rules)
    assert changed == after["tensor_bytes"] - before["tensor_bytes"]


def test_bytes_go_to_the_rule_that_moves_them(castsmith: Command, tmp_path: Path) -> None:
    source = write_model(
        tmp_path / "a.onnx",
        """<ir_version: 10, opset_import: ["" : 18]>
        g (float16[3] x) => (float16[3] z) <float[3] w = {1.0, 2.0, 3.0}> {
            h = Cast <to = 10> (w)
            z = Add (x, h)
        }""",
    )
    words = ("optimize", source, "-o", tmp_path / "b.onnx")
    (rule,) = json.loads(castsmith(*words, "--json").out)["summary"]["rewrites"]
    amounts = {"count": 1, "casts_added": 0, "casts_removed": 1, "bytes_added": 6, "bytes_removed": 12}
    assert rule == {"pass": "fold-constants", "rule": "fold-constant", **amounts}
    assert "fold-constants  fold-constant  1      -1     -6 B" in castsmith(*words, "--diff").out
    assert "fold-constants  fold-constant  1\n" in castsmith(*words).out


def test_bytes_of_a_constant_that_becomes_codes_are_counted_anew(castsmith: Command, tmp_path: Path) -> None:
    """The node stays, and holds another tensor after the pass."""
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    weights = onnx.helper.make_tensor("w", onnx.TensorProto.INT4, [6], [1, -2, 3, -4, 5, 7])
    nodes = [make("Constant", [], ["w"], value=weights), make("Gather", ["w", "i"], ["t"])]
    nodes += [make("Cast", ["t"], ["y"], to=1), make("Cast", ["w"], ["z"], to=1)]
    graph = onnx.helper.make_graph(nodes, "g", [info("i", 7, [2])], [info("y", 1, [2]), info("z", 1, [6])])
    source, imports = tmp_path / "a.onnx", [onnx.helper.make_opsetid("", 21)]
    onnx.save_model(onnx.helper.make_model(graph, opset_imports=imports, ir_version=10), source)
    words = ("--target", "openvino-cpu", "--json", "--passes", "lower-float8{always=true}")
    summary = json.loads(castsmith("optimize", source, "-o", tmp_path / "b.onnx", *words).out)["summary"]
    before, after = summary["before"]["tensor_bytes"], summary["after"]["tensor_bytes"]
    assert after != before
    assert sum(rule["bytes_added"] - rule["bytes_removed"] for rule in summary["rewrites"]) == after - before


def test_casts_of_one_name_in_two_branches_are_counted_both(castsmith: Command, tmp_path: Path) -> None:
    branch = "{name} () => (float[3] {name}_t) {{ r = Cast <to = 1> (x) {name}_t = {op} (r) }}"
    branches = [branch.format(name=name, op=op) for name, op in (("then", "Neg"), ("other", "Abs"))]
    source = write_model(
        tmp_path / "a.onnx",
        f"""<ir_version: 10, opset_import: ["" : 18]> g (float[3] x, bool c) => (float[3] y)
        {{ y = If (c) <then_branch = {branches[0]}, else_branch = {branches[1]}> }}""",
    )
    summary = json.loads(castsmith("optimize", source, "-o", tmp_path / "b.onnx", "--json").out)["summary"]
    assert (summary["before"]["casts"], summary["after"]["casts"]) == (2, 0)
    assert sum(rule["casts_removed"] for rule in summary["rewrites"]) == 2
    assert sum(rule["casts_added"] for rule in summary["rewrites"]) == 0


def duplicates(path: Path, count: int) -> Path:
    """`count` casts of one value to float16, and as many roundings that have to stay."""
    nodes = [onnx.helper.make_node("Cast", ["x"], [f"h{i}"], name=f"cast{i}", to=10) for i in range(count)]
    nodes += [onnx.helper.make_node("Cast", [f"h{i}"], [f"y{i}"], name=f"back{i}", to=1) for i in range(count)]
    nodes += [onnx.helper.make_node("Tanh", [f"h{i}"], [f"t{i}"]) for i in range(count)]
    values = [onnx.helper.make_tensor_value_info(name, 1, [4]) for name in ("x", *(f"y{i}" for i in range(count)))]
    values += [onnx.helper.make_tensor_value_info(f"t{i}", 10, [4]) for i in range(count)]
    graph = onnx.helper.make_graph(nodes, "many", values[:1], values[1:])
    onnx.save_model(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10), path
    )
    return path


def test_many_of_one_form_are_told_once(castsmith: Command, tmp_path: Path) -> None:
    source = duplicates(tmp_path / "a.onnx", 40)
    words = ("optimize", source, "-o", tmp_path / "b.onnx", "--explain")
    short, full = castsmith(*words, "--diff").out, castsmith(*words, "--diff=full").out
    assert full.count("already is the same value as float16") == 39
    assert short.count("already is the same value as float16") == 3
    assert "and in the same way (shown by --diff=full), 36 more: cast4, cast5, cast6, cast7 and 32 others" in short
    assert full.count("skipped: ") > short.count("skipped: ") == 3
    assert "for the same reason (shown by --diff=full), " in short
    assert "merge-duplicate-casts (39)" in short
    assert not [line for line in full.splitlines() if line.strip() == "+"]


def test_diff_hides_promotions_unless_asked_for(castsmith: Command, tmp_path: Path) -> None:
    words = ("optimize", write_model(tmp_path / "a.onnx", MIXED), "-o", tmp_path / "b.onnx")
    net = castsmith(*words, "--diff").out
    assert "ConvertPromoteTypes" not in net
    assert (
        "  mixed: z (Add)\n"
        "    - z = Add (x, y)  # (float[N], int16[N]) -> float[N]\n"
        "    + y_float = Cast <to = float> (y)  # (int16[N]) -> float[N]\n"
        "    + z = Add (x, y_float)  # (float[N], float[N]) -> float[N]\n"
    ) in net
    assert castsmith(*words, "--diff=full").out.count("castsmith.ConvertPromoteTypes (x, y)") == 2
