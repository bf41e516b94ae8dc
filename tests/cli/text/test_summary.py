"""The texts of results that are made here: verdicts, conversions and measured errors, at the limits of what is named.

Also the exit code of several results, and sentences on a terminal.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.cli.exit_codes import worst
from castsmith.cli.messages import complain
from castsmith.cli.report.savings import Amount, Measure, ModelSizes
from castsmith.cli.text.summary import (
    _differing,  # pyright: ignore[reportPrivateUsage]
    fault_lines,
    print_result,
)
from castsmith.cli.text.verify import verdict_lines
from castsmith.ir.records import NodeItem, Refusal, Rewrite, Site, ValueItem
from castsmith.lowering.faults import Fault
from castsmith.lowering.results import Accuracy, ConvertResult, OutputError, Result
from castsmith.verification.compare import Count, Difference
from castsmith.verification.verdict import Mismatch, Verdict
from tests.sampling import check_all

NODES = (
    NodeItem("Neg", (ValueItem("x", "float"),), (ValueItem("y", "float"),)),
    NodeItem("Abs", (ValueItem("x", "float"),), (ValueItem("y", "float"),)),
)

VERDICTS = [
    (
        Verdict(
            "reference",
            unsure=["`promote_unsafe` is needed", "z was never compared"],
            runs=["one"],
            skipped=[("two", "it divides by 0"), ("three", "it has no `dims=`")],
            outputs={"y": Count(6, 2), "z": Count(1)},
            proven={"z": "computed in the same way"},
            accepted=["the output y is int8 and uint8"],
            not_reached=[f"branch {index}" for index in range(9)],
            runtime=["y[0] is 1 and 2"],
            stood_in=("Erf", "Gelu"),
            computed={"castsmith": ("Cast",), "reference": tuple(f"Op{index}" for index in range(9))},
            notes=["a note on `seconds=`"],
        ),
        [
            "inconclusive: 5 of 7 elements of outputs compared, on 1 set of inputs;"
            " 1 of 2 outputs proven for all inputs",
            "  --promote-unsafe is needed",
            "  z was never compared",
            "  y: tested, 4 of 6 elements, 2 left out: the standard leaves them undefined",
            "  z: proven, computed in the same way, 1 of 1 elements",
            "  the output y is int8 and uint8",
            "  not run on inputs two, and 1 more: it divides by 0",
            *(f"  not reached: branch {index}" for index in range(8)),
            "  not reached: 1 more (--json has all)",
            "  the reference implementation of ONNX cannot run, or would narrow, Erf, Gelu:"
            " the reference implementation ran them",
            "  computed by exact arithmetic: Cast; by the reference implementation of ONNX, each by itself: Op0, Op1,"
            " Op2, Op3, Op4, Op5, Op6, Op7 and 1 more",
            "  a note on --time-limit",
            "  note: the runtime changes this value, not the model: y[0] is 1 and 2",
        ],
    ),
    (
        Verdict(
            "reference",
            runs=["one", "two"],
            skipped=[("three", "it divides by 0")],
            outputs={"y": Count(6)},
            not_reached=[f"branch {index}" for index in range(8)],
            computed={"reference": tuple(f"Op{index}" for index in range(8))},
        ),
        [
            "match on 2 sets of inputs: 6 of 6 elements of outputs compared",
            "  y: tested, 6 of 6 elements",
            "  not run on inputs three: it divides by 0",
            *(f"  not reached: branch {index}" for index in range(8)),
            "  computed by the reference implementation of ONNX, each by itself: Op0, Op1, Op2, Op3, Op4, Op5, Op6,"
            " Op7",
        ],
    ),
    (
        Verdict(
            "reference",
            mismatch=Mismatch(
                "one",
                "y",
                Site("g", "n", "Abs"),
                NODES,
                Difference((0, 2), "-1.0", "1.0", 3, 6),
                ("x[0, 2] is 1.0",),
                ("z", "iteration 2"),
            ),
            outputs={"y": Count(6)},
        ),
        [
            "different on inputs one",
            "  the first value that differs is y",
            "  made by g: n (Abs)",
            "  inside the subgraph of z, iteration 2",
            "    - y = Neg (x)  # (float) -> float",
            "    + y = Abs (x)  # (float) -> float",
            "  y[0, 2] is -1.0 in A",
            "  y[0, 2] is 1.0 in B (3 of 6 elements differ)",
            "    where x[0, 2] is 1.0",
        ],
    ),
    (
        Verdict(
            "reference",
            mismatch=Mismatch("one", "y", Site("g"), (None, NODES[1]), Difference((), "-1.0", "1.0", 1, 1)),
        ),
        [
            "different on inputs one",
            "  the first value that differs is y",
            "    + y = Abs (x)  # (float) -> float",
            "  y is -1.0 in A",
            "  y is 1.0 in B",
        ],
    ),
    (
        Verdict("reference", interface=["the outputs differ in names: y and z"], outputs={"y": Count(6)}),
        ["different: the interfaces differ", "  the outputs differ in names: y and z"],
    ),
]


def test_verdicts() -> None:
    check_all(verdict_has_lines, VERDICTS)


def verdict_has_lines(verdict: Verdict, lines: list[str]) -> None:
    assert [line.plain for line in verdict_lines("A", "B", verdict)] == lines


SIZES = ModelSizes(
    Measure(9, 3, {"Relu": 6, "Cast": 3}, 1500, {"float": 1500}, 2000),
    Measure(11, 3, {"Relu": 8, "Cast": 3}, 500, {"int8": 500}, 1_250_000),
    {
        ("one", "rule"): Amount(2, 1, 0, 0, 0),
        ("two", "rule"): Amount(0, 1, 2, 10, 1010),
        ("two", ""): Amount(1, 0, 0, 12, 0),
    },
)
REASONS = [f"reason {'abcdefg'[index // 2]}" for index in range(14)]
CONVERSIONS = [
    (
        ConvertResult(
            onnx_ir.Model(onnx_ir.Graph([], [], nodes=[]), ir_version=10),
            precisions={
                **{f"n{index}": (DataType.FLOAT, reason) for index, reason in enumerate(REASONS)},
                "h": (DataType.FLOAT16, "fits"),
                "e": (DataType.DOUBLE, "Exp stays in a wider type by default: it overflows"),
            },
            regions={"h": 0},
            operators={},
            error=Accuracy(
                ("one", "two"),
                (OutputError("y", 0.00012345, 0.5, 0.99999951, 0.987654), OutputError("long", 2.0, 1.0, 1.0, None)),
                ("n1", 0.0123456),
                ("a", "b", "c", "d"),
                {},
                ("a remark",),
                {"i": (1, 1), "j": (2, 3)},
            ),
            attempts=2,
            kept=("n1",),
        ),
        """\
