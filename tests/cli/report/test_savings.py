"""The amounts of all rules add up to the change of the model; many rewrites of one form are shown once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.parser
import onnx_ir
import pytest

from castsmith.cli.report.savings import Amount, Watched, _amounts_of  # pyright: ignore[reportPrivateUsage]
from castsmith.ir.records import NodeItem, Rewrite, Site, TextItem, ValueItem
from tests.cli.helpers import CLEAN, MIXED, Command, write_model

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


def test_the_tensors_and_casts_of_a_model() -> None:
    """By the names of values; of a node without results and of a function's default by the name of their owner."""
    model = onnx_ir.from_proto(
        onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18, "own" : 1, "castsmith" : 1]>
        main (float[2] x) => (float[2] z) <float[2] w = {1.0, 2.0}> {
            c = Constant <value = int64[3] {1, 2, 3}> ()
            h = Cast <to = 10> (x)
            o = own.Cast <to = 10> (x)
            z = CastLike (h, w)
        }
        <domain: "own", opset_import: ["" : 18]> f (a) => (b) {
            c = Constant <value = int8[1] {1}> ()
            h = Constant <value = int8[3] {1, 2, 3}> ()
            b = Cast <to = 1> (a)
        }
        <domain: "castsmith", opset_import: ["" : 18]> g (a) => (b) {
            d = Constant <value = int8[5] {1, 2, 3, 4, 5}> ()
            b = Cast <to = 1> (a)
        }""")
    )
    tensor = onnx_ir.AttrTensor("t", onnx_ir.tensor(np.zeros(7, np.int8)))
    model.graph.append(onnx_ir.Node("own", "Sink", [model.graph.inputs[0]], [tensor], num_outputs=0, name="sink"))
    model.functions[("own", "f", "")].attributes.add(tensor)
    expected = {"w": (8, 0), "c": (25, 0), "d": (5, 0), "sink": (7, 0), "f": (7, 0)}
    assert _amounts_of(model) == {**expected, "h": (3, 1), "z": (0, 1), "b": (0, 1)}


def test_what_the_rules_of_each_pass_save() -> None:
    """What a rewrite of the pass makes or else removes is its rule's; the rest is the pass's own."""
    x, c = ValueItem("x", "float"), ValueItem("c", "float16")
    cast, site, text = NodeItem("Cast", (x,), (c,)), Site("g", "n", "Cast"), TextItem("why")
    rewrites = [
        Rewrite("p", "shrink", site, [ValueItem("a", "float")], [ValueItem("a", "float16")], "why"),
        Rewrite("p", "add", site, [text], [cast], "why"),
        Rewrite("q", "drop", site, [cast], [text], "why"),
    ]
    model = onnx_ir.from_proto(onnx.parser.parse_model(CLEAN))
    one, two, three = (("p", "shrink"), ("p", "add"), ("q", "drop"))
    moments = [("p", {"a": (8, 0), "b": (0, 1)}), ("q", {"a": (4, 0), "b": (0, 1), "c": (0, 1)})]
    assert Watched(model, moments).amounts(rewrites) == {
        one: Amount(1, 0, 0, 4, 8),
        two: Amount(1, 1, 0, 0, 0),
        three: Amount(1, 0, 1, 0, 0),
        ("q", ""): Amount(0, 0, 1, 0, 4),
    }
    assert Watched(model).amounts(rewrites) == dict.fromkeys((one, two, three), Amount(1, 0, 0, 0, 0))
