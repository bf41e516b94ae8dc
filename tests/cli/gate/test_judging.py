"""Findings that are made here: which count, how severe they are, how they are grouped, and how each format says it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from castsmith.cli.gate.baseline import Baseline, Entry, fingerprint
from castsmith.cli.gate.codes import codes_of
from castsmith.cli.gate.comments import markdown_text, workflow_commands
from castsmith.cli.gate.grouping import counts_text, groups_by_severity, groups_of
from castsmith.cli.gate.judging import Checked, Rules, changed, exit_code
from castsmith.cli.gate.sarif import sarif_text
from castsmith.cli.gate.settings import Settings
from castsmith.cli.gate.terminal import grouped_lines
from castsmith.cli.outcome import Failure
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.numerics.errors import OptionError
from tests.cli.helpers import marked

NOTE, WARNING, ERROR = Severity
ALL = Rules(None, frozenset(), Settings())


def finding(code: str, severity: Severity, name: str = "n", help: str = "", follows: int | None = None) -> Diagnostic:
    return Diagnostic(code, severity, Site("g", name, "Abs"), f"{code} here", help, "", follows)


MIXED, LOSSY, DECLARED = "mixed-operand-types", "lossy-cast-chain", "value-type-mismatch"
FINDINGS = [
    finding(LOSSY, NOTE, "a"),
    finding(MIXED, ERROR, "b", "promote"),
    finding(MIXED, ERROR, "c", "promote"),
    finding(DECLARED, WARNING, "d", follows=1),
    finding(DECLARED, WARNING, "e", follows=2),
    finding(MIXED, WARNING, "f", "promote"),
    finding(MIXED, ERROR, "h", "another way"),
    finding(LOSSY, NOTE, "i", follows=0),
]
BROKEN = Checked("broken.onnx", [], Failure("model", "broken.onnx: no model.", "broken.onnx", 2))
CHECKED = [Checked("m.onnx", FINDINGS), BROKEN, Checked("-", [finding(LOSSY, WARNING, "j")]), Checked("clean.onnx")]


def test_the_exit_code() -> None:
    for severity, level in zip(Severity, (1, 2, 3), strict=True):
        codes = [exit_code(Checked("m", [finding(LOSSY, severity)]), word) for word in ("note", "warning", "error")]
        assert codes == [1] * level + [0] * (3 - level)
    assert exit_code(Checked("m"), "note") == 0
    assert exit_code(BROKEN, "error") == 2


def test_which_findings_count() -> None:
    settings = Settings({LOSSY: "error"}, (("b/*", frozenset({MIXED})),), Path.cwd())

    def judged(file: str, rules: Rules) -> list[tuple[str, str, int | None]]:
        return [(f.site.node, f.severity.value, f.follows) for f in rules.judged(file, FINDINGS)]

    everything = Rules(None, frozenset(), settings)
    assert judged("a/m.onnx", everything)[:2] == [("a", "error", None), ("b", "error", None)]
    assert judged("b/m.onnx", everything) == [  # without their causes findings stand alone; others keep theirs
        ("a", "error", None), ("d", "warning", None), ("e", "warning", None), ("i", "error", 0),
    ]  # fmt: skip
    assert judged("a", Rules(frozenset({DECLARED}), frozenset(), settings)) == [
        ("d", "warning", None), ("e", "warning", None),
    ]  # fmt: skip
    assert judged("a", Rules(frozenset({DECLARED, LOSSY}), frozenset({LOSSY}), settings)) == [
        ("d", "warning", None), ("e", "warning", None),
    ]  # fmt: skip
    assert [f.follows for f in changed(FINDINGS, lambda f: None if f.site.node == "a" else f)] == [
        None, None, 0, 1, None, None, None,
    ]  # fmt: skip


def test_codes_that_an_option_lists() -> None:
    assert codes_of(f" {MIXED} ,,{LOSSY}") == {MIXED, LOSSY}
    assert codes_of("") == frozenset()
    for word in ("nothing", "fold-constant"):  # of a pass, which finds nothing
        with pytest.raises(OptionError, match=f"unknown code '{word}' of a finding"):
            codes_of(f"{LOSSY},{word}")


def test_the_groups() -> None:
    said = [(group.file, group.first.site.node, group.more()) for group in groups_of(CHECKED)]
    b = ["1 more like it", f"2 findings follow from it: 2 {DECLARED}"]
    assert said == [
        ("m.onnx", "b", b), ("m.onnx", "h", []), ("m.onnx", "f", []),
        ("m.onnx", "a", [f"1 finding follows from it: 1 {LOSSY}"]), ("-", "j", []),
    ]  # fmt: skip
    assert [group.first.site.node for group in groups_by_severity(CHECKED)] == ["b", "h", "f", "j", "a"]


def test_the_counts() -> None:
    for every, text in (
        (CHECKED, "3 errors, 4 warnings, 2 notes in 2 of 4 models; 1 model not checked"),
        ([Checked("m", FINDINGS[:1])], "1 note in 1 model"),
        ([Checked("m")], "no findings in 1 model"),
    ):
        assert counts_text(every) == text


def test_a_terminal() -> None:
    short = [marked(line) for line in grouped_lines(CHECKED, everything=False)]
    assert short == [
        "<bold>m.onnx|2",
        *(f"<bold red>  error<bold> {MIXED}<> {MIXED} here|4", "<dim>    at g: b (Abs)|7", "<green>    promote|4"),
        *("<dim>    1 more like it|6", f"<dim>    2 findings follow from it: 2 {DECLARED}|6"),
        *(f"<bold red>  error<bold> {MIXED}<> {MIXED} here|4", "<dim>    at g: h (Abs)|7", "<green>    another way|4"),
        *(f"<bold yellow>  warning<bold> {MIXED}<> {MIXED} here|4", "<dim>    at g: f (Abs)|7"),
        "<green>    promote|4",
        *(f"<bold cyan>  note<bold> {LOSSY}<> {LOSSY} here|4", "<dim>    at g: a (Abs)|7"),
        f"<dim>    1 finding follows from it: 1 {LOSSY}|6",
        "<bold>standard input|2",
        *(f"<bold yellow>  warning<bold> {LOSSY}<> {LOSSY} here|4", "<dim>    at g: j (Abs)|7"),
        f"<bold>{counts_text(CHECKED)}<dim> (--all lists each)|2",
    ]
    long = [marked(line) for line in grouped_lines(CHECKED, everything=True)]
    assert long[5:8] == [f"      g: c (Abs): {MIXED} here|8", short[5], f"      g: d (Abs): {DECLARED} here|8"]
    assert len(long) == len(short) + 4
    assert long[-1] == f"<bold>{counts_text(CHECKED)}<dim>|2"
    alone = [Checked("m", FINDINGS[:1])]
    assert [marked(line) for line in grouped_lines(alone, everything=False)][-1] == "<bold>1 note in 1 model<dim>|2"
    assert next(map(marked, grouped_lines([BROKEN], everything=False))).startswith("<bold>")
    assert [*map(marked, grouped_lines([Checked("m")], everything=False))] == ["<green>no findings in 1 model<dim>|2"]


def test_workflow_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [*workflow_commands(CHECKED[:2])] == [
        f"::error file=m.onnx,line=1,title={MIXED}::g: b (Abs): {MIXED} here (promote); 1 more like it; 2 findings"
        f" follow from it: 2 {DECLARED}",
        f"::error file=m.onnx,line=1,title={MIXED}::g: h (Abs): {MIXED} here (another way)",
        f"::warning file=m.onnx,line=1,title={MIXED}::g: f (Abs): {MIXED} here (promote)",
        f"::notice file=m.onnx,line=1,title={LOSSY}::g: a (Abs): {LOSSY} here; 1 finding follows from it: 1 {LOSSY}",
        "::error file=broken.onnx,line=1,title=not checked::broken.onnx: no model.",
    ]


def test_a_comment() -> None:
    text = markdown_text(CHECKED, None)
    assert text.splitlines()[:4] == [
        f"**castsmith check**: {counts_text(CHECKED)}",
        "- `broken.onnx: no model.`",
        "",
        "| severity | code | model and place | finding | fix |",
    ]
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert rows[0] == (
        f"| error | `{MIXED}` | `m.onnx`<br>`g: b (Abs)` | `{MIXED} here`<br>1 more like it<br>2 findings follow from"
        f" it: 2 {DECLARED} | `promote` |"
    )
    assert rows[3] == f"| warning | `{LOSSY}` | `standard input`<br>`g: j (Abs)` | `{LOSSY} here` |  |"
    assert text.count("<details>") == 2
    listed = [
        f"- `g: {name} (Abs): {code} {code} here`" for name, code in (("c", MIXED), ("d", DECLARED), ("e", DECLARED))
    ]
    assert "\n".join(listed) in text
    assert markdown_text([Checked("m")], "t") == "**castsmith check** for `t`: no findings in 1 model\n"
    for message, code in (("a`b", "``a`b``"), ("`a", "`` `a ``"), ("a`", "`` a` ``"), ("|", "`\\|`"), (" ", "")):
        odd = Diagnostic("c", NOTE, Site("g"), message)
        assert f" | {code} |  |" in markdown_text([Checked("m", [odd])], None)


def test_sarif(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    twice = [finding(LOSSY, NOTE), finding(LOSSY, ERROR), finding("no-such-code", WARNING, "", "help")]
    outside = tmp_path.parent / "o \u00e9.onnx"
    every = [Checked("a b.onnx", twice), Checked(str(outside), twice[:1]), Checked("-", twice[:1]), BROKEN]
    (run,) = json.loads(sarif_text(every, None))["runs"]
    assert run["automationDetails"]["id"] == "castsmith/any-runtime/"
    assert json.loads(sarif_text([], "to/own.json"))["runs"][0]["automationDetails"]["id"] == "castsmith/own/"
    assert json.loads(sarif_text([], None))["runs"][0]["invocations"][0]["executionSuccessful"] is True
    first, second = run["tool"]["driver"]["rules"]
    assert (first["id"], first["name"], first["defaultConfiguration"]) == (LOSSY, "LossyCastChain", {"level": "note"})
    assert second == {"id": "no-such-code", "name": "NoSuchCode", "defaultConfiguration": {"level": "warning"}}
    results = run["results"]
    assert [(each["ruleIndex"], each["level"]) for each in results] == [
        (0, "note"), (0, "error"), (1, "warning"), (0, "note"), (0, "note"),
    ]  # fmt: skip
    mark = fingerprint(twice[0])
    assert [each["partialFingerprints"]["castsmith/v1"] for each in results] == [
        f"{mark}:1", f"{mark}:2", f"{fingerprint(twice[2])}:1", f"{mark}:1", f"{mark}:1",
    ]  # fmt: skip
    assert results[0]["message"]["text"] == f"g: n (Abs): {LOSSY} here"
    assert results[2]["message"]["text"] == "g: (unnamed) (Abs): no-such-code here (help)"
    places = [each["locations"][0] for each in results]
    assert places[0]["physicalLocation"] == {
        "artifactLocation": {"uri": "a%20b.onnx", "uriBaseId": "%SRCROOT%"}, "region": {"startLine": 1},
    }  # fmt: skip
    assert places[0]["logicalLocations"] == [{"fullyQualifiedName": "g/n", "name": "n", "kind": "Abs"}]
    assert places[2]["logicalLocations"] == [{"fullyQualifiedName": "g", "name": "g", "kind": "Abs"}]
    assert places[3]["physicalLocation"]["artifactLocation"] == {"uri": outside.as_uri()}
    assert places[4]["physicalLocation"]["artifactLocation"] == {"uri": "stdin", "uriBaseId": "%SRCROOT%"}
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert (told["level"], told["message"]["text"]) == ("error", "broken.onnx: no model.")


def test_a_fingerprint_is_of_the_code_and_the_place_or_the_subject() -> None:
    same = [
        Diagnostic(LOSSY, NOTE, Site("g", "n", "Abs", "o"), "a", "b"),
        Diagnostic(LOSSY, ERROR, Site("g", "n", "Abs", "p"), "c"),
    ]
    assert len({fingerprint(each) for each in same}) == 1
    others = [
        Diagnostic(MIXED, NOTE, Site("g", "n", "Abs"), "a"),
        Diagnostic(LOSSY, NOTE, Site("h", "n", "Abs"), "a"),
        Diagnostic(LOSSY, NOTE, Site("g", "m", "Abs"), "a"),
        Diagnostic(LOSSY, NOTE, Site("g", "n", "Exp"), "a"),
        Diagnostic(LOSSY, NOTE, Site("g", "", "Abs", "o"), "a"),
        Diagnostic(LOSSY, NOTE, Site("g", "", "Abs", "p"), "a"),
        Diagnostic(LOSSY, NOTE, Site("g", "n", "Abs"), "a", subject="int4"),
        Diagnostic(LOSSY, NOTE, Site("g", "n", "Abs"), "a", subject="int8"),
    ]
    assert len({fingerprint(each) for each in (*same, *others)}) == 9
    of_type = Diagnostic(LOSSY, NOTE, Site("h"), "a", subject="int8")
    assert fingerprint(of_type) == fingerprint(others[-1])


def test_a_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.onnx").write_text("")
    one = FINDINGS[0]

    def entry(file: str, found: Diagnostic = one) -> Entry:
        return Entry(file, found.code, str(found.site), fingerprint(found))

    def of(*entries: Entry) -> Baseline:
        baseline = Baseline(tmp_path / "b.json")
        baseline.entries.update(entries)
        return baseline

    two = of(entry("m.onnx"), entry("m.onnx"), entry("m.onnx", FINDINGS[1]), entry("o.onnx"))
    kept = two.without(Checked("m.onnx", [one, one, one, FINDINGS[2]]), ALL)
    assert ([f.site.node for f in kept.findings], kept.known) == (["a", "c"], 2)
    assert two.fixed == {entry("m.onnx", FINDINGS[1]): 1}
    assert two.data([kept, kept]) == {
        "file": str(tmp_path / "b.json"), "known": 4, "fixed": [{**entry("m.onnx", FINDINGS[1])._asdict(), "count": 1}],
    }  # fmt: skip
    ignoring = Rules(None, frozenset({LOSSY}), Settings())
    unseen = of(entry("m.onnx"))
    assert unseen.without(Checked("m.onnx"), ignoring).known == 0
    assert not unseen.fixed  # what does not count is not fixed
    assert unseen.without(BROKEN, ALL) is BROKEN

    def written(baseline: Baseline, *every: Checked, rules: Rules = ALL) -> list[tuple[str, str, int]]:
        data = json.loads(baseline.text(every, rules))
        assert data["schema"] == 1
        return [(e["file"], e["code"], e["count"]) for e in data["findings"]]

    fresh = Checked("m.onnx", [FINDINGS[1], FINDINGS[1], one])
    assert written(of(), fresh) == [("m.onnx", LOSSY, 1), ("m.onnx", MIXED, 2)]
    assert written(of(entry("m.onnx"), entry("m.onnx"))) == []  # the file is gone
    assert written(of(entry("here.onnx"), entry("here.onnx"))) == [("here.onnx", LOSSY, 2)]
    assert written(of(entry("here.onnx")), Checked("here.onnx")) == []
    assert written(of(entry("here.onnx")), Checked("here.onnx"), rules=ignoring) == [("here.onnx", LOSSY, 1)]
    assert written(of(entry("broken.onnx")), BROKEN) == [("broken.onnx", LOSSY, 1)]
