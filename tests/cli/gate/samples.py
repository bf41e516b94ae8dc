"""Models with findings, and what `check` says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx

from tests.cli.helpers import Command

FOLLOWED = """<ir_version: 10, opset_import: ["" : 21], producer_name: "pytorch">
g (float16[N] x, float s) => (float16[N] z) <float16[N] a, float16[N] b> {
    a = Add (x, s)
    b = Relu (a)
    c = Neg (b)
    d = Cast <to = 10> (c)
    z = Mul (c, x)
}"""
"""One mismatched operand, with a value, a node and an output that follow; the Cast follows from nothing."""

LOSSY = """<ir_version: 10, opset_import: ["" : 21]>
lossy (float[N] x) => (float[N] z) {
    a = Cast <to = 10> (x)
    z = Cast <to = 1> (a)
}"""
SPLIT = """<ir_version: 10, opset_import: ["" : 21]>
split (float[4] x) => (float[2] z) <float16[2] a, float16[2] b> {
    a, b = Split <num_outputs = 2> (x)
    z = Add (a, b)
}"""
"""Two findings of one code at one node."""
BAD_NAME = "%0A::error ::|<b>@someone`:,"


def found(castsmith: Command, *words: str) -> list[dict[str, Any]]:
    data = json.loads(castsmith("check", *words, "--json").out)
    return [each for model in data.get("models", [data]) for each in model["findings"]]


def hostile(folder: Path) -> None:
    """Write a model with a name that means something in workflow commands, Markdown and HTML."""
    model = onnx.parser.parse_model(LOSSY.replace("Cast <to = 1> (a)", "Add (a, x)"))
    model.graph.node[1].name = BAD_NAME
    onnx.save(model, folder / "a,b:c%.onnx")
