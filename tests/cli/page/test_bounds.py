"""The page of bounds."""

from __future__ import annotations

import re
from pathlib import Path

import onnx.parser
import onnx_ir

from castsmith.cli.page.bounds import bounds_page
from castsmith.verification.bounds import bounds
from tests.cli.page.test_overview import HEAD

BOUNDED = f"""{HEAD}
g (float[2] x, float[2] y) => (float[2] z, float[2] e) <float[2] w = {{1, 1000}}> {{
[scaled] a = Mul (x, w) [wide] b = Mul (a, a) [end] z = Add (b, b) [open] e = Exp (y) }}"""


def test_the_page_of_bounds() -> None:
    model = onnx_ir.from_proto(onnx.parser.parse_model(BOUNDED))
    page = bounds_page("<m>", bounds(model, ranges={"x": (-1.0, 1.0)}), None)
    text = re.sub("<style>.*</style>", "", page, flags=re.DOTALL)
    text = re.sub("(?=<(line|rect|tr|h1)\\b)", "\n", text)
    file = Path(__file__).parent / "golden" / "bounds.html"
    assert text == file.read_text(encoding="utf-8"), text
