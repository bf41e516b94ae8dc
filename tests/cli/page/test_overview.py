"""The limits of what pages and comments show: neighbours, texts, edges, findings; the whole page of bounds."""

from __future__ import annotations

import json
from pathlib import Path

import onnx.parser
import onnx_ir

from castsmith.cli.gate.comments import LARGEST, markdown_text
from castsmith.cli.gate.judging import Checked
from castsmith.cli.page.data import html_text
from castsmith.cli.page.overview import overview
from castsmith.ir.records import Diagnostic, Item, NodeItem, Severity, Site, TextItem, ValueItem
from tests.cli.helpers import Command, write_model
from tests.cli.page.test_data import data_of

HEAD = '<ir_version: 10, opset_import: ["" : 18]>'


def test_the_neighbours_of_values() -> None:
    nodes = " ".join(
        [
            *(f"[x_{index}] x{index} = Relu (x)" for index in range(3)),
            *(f"[y_{index}] y{index} = Neg (y)" for index in range(4)),
            *(f"[w_{index}] w{index} = Add (w, x0)" for index in range(5)),
            "[end] z = Sum (x1, x2, y0, y1, y2, y3, w0, w1, w2, w3, w4)",
        ]
    )
    text = f"{HEAD} g (float[2] x, float[2] y) => (float[2] z, float[2] x1) <float[2] w = {{1, 2}}> {{ {nodes} }}"
    model_map = overview(onnx_ir.from_proto(onnx.parser.parse_model(text)))
    assert {name: model_map.neighbours(name) for name in ("x", "y", "w", "x0", "x1", "y3", "z")} == {
        "x": ("input", ["Relu", "Relu", "Relu"]),
        "y": ("input", ["Neg", "Neg", "Neg", "+1 more"]),
        "w": ("constant", ["Add", "Add", "Add", "+2 more"]),
        "x0": ("Relu", ["Add", "Add", "Add", "+2 more"]),
        "x1": ("Relu", ["Sum", "output"]),
        "y3": ("Neg", ["Sum"]),
        "z": ("Sum", ["output"]),
    }
    assert model_map.neighbours("nothing") is None


def test_the_map_of_nodes_without_some_names() -> None:
    """A node is labelled by its name, its first result, or not at all; constants are beside their first user."""
    text = f"""{HEAD} g (float[2] x) => (float[2] z, float[2] given) <float[2] w = {{1, 2}}> {{
        first = Constant <value_float = 1.0> ()
        [named] a = Add (x, first)
        b = Clip (a, , top)
        , left = Pair (b)
        free = Constant <value_float = 1.0> ()
        late = Constant <value_float = 1.0> ()
        top = Constant <value_float = 1.0> ()
        c = Sum (b, late)
        z = Add (c, w)
    }}"""
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    model_map = overview(model)
    assert model_map.labels == ["first", "named", "b", "", "free", "late", "top", "c", "z"]
    assert model_map.depths == [0, 0, 1, 2, 0, 1, 0, 2, 3]
    assert model_map.edges == [1, 2, 2, 3, 2, 7, 7, 8]
    assert model_map.neighbours("given") == ("", ["output"])
    assert model_map.neighbours("z") == ("Add", ["output"])
    assert model_map.neighbours("") is None
    assert model_map.maker_of("b") == {"name": "b", "op": "Clip"}
    assert model_map.maker_of("x") is None

    def places(*removed: Item | None, added: tuple[Item | None, ...] = ()) -> list[int]:
        return model_map.places(removed, added)

    made = [NodeItem("Relu", (), (ValueItem(name),)) for name in ("a", "c", "new")]
    assert places(made[1], None, made[0]) == [1, 7]
    assert places(made[2], made[0]) == [1]
    assert places(ValueItem("w")) == [8]  # its user
    assert places(ValueItem("x")) == [1]
    assert places(None, added=(NodeItem("Neg", (ValueItem("c"), ValueItem("x")), (ValueItem("new"),)),)) == [1]
    assert places(None, added=(NodeItem("Neg", (ValueItem("c"),), (ValueItem("new"),)),)) == [7]
    assert places(TextItem("a"), added=(ValueItem("nowhere"),)) == []


