"""The data of the HTML pages, whole, of one run, a difference and many models; the keys by which rows are grouped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from castsmith import __version__
from castsmith.cli.text.rewrites import refusal_form
from castsmith.ir.records import Refusal, Site
from tests.cli.helpers import UNSAFE, Command, write_model
from tests.cli.page.test_data import data_of

GOLDEN = Path(__file__).parent / "golden"

MODEL = """<ir_version: 10, opset_import: ["" : 18]>
layers (float[N] x, int16[N] y, bool c) => (float[N] z, float16[N] h)
<float[2] w = {1.0, 1000.0}, float[2] v = {-2.0, 2000.0}> {
    [constant] two = Constant <value_float: float = 2.0> ()
    [sum] a = Add (x, y)
    [product] b = Mul (a, two)
    [wide] p = Cast <to = 11> (b)
    [narrow] h = Cast <to = 10> (p)
    [quotient] d = Div (b, two)
    [choice] e = If (c) <
        then_branch = then () => (float[N] t) { [same] r = Cast <to = 1> (d) [relu] t = Relu (r) },
        else_branch = other () => (float[N] u) { [negated] u = Neg (d) }
    >
    i = Cast <to = 3> (w)
    j = Cast <to = 3> (v)
    [whole] k = Add (i, j)
    [float] l = Cast <to = 1> (k)
    [total] m = ReduceSum <keepdims = 0> (l)
    [end] z = Add (e, m)
}"""


def golden(name: str, data: Any) -> None:
    """Compare the data with the golden file; if they differ, the message is the new text, to be read and taken."""
    text = json.dumps(data, indent=1, ensure_ascii=False).replace(f"castsmith {__version__}", "castsmith VERSION")
    assert json.loads(text) == json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8")), text


def test_the_data_of_pages(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(Path("a.onnx"), MODEL)
    assert castsmith("optimize", "a.onnx", "-o", "b.onnx", "--report", "page.html").code == 0
    golden("optimize", data_of(Path("page.html").read_text(encoding="utf-8")))
    golden("diff", data_of(castsmith("diff", "a.onnx", "b.onnx", "--format", "html").out))


@pytest.mark.usefixtures("one_process")
def test_the_data_of_many_models(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    write_model(Path("in/a.onnx"), MODEL)
    write_model(Path("in/b.onnx"), UNSAFE)
    assert castsmith("optimize", "in", "-o", "out/", "--report", "page.html").code == 1
    data = data_of(Path("page.html").read_text(encoding="utf-8"))
    for model in data["models"]:  # the page of one model is judged above
        model["page"] = None if model["page"] is None else sorted(model["page"])
    golden("many", data)


def test_refusals_are_alike_if_only_names_and_numbers_differ() -> None:
    refusal = Refusal(
        "fold-constants", "fold-undefined", Site("g"), "element [1] of w_0 is UNDEFINED: too large", "1.0"
    )
    alike = Refusal("fold-constants", "fold-undefined", Site("h"), "element [2] of w_1 is UNDEFINED: too large", "1.0")
    assert refusal_form(refusal) == refusal_form(alike)
    for other in ("element [1] of w_0 is UNDEFINED: too small", "2.0"):
        reason, witness = (refusal.reason, other) if other[0].isdigit() else (other, refusal.witness)
        changed = Refusal(refusal.pass_name, refusal.rule, refusal.site, reason, witness)
        assert refusal_form(changed) != refusal_form(refusal)