a -> b
  nothing to change
           before  after
  nodes    9       11
    Relu   6       8
  tensors  1.5 KB  500 B
    float  1.5 KB  0 B
    int8   0 B     500 B
  file     2.0 KB  1.2 MB
  precision of 16 nodes: 14 float, 1 float16, 1 double; 1 region
    2 kept in float: reason a
    2 kept in float: reason b
    2 kept in float: reason c
    2 kept in float: reason d
    2 kept in float: reason e
    2 kept in float: reason f
    3 kept for 2 other reasons (--explain lists all)
  error on 2 sets of inputs, relative to the largest element:
    output  relative  absolute  cosine    top-1
    y       0.5       0.000123  1.000000  98.8%
    long    1         2         1.000000
    output i: 1 of 1 element differs
    output j: 2 of 3 elements differ
    the error leaps first at n1: by 0.0123
    4 values became infinite or NaN: a, b, c, ...
    a remark
  search: 2 conversions measured, 1 node kept in a wider type for the error
""",
    ),
    (
        ConvertResult(
            onnx_ir.Model(onnx_ir.Graph([], [], nodes=[]), ir_version=10),
            rewrites=[Rewrite("one", "rule", Site("g"))],
            refusals=[Refusal("one", "rule", Site("g"), "why not")],
            precisions={"e": (DataType.DOUBLE, "Exp stays in a wider type by default: it overflows")},
            error=Accuracy((), overflows=("a", "b", "c")),
        ),
        """\
a -> b
  pass  rule             count  casts  bytes
  one   rule             2      +1
  two   rule                    +1 -2  -1.0 KB
  two   (other changes)  1             +12 B
           before  after
  nodes    9       11
    Relu   6       8
  tensors  1.5 KB  500 B
    float  1.5 KB  0 B
    int8   0 B     500 B
  file     2.0 KB  1.2 MB
  precision of 1 node: 1 double; 0 regions
    1 kept in double: it overflows
  error: not measured, since the result does not run
    3 values became infinite or NaN: a, b, c
  1 change skipped (--explain shows why)
