"""The exit codes of every command are those of the table, and each of the table occurs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import onnx.parser
import pytest

from castsmith.cli.exit_codes import EXIT_CODES, WORST, meanings, worst
from castsmith.conformance import probing
from tests.certificates import certificate_between
from tests.cli.helpers import CLEAN, MIXED, UNSAFE, Command, is_one_sentence, parsers, write_model

pytestmark = pytest.mark.usefixtures("engines_here")

UNKNOWN = CLEAN.replace("Relu (x)", "my.domain.Op (x)").replace('"" : 18', '"" : 18, "my.domain" : 1')
LOSSY = CLEAN.replace("z = Relu (x)", "a = Cast <to = 10> (x) z = Cast <to = 1> (a)")
CYCLE = CLEAN.replace("z = Relu (x)", "a = Relu (z) z = Relu (a)")
NO_COMMON_TYPE = MIXED.replace("int16", "string")
FILES = {
    "clean": CLEAN, "mixed": MIXED, "unsafe": UNSAFE, "lossy": LOSSY, "string": NO_COMMON_TYPE, "unknown": UNKNOWN,
    "cycle": CYCLE,
}  # fmt: skip

ENDINGS = {
    ("optimize", 0): ["mixed -o out", "mixed -o out --verify", "mixed clean -o folder"],
    ("optimize", 1): ["unsafe -o out", "unsafe unknown -o folder --verify"],
    ("optimize", 2): ["none -o out", "unsafe none -o folder", "clean -o out --target nowhere", "clean"],
    ("optimize", 3): ["unknown -o out --verify", "unknown clean -o folder --verify"],
    ("fit", 0): ["mixed -o out --target onnxruntime-cpu", "clean --target tensorrt-11 --plan"],
    ("fit", 1): ["string -o out --target tensorrt-11", "string --target tensorrt-11 --plan"],
    ("fit", 2): ["none -o out --target tensorrt-11", "clean --target tensorrt-11", "clean -o out"],
    ("convert", 0): ["clean -o out --to float16"],
    ("convert", 1): ["string -o out --to float16"],
    ("convert", 2): ["none -o out --to float16", "clean -o out --to nothing"],
    ("check", 0): [
        "clean",
        "lossy",
        "lossy --fail-on warning",
        "mixed --exit-zero",
        "mixed --ignore mixed-operand-types",
    ],
    ("check", 1): ["mixed", "lossy --fail-on note", "mixed clean --fail-on error"],
    ("check", 2): ["none", "mixed none clean", "clean --fail-on trouble", "clean --select nothing"],
    ("diff", 0): ["clean clean"],
    ("diff", 1): ["clean mixed"],
    ("diff", 3): ["cycle cycle"],
    ("diff", 2): ["clean none", "clean"],
    ("verify", 0): ["clean clean"],
    ("verify", 1): ["clean mixed"],
    ("verify", 2): ["clean none", "clean clean --sets 0"],
    ("verify", 3): ["unknown unknown"],
    ("certificate", 0): ["clean clean same.json"],
    ("certificate", 1): ["clean lossy same.json", "clean clean clean"],
    ("certificate", 2): ["clean clean none", "clean"],
    ("certificate", 3): ["clean lossy other.json"],
    ("bounds", 0): ["clean"],
    ("bounds", 1): ["clean --to float16"],
    ("bounds", 2): ["none", "clean --range x=1", "clean --to int8"],
    ("dev promote", 0): ["i8 i16"],
    ("dev promote", 1): ["i64 f32"],
    ("dev promote", 2): ["i64 i7"],
    ("cast", 0): ["1 --from f32 --to i8"],
    ("cast", 2): ["1 --from f32 --to i7"],
    ("dev trunc", 0): ["1 --in-bitwidth 8 --out-bitwidth 4"],
    ("dev trunc", 2): ["1 --in-bitwidth 8 --out-bitwidth 0"],
    ("show", 0): ["clean"],
    ("show", 2): ["none"],
    ("targets", 0): ["", "show tensorrt-10", "probe onnxruntime-cpu"],
    ("targets", 2): ["show nowhere", "probe nowhere", "probe tensorrt-10"],
    ("passes", 0): [""],
    ("passes", 2): ["more"],
    ("explain", 0): ["", "fold-constant"],
    ("explain", 2): ["nothing"],
    ("dev conformance", 0): ["", "run --engine ml_dtypes --match cast_bool_to_int8 --types bool int8"],
    ("dev conformance", 1): ["run --engine reference --match cast_double_to_float4e2m1 --types double float4e2m1"],
    ("dev conformance", 2): ["export clean", "run --engine nothing", "run"],
    ("completion", 0): ["bash", "zsh", "fish"],
    ("completion", 2): ["", "csh"],
    ("info", 0): ["clean"],
    ("info", 2): ["nothing", ""],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models of `FILES`, and certificates."""
    folder = tmp_path_factory.mktemp("files")
    for name, text in FILES.items():
        write_model(folder / name, text)
    for name, made in (("same.json", CLEAN), ("other.json", LOSSY)):
        certificate = certificate_between(*map(onnx.parser.parse_model, (CLEAN, made)))
        (folder / name).write_text(json.dumps(certificate))
    return folder


