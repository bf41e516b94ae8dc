"""Words that a command refuses before any work, each with the sentence: nothing is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.helpers import CLEAN, Command, is_one_sentence, write_model

REFUSED = {
    "certificate in.onnx in.onnx -": "certificate reads files: name IN, OUT and the certificate, not -.",
    "certificate - in.onnx c.json": "certificate reads files: name IN, OUT and the certificate, not -.",
    "certificate in.onnx none c.json": "none: no such file.",
    "optimize in.onnx b.onnx -o folder --certificate c.json": "--certificate covers one model: name one for IN.",
    "optimize in.onnx -o out.onnx --certificate -": "--certificate does not work with -: name files for IN, OUT and the"
    " certificate.",
    "optimize in.onnx -o - --certificate c.json": "--certificate does not work with -: name files for IN, OUT and the"
    " certificate.",
    "optimize in.onnx -o in.onnx --certificate c.json": "--certificate needs IN after the run: choose another name for"
    " OUT.",
    "optimize in.onnx -o out.onnx --certificate out.onnx": "--certificate out.onnx would overwrite the model out.onnx:"
    " choose another name.",
    "optimize in.onnx -o out.onnx --report r.json --certificate r.json": "--certificate r.json would overwrite the"
    " model r.json: choose another name.",
    "optimize in.onnx -o out.onnx --external-data -": "--external-data - is not supported: name a file.",
    **{
        f"optimize in.onnx -o - {option}": "-o - writes the model alone to standard output, so"
        f" {option.partition('=')[0]} cannot {reason}."
        for option, reason in (
            ("--json", "print the report too: use --report FILE"),
            ("--external-data=w.bin", "write files beside it"),
            ("--link-data", "write files beside it"),
            ("--shard-bytes=9", "write files beside it"),
        )
    },
    "optimize in.onnx -o out.onnx --report -": "--report - is not supported: --json prints the report on standard"
    " output.",
    "optimize in.onnx -o out.onnx --report r.txt": "--report r.txt: the name must end in .json or .html.",
    "optimize - in.onnx -o folder": "- means standard input or output, which several models cannot share: name files.",
    "optimize in.onnx b.onnx -o out.onnx": "-o out.onnx is one file, but there are several models: name a folder, such"
    " as -o out.",
    "verify in.onnx - --certificate c.json": "--certificate cannot read standard input: name files for A, B and the"
    " certificate.",
    "verify folder folder --certificate c.json": "--certificate compares two models, not two folders: name the models.",
    "verify - -": "- means standard input, which can be read only once: name files for the others.",
    "fit in.onnx b.onnx --plan --target onnxruntime-cpu": "--plan is for one model: name one.",
    "fit folder --plan --target onnxruntime-cpu": "--plan is for one model: name one.",
    "fit in.onnx --plan --target onnxruntime-cpu -o out.onnx": "--plan writes nothing, so --output has no meaning:"
    " leave out one of them.",
    "fit in.onnx --plan --target onnxruntime-cpu --report r.json": "--plan writes nothing, so --report has no meaning:"
    " leave out one of them.",
    "check in.onnx --also txt=o": "--also txt=o is not FORMAT=FILE with a format of json, sarif, markdown.",
    "check in.onnx --also json=": "--also json= is not FORMAT=FILE with a format of json, sarif, markdown.",
    "check in.onnx --also json=in.onnx": "--also in.onnx would overwrite the model in.onnx: choose another name.",
    "check in.onnx --baseline b.json --also json=b.json": "--also b.json would overwrite the baseline b.json: choose"
    " another name.",
    "check in.onnx --baseline in.onnx --write-baseline": "--baseline in.onnx would overwrite the model in.onnx: choose"
    " another name.",
    "dev trunc 1 --in-bitwidth 8 --out-bitwidth 4 --type f16": "--type must be float or double, not float16.",
    "dev promote i8 i8 --scalar 2 --promotion torch": "--scalar 2 is out of range: the operands are 0 to 1.",
    "cast 0x1 --to i8": "0x1 is a code: name its type with --from TYPE.",
    "cast 7 0X2 0x1 --to i8": "0X2 is a code: name its type with --from TYPE.",
}


def test_words_that_are_refused(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdout.isatty", lambda: False)
    (tmp_path / "folder").mkdir()
    for name in ("in.onnx", "b.onnx", "folder/m.onnx"):
        write_model(tmp_path / name, CLEAN)
    (tmp_path / "c.json").write_text("{}")
    (tmp_path / "b.json").write_text('{"findings": []}')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for words, sentence in REFUSED.items():
        ended = castsmith(*words.split())
        assert (ended.code, ended.err) == (2, f"castsmith: {sentence}\n"), words
        assert is_one_sentence(ended.err)
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before, words
    assert sorted(os.listdir(tmp_path)) == ["b.json", "b.onnx", "c.json", "folder", "in.onnx"]


def test_the_widest_numbers_of_trunc(castsmith: Command) -> None:
    for option, other in (("--in-bitwidth", "--out-bitwidth"), ("--out-bitwidth", "--in-bitwidth")):
        words = ("dev", "trunc", "0", other, "8", option)
        ended = castsmith(*words, "65")
        assert (ended.code, ended.err) == (2, f"castsmith: {option} must be at most 64, not 65.\n")
        assert "at most" not in castsmith(*words, "64").err
