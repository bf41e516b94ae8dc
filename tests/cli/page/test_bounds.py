"""The page of bounds."""

from __future__ import annotations

import onnx.parser
import onnx_ir

from castsmith.cli.page.bounds import bounds_page
from castsmith.verification.bounds import bounds, exceeding
from tests.cli.page.test_overview import HEAD

BOUNDED = f"""{HEAD}
g (float[2] x, float[2] y) => (float[2] z, float[2] e) <float[2] w = {{1, 1000}}> {{
[scaled] a = Mul (x, w) [wide] b = Mul (a, a) [end] z = Add (b, b) [open] e = Exp (y) }}"""


def test_the_page_has_the_widest_values_and_the_magnitudes_along_the_graph() -> None:
    model = onnx_ir.from_proto(onnx.parser.parse_model(BOUNDED))
    computed = bounds(model, ranges={"x": (-1.0, 1.0)})
    page = bounds_page("m", model, computed, "float16", exceeding(computed, "float16"))
    assert page["items"] == []
    assert [row[0] for row in page["error"]["table"][1:3]] == ["z, end (Add)", "b, wide (Mul)"]
    assert ("a, scaled (Mul)", "[-1000, 1000]", "proven") in page["error"]["table"]
    declared, kept = page["error"]["notes"]  # z is beyond float16 because b is, and e because y is
    assert declared == "y: declare the range of y"
    assert kept.startswith("b: keep wide (Mul) in float")
    nodes = {node["name"]: node for node in page["map"]}
    assert {name for name, node in nodes.items() if node.get("magnitude", 0) > 65504} == {"wide", "end"}
    assert "magnitude" not in nodes["open"]
    assert dict(page["figures"])["beyond float16"] == str(len(exceeding(computed, "float16")))