@pytest.fixture
def folder(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files in the current folder; a probe asks nothing."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    real = probing.probe
    shipped = {"onnxruntime-cpu": {"name": "onnxruntime-cpu"}}

    def probe(name: str) -> object:
        return shipped.get(name) or real(name)

    monkeypatch.setattr(probing, "probe", probe)
    return tmp_path


def test_the_table_and_these_cases_have_every_command() -> None:
    assert set(EXIT_CODES) <= {words.split()[-1] for words in parsers()}
    assert set(ENDINGS) == {(words, code) for words in parsers() for code in meanings(words.split()[-1])}
    assert set(WORST) == {code for _, code in ENDINGS}
    assert all({0, 1} <= set(codes) for codes in EXIT_CODES.values())


@pytest.mark.parametrize(("command", "code"), ENDINGS, ids=str)
@pytest.mark.usefixtures("folder", "one_process")
def test_a_command_ends_as_the_table_says(castsmith: Command, command: str, code: int) -> None:
    for number, words in enumerate(ENDINGS[command, code]):
        for extra in ((), ("--json",))[: 1 if number or "folder" in words else 2]:
            ended = castsmith(*command.split(), *words.split(), *extra)
            assert ended.code == code, (words, extra, ended.err)
            assert not extra or json.loads(ended.out)["schema"] == 1, words
            if code == 2:
                assert all(map(is_one_sentence, ended.err.splitlines(keepends=True))), words


def test_help_says_the_exit_codes(castsmith: Command) -> None:
    for words in parsers():
        said = " ".join(castsmith(*words.split(), "--help").out.split())
        assert all(f"{code} {meaning}" in said for code, meaning in meanings(words.split()[-1]).items())


def test_the_worst_of_many() -> None:
    assert [worst(codes) for codes in ([], [0], [0, 3], [3, 1, 0], [3, 2, 1], [2, 143])] == [0, 0, 3, 1, 2, 143]


@pytest.mark.usefixtures("one_process")
def test_a_batch_counts_what_is_inconclusive_apart(castsmith: Command, folder: Path) -> None:
    words = ("optimize", "unknown", "clean", "unsafe", "-o", "out", "--verify")
    assert "3 models: 2 written (1 inconclusive), 1 failed" in castsmith(*words).out
    castsmith(*words, "--report", "all.json")
    data = json.loads((folder / "all.json").read_text())
    assert data["summary"] == {"models": 3, "written": 2, "inconclusive": 1, "unchanged": 0, "failed": 1}
    assert [model["exit_code"] for model in data["models"]] == [3, 0, 1]
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["clean", "unknown"]
