"""A baseline accepts the findings that are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.gate.samples import FOLLOWED, LOSSY
from tests.cli.helpers import CLEAN, Command, write_model

pytestmark = pytest.mark.usefixtures("untried")


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


def test_a_model_that_is_none_fails_a_run_that_writes_a_baseline(castsmith: Command, folder: Path) -> None:
    words = ("check", "models", "--baseline", "b.json", "--write-baseline")
    assert castsmith(*words).code == 0
    (folder / "models" / "bad.onnx").write_text("no model")
    ended = castsmith(*words)
    assert (ended.code, ended.out) == (2, "b.json: 6 findings of 4 models written\n")
