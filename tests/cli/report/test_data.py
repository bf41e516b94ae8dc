"""The data of the HTML pages, whole, of one run, a difference and many models; the keys by which rows are grouped."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith import __version__
from castsmith.cli.page.data import entry, report_page
from castsmith.cli.page.overview import overview
from castsmith.cli.report.data import effect_text, report_data
from castsmith.cli.report.savings import Amount, Measure, ModelSizes
from castsmith.cli.text.rewrites import refusal_form
from castsmith.ir.records import (
    Diagnostic,
    Effect,
    Item,
    NodeItem,
    Refusal,
    Rewrite,
    Severity,
    Site,
    ValueItem,
    item_text,
)
from castsmith.lowering.faults import Fault
from castsmith.lowering.fit.results import FitResult
from castsmith.lowering.results import Accuracy, ConvertResult, OutputError, Result
from castsmith.verification.compare import Count
from castsmith.verification.verdict import Verdict
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


EMPTY = onnx_ir.Model(onnx_ir.Graph([], [], nodes=[]), ir_version=10)
SITE, PLACE = Site("g", "n", "Abs", "o"), {"graph": "g", "node": "n", "op": "Abs", "output": "o"}
VALUE = ValueItem("x", "float", "[2]", "1, 2", "constant")
NODE = NodeItem("Cast", (VALUE, None), (ValueItem("y"),), (("to", "float16"),), "own", "n")
SIZES = ModelSizes(
    Measure(2, 1, {"Abs": 1, "Cast": 1}, 8, {"float": 8}, 100),
    Measure(1, 0, {"Abs": 1}, 4, {"int8": 4}),
    {("p", "r"): Amount(1, 2, 3, 4, 5)},
)
ERROR = Accuracy(
    ("one",), (OutputError("y", math.inf, 0.5, math.nan, None),), ("n", math.inf), ("a",), {"n": 1.0}, ("note",),
    {"i": (1, 2)},
)  # fmt: skip
ERROR_DATA = {
    "sets": ["one"],
    "outputs": [{"name": "y", "absolute": "inf", "relative": 0.5, "cosine": "nan", "top1": None}],
    "leap": {"node": "n", "error": "inf"},
    "overflows": ["a"],
    "notes": ["note"],
    "differing": [{"name": "i", "elements": 1, "of": 2}],
}


def test_every_record_of_a_report() -> None:
    result = Result(
        EMPTY,
        [Rewrite("p", "r", SITE, [NODE, VALUE], "text", "why", Effect.IN_WIDER_TYPE, 96)],
        [Refusal("p", "s", SITE, "why not", "1.5")],
        [Diagnostic("c", Severity.WARNING, SITE, "what", "help")],
        Verdict(
            "reference", None, [], ["pass `seconds=`"], ["one"], [], {"y": Count(6, 2)}, {"z": "", "b": ""}, ["kept"]
        ),
    )
    value = {"kind": "value", "name": "x", "type": "float[2]", "content": "1, 2", "role": "constant"}
    node = {
        "kind": "node", "domain": "own", "op": "Cast", "name": "n", "attributes": {"to": "float16"},
        "inputs": [value, None], "outputs": [{"kind": "value", "name": "y", "type": "", "content": None, "role": ""}],
    }  # fmt: skip
    amount = {"count": 1, "casts_added": 2, "casts_removed": 3, "bytes_added": 4, "bytes_removed": 5}
    assert report_data("a", None, "t", result, SIZES) == {
        "castsmith": __version__,
        "input": "a",
        "output": None,
        "target": "t",
        "summary": {
            "before": {
                "nodes": 2, "casts": 1, "operators": {"Abs": 1, "Cast": 1}, "tensor_bytes": 8,
                "tensor_types": {"float": 8}, "file_bytes": 100,
            },
            "after": {
                "nodes": 1, "casts": 0, "operators": {"Abs": 1}, "tensor_bytes": 4, "tensor_types": {"int8": 4},
                "file_bytes": None,
            },
            "rewrites": [{"pass": "p", "rule": "r", **amount}],
            "refusals": 1,
            "diagnostics": 1,
        },
        "rewrites": [
            {
                "pass": "p", "rule": "r", "place": PLACE, "before": f"{item_text(NODE)}\n{VALUE.code}", "after": "text",
                "removed": [node, value], "made": [{"kind": "text", "text": "text"}], "reason": "why",
                "effect": "in-wider-type", "saved_bytes": 96,
            }
        ],
        "refusals": [{"pass": "p", "rule": "s", "place": PLACE, "reason": "why not", "witness": "1.5"}],
        "diagnostics": [{"code": "c", "severity": "warning", "place": PLACE, "message": "what", "help": "help"}],
        "verification": {
            "verdict": "inconclusive", "engine": "reference", "sets": 1, "elements": 6, "compared": 4,
            "proven": ["b", "z"], "accepted": ["kept"], "unsure": ["pass --time-limit"],
        },
    }  # fmt: skip


def test_a_conversion_in_a_report() -> None:
    fault = Fault(onnx_ir.node("Mul", []), "m", "g: m (Mul)", "v", "inside", 7e4)
    result = ConvertResult(
        EMPTY,
        precisions={"n": (DataType.FLOAT16, "fits"), "m": (DataType.FLOAT, "why")},
        regions={"n": 3},
        error=ERROR,
        attempts=2,
        before=ERROR,
        factors={"m_scaled": 4},
        faults=(fault,),
    )
    data = report_data("a", "b", None, result, SIZES)
    assert (data["output"], data["target"], data["verification"]) == ("b", None, None)
    assert data["conversion"] == {
        "precisions": [
            {"node": "n", "type": "float16", "region": 3, "reason": "fits"},
            {"node": "m", "type": "float", "region": 0, "reason": "why"},
        ],
        "attempts": 2,
        "faults": [{"node": "m", "value": "v", "kind": "inside", "magnitude": 7e4, "place": "g: m (Mul)"}],
        "factors": {"m_scaled": 4},
        "before": ERROR_DATA,
        "error": ERROR_DATA,
    }
    assert report_data("a", "b", None, ConvertResult(EMPTY), SIZES)["conversion"]["error"] is None


def test_the_words_of_effects() -> None:
    for effect, word in ((Effect.BIT_EXACT, "bit-exact"), (Effect.BIT_EXACT_BUT_NAN, "bit-exact-but-nan")):
        assert effect_text(Rewrite("p", "r", SITE, effect=effect)) == word
    assert effect_text(Rewrite("p", "r", SITE, saved_bytes=0)) == "bit-exact, saves 0 bytes"


def found(name: str, severity: Severity = Severity.WARNING, help: str = "") -> Diagnostic:
    return Diagnostic("c", severity, Site("g", name, "Abs"), "what", help)


def test_the_page_of_a_run() -> None:
    """The findings, the rewrites and the refusals, with the figures and the table of rules."""
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { [n] y = Abs (x) }'
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    made = NodeItem("Abs", (ValueItem("x", "float"),), (ValueItem("y", "float"),))
    result = ConvertResult(
        model,
        [Rewrite("p", "r", SITE, made, made, "same", Effect.REPAIR), Rewrite("p", "r", SITE, "a", made, "drawn")],
        [Refusal("p", "s", Site("g", "n", "Abs"), "why not", "1.5"), Refusal("p", "convert-node", Site("g"), "kept")],
        [found("n", help="help"), found("m")],
        precisions={"n": (DataType.FLOAT16, "fits"), "m": (DataType.FLOAT, "why")},
        operators={"n": "Abs"},
        magnitudes={"n": math.inf},
        error=ERROR,
    )
    page = report_page("a", "b", overview(model), result, SIZES)
    assert page["figures"] == [
        *(("rewrites", "2"), ("kept in a wider type", "1"), ("skipped", "1"), ("nodes", "2 \u2192 1")),
        *(("casts", "1 \u2192 0"), ("tensors", "8 B \u2192 4 B"), ("file", "100 B \u2192 0 B")),
    ]
    shown = [(i["kind"], i["group"], i["rule"], i["reason"], i["drawn"], i["form"]) for i in page["items"]]
    assert shown == [
        ("diagnostic", "warning", "c", "what (help)", False, 0),
        ("diagnostic", "warning", "c", "what", False, 1),
        ("rewrite", "p", "r", "same [repair]", False, 2),
        ("rewrite", "p", "r", "drawn [bit-exact]", True, 3),
        ("refusal", "p", "s", "why not (example value: 1.5)", False, 4),
        ("refusal", "p", "convert-node", "kept", False, 5),
    ]
    assert [item["before"] for item in page["items"]][2:] == [
        item_text(made),
        "a",
        "y = Abs (x)  # (float[2]) -> float[2]",
        "",
    ]
    assert page["rules"] == [
        {"group": "p", "rule": "r", "count": "1", "casts": "+2 \u22123", "bytes": "+4 B \u22125 B"},
    ]
    assert page["map"] == [
        {"name": "n", "op": "Abs", "type": "float16", "reason": "fits", "magnitude": sys.float_info.max},
        {"name": "m", "op": "", "type": "float", "reason": "why"},
    ]
    assert page["error"] == {
        "title": "error on 1 set of inputs, relative to the largest element",
        "table": [("output", "relative", "absolute", "cosine", "top-1"), ("y", "0.5", "inf", "nan", "")],
        "notes": [
            "output i: 1 of 2 elements differs",
            "the error leaps first at n: by inf",
            "1 value became infinite or NaN: a",
            "note",
        ],
    }
    verified = Result(model, verdict=Verdict("reference", runs=["one"], outputs={"y": Count(2)}))
    page = report_page("a", "b", overview(model), verified, SIZES)
    assert page["figures"][-1] == ("verified", "match on 1 set of inputs")
    assert ("skipped", "0") in page["figures"]
    assert not {"map", "error"} & {*page}
    assert not any(name == "kept in a wider type" for name, _ in page["figures"])
    fitted = FitResult(model, error=ERROR, conversion=result)
    assert {"map", "error"} <= {*report_page("a", "b", overview(model), fitted, SIZES)}
    assert "error" not in report_page("a", "b", overview(model), FitResult(model, conversion=result), SIZES)


def test_the_picture_of_items() -> None:
    def drawn(item: Item) -> dict[str, Any]:
        return entry(overview(EMPTY), "k", "g", "r", "p", "why", (), (item,), drawn=True)["drawing"]["before"][0]

    assert drawn(NODE) == {
        "op": "own.Cast", "outs": ["y"], "outTypes": [""], "ins": ["x", ""], "inTypes": ["float[2]", ""],
        "note": "to float16",
    }  # fmt: skip
    several = NodeItem("Sum", (), (), (("axis", "1"), ("keep", "0")))
    assert (drawn(several)["note"], drawn(several)["op"]) == ("axis = 1, keep = 0", "Sum")
    assert drawn(VALUE) == {
        "op": "constant", "outs": ["x"], "outTypes": ["float[2]"], "ins": [], "inTypes": [], "note": "1, 2",
    }  # fmt: skip
    plain = ValueItem("x", "float", "[2]", None, "input")
    assert drawn(plain) == {"op": plain.code, "outs": [], "outTypes": [], "ins": [], "inTypes": [], "note": ""}


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
