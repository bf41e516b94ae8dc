"""The lines of a verdict with tolerances, and verdicts as data and as a page; without tolerances: test_summary.py."""

from __future__ import annotations

import math

import onnx.parser
import onnx_ir

from castsmith.cli.page.verify import verify_page
from castsmith.cli.text.verify import verdict_data, verdict_lines
from castsmith.ir.records import NodeItem, Site, ValueItem, item_text
from castsmith.verification.compare import Count, Difference, Tolerance
from castsmith.verification.verdict import Mismatch, Traced, Verdict
from tests.cli.helpers import marked

X, Y = ValueItem("x", "float"), ValueItem("y", "float16")
NEG, ABS = (NodeItem(op, (X,), (Y,)) for op in ("Neg", "Abs"))
MISMATCH = Mismatch(
    "one", "y", Site("g", "n", "Abs"), (NEG, ABS), Difference((0, 2), "-1", "1", 3, 6), ("x is 1",), ("z",)
)
OUTPUTS = {"y": Count(6, 2, absolute=0.012345, relative=0.5), "z": Count(1)}
WIDE = {"y": Tolerance(0.5, 0.25)}


def lines(verdict: Verdict) -> list[str]:
    return [marked(line) for line in verdict_lines("A", "B", verdict)]


def test_with_a_tolerance_the_largest_errors_are_said() -> None:
    verdict = Verdict("reference", runs=["one"], outputs=OUTPUTS, tolerances=WIDE, seconds=1.25)
    errors = "; largest error 0.0123, relative 0.5 (rtol 0.5, atol 0.25)"
    outputs = [
        f"  y: tested, 4 of 6 elements, 2 left out: the standard leaves them undefined{errors}|4",
        "  z: tested, 1 of 1 elements|4",
        "  compared in 1.2 s|4",
    ]
    head = "<green>match<> within rtol 0.5, atol 0.25 on 1 set of inputs: 5 of 7 elements of outputs compared|2"
    assert lines(verdict) == [head, *outputs]
    differs = Verdict("reference", MISMATCH, runs=["one"], outputs=OUTPUTS, tolerances=WIDE, seconds=1.25)
    assert lines(differs)[:2] == [
        "<red>different<> on inputs one|2",
        "  the first value that exceeds the tolerance is <bold>y|4",
    ]
    assert lines(differs)[7] == "  y[0, 2] is 1 in B (3 of 6 elements exceed it)|4"
    assert lines(differs)[9:] == outputs
    assert len(lines(Verdict("reference", MISMATCH, outputs=OUTPUTS, tolerances=WIDE))) == 10  # it ran on no inputs


def test_the_style_of_each_outcome_and_part() -> None:
    assert lines(Verdict("reference", unsure=["why"], advice=["pass `seconds=`"], runs=["one"])) == [
        "<yellow>inconclusive<>: 0 of 0 elements of outputs compared, on 1 set of inputs|2",
        "  why|4",
        "  to decide it, pass --time-limit|4",
    ]
    assert lines(Verdict("reference", interface=["an input is gone"])) == [
        "<red>different<>: the interfaces differ|2",
        "  an input is gone|4",
    ]
    assert lines(Verdict("reference", MISMATCH))[2:] == [
        "  made by <cyan>g: n (Abs)|4",
        "  inside the subgraph of z|4",
        "<red>    - y = Neg (x)<dim>  # (float) -> float16|8",
        "<green>    + y = Abs (x)<dim>  # (float) -> float16|8",
        "  y[0, 2] is -1 in A|4",
        "  y[0, 2] is 1 in B (3 of 6 elements differ)|4",
        "<dim>    where x is 1|6",
    ]
    nameless = Mismatch("one", "", Site(""), (None, None), Difference((), "runs", "does not run", 1, 1))
    assert lines(Verdict("reference", nameless)) == ["<red>different<> on inputs one|2", "  B does not run|4"]