""",
    ),
]


def test_conversions(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = argparse.Namespace(input="a", output="b", diff=None, explain=False, quiet=False, dry_run=False)
    arguments.given = {"output"}
    for result, text in CONVERSIONS:
        print_result(arguments, result, SIZES)
        assert capsys.readouterr().out == text


def said(capsys: pytest.CaptureFixture[str], result: Result, sizes: ModelSizes = SIZES, **options: Any) -> str:
    """Return what is printed of the result."""
    facts = {"input": "a", "output": "b", "diff": None, "explain": False, "quiet": False, "dry_run": False}
    print_result(argparse.Namespace(**{**facts, "given": {"output"}, **options}), result, sizes)
    return capsys.readouterr().out


EMPTY = onnx_ir.Model(onnx_ir.Graph([], [], nodes=[]), ir_version=10)
REWRITE, REFUSAL = Rewrite("one", "rule", Site("g"), "x", "y", "why"), Refusal("one", "rule", Site("g"), "why not")


def test_the_first_line_names_files_and_streams(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({}, "a -> b"), ({"given": set[str]()}, "a"), ({"dry_run": True}, "a -> b (--dry-run: nothing is written)"),
        ({"input": "-", "output": "-"}, "standard input -> standard output"),
    ]  # fmt: skip
    for options, line in rows:
        assert said(capsys, Result(EMPTY), **options).splitlines()[0] == line


def test_what_was_asked_for_stands_before_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """Empty lines stand between the parts that there are, and nowhere else."""
    changes = ["one, rule (1)", "  g", "    - x", "    + y", "    why [bit-exact]"]
    skipped = ["one, rule (1)", "  g", "    skipped: why not"]
    both, rewrite, refusal, none = (
        Result(EMPTY, [REWRITE] * made, [REFUSAL] * refused) for made, refused in ((1, 1), (1, 0), (0, 1), (0, 0))
    )
    for result, diff, explain, lines in (
        (both, "full", True, [*changes, "", *skipped, ""]),
        (both, "full", False, [*changes, ""]),
        (both, None, True, [*skipped, ""]),
        (rewrite, "full", True, [*changes, ""]),
        (refusal, "full", True, [*skipped, ""]),
        *((none, diff, True, []) for diff in ("full", None)),
        (both, None, False, []),
    ):
        shown = said(capsys, result, diff=diff, explain=explain).splitlines()
        assert shown[: shown.index("a -> b")] == lines
        assert said(capsys, result, diff=diff, explain=explain, quiet=True).splitlines() == (lines[:-1])


def test_a_verdict_in_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = Verdict("reference", unsure=["it needs `dims=`"], accepted=["y is half"], runs=["one"])
    assert said(capsys, Result(EMPTY, verdict=verdict)).splitlines()[-3:] == [
        "  verified: inconclusive: 0 of 0 elements of outputs compared, on 1 set of inputs",
        "    it needs --dim NAME=SIZE",
        "    y is half",
    ]


def measured(operators: dict[str, int], types: dict[str, int], size: int | None = None) -> Measure:
    return Measure(sum(operators.values()), operators.get("Cast", 0), operators, sum(types.values()), types, size)


def test_the_sizes_that_differ(capsys: pytest.CaptureFixture[str]) -> None:
    """The cast first, then the largest differences; beyond eight rows the others together."""
    before = measured(
        {"Cast": 2, "Same": 5, **{f"Op{n}": n for n in range(1, 10)}}, {f"t{n}": 10 * n for n in range(1, 9)}
    )
    sizes = ModelSizes(before, measured({"Cast": 1, "Same": 5}, {"int8": 3}), {})
    lines = said(capsys, Result(EMPTY), sizes).splitlines()[2:]
    assert [line.split() for line in lines] == [
        *(["before", "after"], ["nodes", "52", "6"], ["Cast", "2", "1"]),
        *([f"Op{n}", str(n), "0"] for n in range(9, 2, -1)),
        *(["2", "other", "operators", "3", "0"], ["tensors", "360", "B", "3", "B"]),
        *([f"t{n}", f"{10 * n}", "B", "0", "B"] for n in range(8, 0, -1)),
        ["1", "other", "types", "0", "B", "3", "B"],
    ]
    assert "file" not in "".join(lines)
    unknown = ModelSizes(before, measured({}, {}, 1000), {})
    assert said(capsys, Result(EMPTY), unknown).splitlines()[-1].split() == ["file", "0", "B", "1.0", "KB"]


def fault(index: int, kind: Any = "overflow") -> Fault:
    return Fault(onnx_ir.node("Mul", []), f"y{index}", f"g: n{index} (Mul)", f"y{index}", kind, 70000.0)


def test_faults_and_factors(capsys: pytest.CaptureFixture[str]) -> None:
    reason = "reaches 70000 (measured), beyond float16"
    faults = (fault(1), fault(2, "operand"), fault(3))
    before = Accuracy(("one",), (OutputError("y", 1.0, 0.123456, 0.0, None),))
    healed = said(capsys, ConvertResult(EMPTY, faults=faults, before=before)).splitlines()
    assert healed[-7:] == [
        "  precision of 0 nodes: none; 0 regions",
        "  3 nodes in float, because float16 goes wrong there on these inputs:",
        *(f"    g: n{index} (Mul): y{index} {reason}" for index in (1, 3)),
        "    and 1 node downstream",
        "  error before: 0.123",
        "  error: not measured (--inputs FILE.npz or --measure)",
    ]
    factors = {"a": 2, "b": 2, "c": -1, **{f"f{power}": power for power in range(3, 11)}}
    scaled = said(capsys, ConvertResult(EMPTY, faults=faults[1:2], factors=factors, attempts=1)).splitlines()
    assert "  1 node rescaled, because float16 goes wrong there on these inputs:" in scaled
    assert f"    g: n2 (Mul): it reads y2, which {reason}" in scaled  # none is the first
    powers = ", ".join(["2 by 2^-2", "1 by 2^1", *(f"1 by 2^-{power}" for power in range(3, 9))])
    assert f"  11 values scaled: {powers}" in scaled
    assert not any("before:" in line or "search" in line or "downstream" in line for line in scaled)
    unscaled = said(capsys, ConvertResult(EMPTY, before=before)).splitlines()
    assert not any("before:" in line or "scaled" in line for line in unscaled)
    for count, more in ((8, []), (9, ["    1 more (--json has all)"])):
        listed = [*fault_lines([fault(index) for index in range(count)], "in float")]
        assert listed[1:9] == [f"    g: n{index} (Mul): y{index} {reason}" for index in range(8)]
        assert listed[9:] == more


def test_the_worst_exit_code() -> None:
    assert [worst(codes) for codes in ((), (0,), (0, 3, 0), (3, 1), (1, 2, 3), (2, 130), (143, 0))] == [
        *(0, 0, 3, 1, 2, 130, 143)
    ]


def test_a_sentence_on_a_terminal_is_wrapped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    sentence = "one two-three four five-six seventeenlettersandmore end."
    complain(sentence)
    assert capsys.readouterr().err == f"castsmith: {sentence}\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    complain(sentence)
    lines = ["castsmith: one two-three", "  four five-six", "  seventeenlettersandmore", "  end.", ""]
    assert capsys.readouterr().err.split("\n") == lines


def test_like_reasons_are_one_and_what_stays_is_no_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    """Reasons that differ in names and numbers alone; a node that is kept has not failed."""
    values = [onnx_ir.Value(name=name) for name in ("safe", "total", "it")]
    nodes = [onnx_ir.node("Relu", [value], name=f"n{index}") for index, value in enumerate(values)]
    model = onnx_ir.Model(onnx_ir.Graph(values, [], nodes=nodes), ir_version=10)
    reasons = [
        "safe reaches 250000 (measured), beyond float16",
        "total reaches 7 (measured), beyond float16",
        "it overflows",
    ]
    kept = {f"n{index}": (DataType.FLOAT, reason) for index, reason in enumerate(reasons)}
    refusals = [Refusal("convert-precision", "convert-node", Site("g"), reason) for reason in reasons]
    arguments = argparse.Namespace(input="a", output="b", diff=None, explain=False, quiet=False, dry_run=False)
    arguments.given = {"output"}
    print_result(
        arguments, ConvertResult(model, precisions=kept, refusals=[*refusals, Refusal("p", "r", Site("g"), "")]), SIZES
    )
    out = capsys.readouterr().out
    assert "    2 kept in float: safe reaches 250000 (measured), beyond float16, and 1 like it\n" in out
    assert "    1 kept in float: it overflows\n" in out
    assert out.endswith("  3 nodes kept in float (--explain shows why)\n  1 change skipped (--explain shows why)\n")
    arguments.explain = True
    print_result(arguments, ConvertResult(model, precisions=kept, refusals=refusals), SIZES)
    assert "    kept in float: it overflows\n" in capsys.readouterr().out


def test_the_largest_differences_come_first_and_casts_before_them() -> None:
    before, after = {"A": 10, "B": 1, "C": 5, "D": 3, "Cast": 1}, {"A": 11, "B": 9, "D": 3, "Cast": 2}
    assert list(_differing(before, after, "operators", str)) == [
        ("  Cast", "1", "2"), ("  B", "1", "9"), ("  C", "5", "0"), ("  A", "10", "11")
    ]  # fmt: skip


def test_why_is_asked_for_once_and_empty_columns_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    result = Result(EMPTY, [REWRITE], [REFUSAL])
    sizes = ModelSizes(SIZES.before, SIZES.after, {("one", "rule"): Amount(1, 0, 0, 0, 0)})
    assert said(capsys, result, sizes).endswith("  1 change skipped (--explain shows why)\n")
    out = said(capsys, result, sizes, explain=True)
    assert out.endswith("  1 change skipped\n")
    assert "  pass  rule  count\n  one   rule  1\n" in out