def test_the_text_of_a_change_is_cut_after_90_characters(castsmith: Command, tmp_path: Path) -> None:
    for length in (90, 91):
        name = "n" * (length - len("z = Relu ()"))
        before, after = (
            write_model(
                tmp_path / f"{operator}.onnx",
                f"{HEAD} g (float[2] {name}) => (float[2] z) {{ [node] z = {operator} ({name}) }}",
            )
            for operator in ("Relu", "Tanh")
        )
        (item,) = data_of(castsmith("diff", before, after, "--format", "html").out)["items"]
        sides = (f"z = {operator} ({name})" for operator in ("Relu", "Tanh"))
        cut = "" if length == 90 else "\u2026"
        assert item["reason"] == " \u2192 ".join(f"{side[:90]}{cut}" for side in sides)


def test_data_beyond_a_size_is_compressed() -> None:
    limit = 1 << 18
    for size in (limit, limit + 1):
        data = {"text": ""}
        data["text"] = "x" * (size - len(json.dumps(data, separators=(",", ":"))))
        page = html_text(data)
        assert data_of(page) == data
        assert ("x" * 1000 in page) == (size == limit)


def test_the_map_has_edges_up_to_a_number_of_nodes() -> None:
    for count in (3000, 3001):
        value = onnx_ir.Value(name="x")
        graph = onnx_ir.Graph([value], [], nodes=[], name="g")
        for _ in range(count):
            graph.append(onnx_ir.Node("", "Relu", [value]))
            value = graph[-1].outputs[0]
        data = overview(onnx_ir.Model(graph, ir_version=10)).data()
        assert (data["depths"], data["names"]) == ([*range(count)], ["Relu"])
        assert len(data["edges"]) == (2 * (count - 1) if count == 3000 else 0)


def comment(count: int, message: str, way_out: str = "") -> str:
    """Return the comment on so many findings that are alike."""
    sites = [Site("g", f"n{index}", "Cast") for index in range(count)]
    found = [Diagnostic("a-code", Severity.NOTE, site, message, way_out) for site in sites]
    return markdown_text([Checked("m.onnx", found)], "onnxruntime-cpu")


def test_a_comment_lists_50_findings_of_a_cause() -> None:
    for count in (51, 52):
        listed = [f"- `g: n{index} (Cast): a-code text`" for index in range(1, 51)]
        assert comment(count, "text").splitlines() == [
            f"**castsmith check** for `onnxruntime-cpu`: {count} notes in 1 model",
            "",
            "| severity | code | model and place | finding | fix |",
            "|---|---|---|---|---|",
            f"| note | `a-code` | `m.onnx`<br>`g: n0 (Cast)` | `text`<br>{count - 1} more like it |  |",
            "",
            "<details>",
            f"<summary><code>m.onnx: a-code</code>: {count - 1} more like it</summary>",
            "",
            *listed,
            *(["- and 1 more"] if count == 52 else []),
            "",
            "</details>",
        ]


def test_a_comment_is_cut_beyond_the_largest_number_of_characters() -> None:
    rest = "\n\nThe rest is omitted: a comment holds at most 65,536 characters.\n"
    room, lengths = LARGEST - len(rest) + 1, list[int]()
    for way_out in ("h", "hh"):  # it is shown once, the message twice
        size = (room - len(comment(2, "x", way_out))) // 2 + 1
        whole, cut = (comment(2, "x" * each, way_out) for each in (size, size + 1))
        assert whole.endswith("\n\n</details>\n")
        assert cut.endswith(f" | `{way_out}` |{rest}")
        lengths.append(len(whole))
    assert sorted(lengths) == [room - 1, room]
