"""The limits of what the pages show: neighbours of a value, the text of a change, and data that is compressed."""

from __future__ import annotations

import json
from pathlib import Path

import onnx.parser
import onnx_ir

from castsmith.cli.page.data import around, html_text
from tests.cli.helpers import Command, write_model
from tests.cli.report.test_page import data_of

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
    found = around(onnx_ir.from_proto(onnx.parser.parse_model(text)))
    assert {name: found[name] for name in ("x", "y", "w", "x0", "x1", "y3", "z")} == {
        "x": ("input", ["Relu", "Relu", "Relu"]),
        "y": ("input", ["Neg", "Neg", "Neg", "+1 more"]),
        "w": ("constant", ["Add", "Add", "Add", "+2 more"]),
        "x0": ("Relu", ["Add", "Add", "Add", "+2 more"]),
        "x1": ("Relu", ["Sum", "output"]),
        "y3": ("Neg", ["Sum"]),
        "z": ("Sum", ["output"]),
    }


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