def test_the_data_of_a_verdict() -> None:
    verdict = Verdict(
        "onnxruntime", MISMATCH, ["i"], ["pass `seconds=`"], ["one"], [("two", "it has no `dims=`")], OUTPUTS,
        {"z": "in the same way"}, ["a"], ["branch"], ["y is 1"], ("Erf",), {"reference": ("Abs", "Neg")}, ["n"],
        1.23456, ["d"], WIDE,
    )  # fmt: skip
    assert verdict_data(verdict) == {
        "verdict": "different",
        "same": False,
        "engine": "onnxruntime",
        "difference": {
            "set": "one",
            "value": "y",
            "place": {"graph": "g", "node": "n", "op": "Abs", "output": ""},
            "node_a": item_text(NEG),
            "node_b": item_text(ABS),
            "index": [0, 2],
            "a": "-1",
            "b": "1",
            "elements": 3,
            "of": 6,
            "operands": ["x is 1"],
            "within": ["z"],
        },
        "interface": ["i"],
        "unsure": ["pass --time-limit"],
        "advice": ["d"],
        "sets": ["one"],
        "skipped": [{"set": "two", "reason": "it has no --dim NAME=SIZE"}],
        "outputs": [
            {
                "name": "y",
                "elements": 6,
                "compared": 4,
                "undefined": 2,
                "proven": None,
                "absolute": 0.012345,
                "relative": 0.5,
            },
            {
                "name": "z",
                "elements": 1,
                "compared": 1,
                "undefined": 0,
                "proven": "in the same way",
                "absolute": None,
                "relative": None,
            },
        ],
        "elements": 7,
        "compared": 5,
        "undefined": 2,
        "accepted": ["a"],
        "not_reached": ["branch"],
        "runtime": ["y is 1"],
        "stood_in": ["Erf"],
        "computed": {"reference": ["Abs", "Neg"]},
        "notes": ["n"],
        "seconds": 1.235,
    }
    equal = verdict_data(Verdict("reference", outputs={"y": Count(1, absolute=math.inf)}, tolerances=WIDE))
    assert (equal["verdict"], equal["same"], equal["difference"], equal["outputs"][0]["absolute"]) == (
        *("equal", True, None, "inf"),
    )


def test_the_page_of_a_verdict() -> None:
    texts = [
        f'<ir_version: 10, opset_import: ["" : 21]> g (float[6] x) => (float[6] y) {{ [n] a = {op} (x) {last} }}'
        for op, last in (("Neg", "y = Exp (a)"), ("Abs", "b = Exp (a) h = Cast <to = 10> (b) y = Cast <to = 1> (h)"))
    ]
    a, b = (onnx_ir.from_proto(onnx.parser.parse_model(text)) for text in texts)
    traced = [Traced("a", 2.0, math.inf), Traced("gone", 1.0, 1.0), Traced("y", 3.0, 0.5)]
    verdict = Verdict(
        "reference", MISMATCH, unsure=["u"], advice=["d"], accepted=["k"], runs=["one"], outputs=OUTPUTS,
        tolerances=WIDE, traced=traced,
    )  # fmt: skip
    page = verify_page(("A", "B"), a, b, verdict)
    assert page["title"] == "A \u2192 B"
    assert page["figures"] == [("verdict", "different"), ("sets of inputs", "1"), ("elements compared", "5 of 7")]
    (item,) = page["items"]
    assert (item["group"], item["rule"], item["place"], item["detail"]) == (
        "Abs",
        "first-difference",
        "g: n (Abs)",
        "x is 1",
    )
    assert item["reason"] == "y[0, 2] is -1 in A and 1 in B, on inputs one"
    assert (item["before"], item["after"], item["drawn"]) == (item_text(NEG), item_text(ABS), True)
    assert page["error"] == {
        "title": "largest errors by output",
        "table": [
            ("output", "compared", "absolute", "relative", "allowed"),
            ("y", "4", "0.0123", "0.5", "rtol 0.5, atol 0.25"),
            ("z", "1", "0", "0", "nothing"),
        ],
        "notes": ["u", "to decide it, d", "k"],
    }
    assert page["map"] == [
        {"name": "n", "op": "Neg", "type": "float", "magnitude": 2.0, "error": 1.7976931348623157e308},
        {"name": "y", "op": "Exp", "type": "float16", "magnitude": 3.0, "error": 0.5},  # before the last cast
    ]
    nameless = Mismatch("one", "y", Site("g"), (None, None), Difference((), "-1", "1", 1, 1))
    (item,) = verify_page(("A", "B"), a, b, Verdict("reference", nameless))["items"]
    assert (item["group"], item["drawn"], item["reason"]) == ("output", False, "y is -1 in A and 1 in B, on inputs one")
    equal = verify_page(("A", "B"), a, b, Verdict("reference", runs=["one"], outputs=OUTPUTS))
    assert (equal["items"], equal["figures"][0]) == ([], ("verdict", "match"))
