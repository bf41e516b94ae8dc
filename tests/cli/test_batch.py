"""optimize of many models: one report, and a failing model does not stop the others, here or on a Dask cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from castsmith.cli.batch import worker as batch_worker
from castsmith.cli.main import main

MODELS = Path(__file__).parents[2] / "models"
GOOD = ("mixed_types", "qonnx_trunc", "control_flow")
UNSAFE = "--promote-unsafe"


def inputs(folder: Path) -> list[str]:
    """Three models, and between them a file that is not a model."""
    folder.mkdir()
    for name in GOOD:
        shutil.copy(MODELS / f"{name}.onnx", folder)
    (folder / "bad.onnx").write_bytes(b"no model")
    names = (GOOD[0], "bad", *GOOD[1:])
    return [str(folder / f"{name}.onnx") for name in names]


def require_all_but_the_bad(folder: Path, report: Path) -> None:
    assert sorted(path.stem for path in folder.iterdir()) == sorted(GOOD)
    for path in folder.iterdir():
        onnx.checker.check_model(onnx.load(path), full_check=True)
    data = json.loads(report.read_text())
    assert data["summary"] == {"models": 4, "written": 3, "inconclusive": 0, "failed": 1}
    assert [model["exit_code"] for model in data["models"]] == [0, 2, 0, 0]
    (sentence,) = data["models"][1]["messages"]
    assert "bad.onnx: not an ONNX model" in sentence
    assert data["models"][0]["report"]["summary"]["rewrites"]


def test_a_bad_model_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "all.json"
    files = inputs(tmp_path / "in")
    code = main(["optimize", *files, "-o", str(tmp_path / "out"), "-j", "2", "--report", str(report), UNSAFE])
    assert code == 2
    require_all_but_the_bad(tmp_path / "out", report)
    said = capsys.readouterr()
    assert "4 models: 3 written, 1 failed" in said.out
    assert "bad.onnx: not an ONNX model" in said.err


def test_options_reach_every_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = inputs(tmp_path / "in")
    options = ["--until", "insert-promote-types", UNSAFE, "--json"]
    assert main(["optimize", files[0], files[2], "-o", str(tmp_path / "out"), *options]) == 0
    models = json.loads(capsys.readouterr().out)["models"]
    passes = {rule["pass"] for model in models for rule in model["report"]["summary"]["rewrites"]}
    assert passes <= {"insert-promote-types"}


def test_two_models_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [inputs(tmp_path / "a")[0], inputs(tmp_path / "b")[0]]
    assert main(["optimize", *files, "-o", str(tmp_path / "out")]) == 2
    assert "would both be written to" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_process_that_dies_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def dying(*_: object) -> list[str]:
        return ["/bin/sh", "-c", "kill -9 $$"]

    monkeypatch.setattr(batch_worker, "command_of", dying)
    done = batch_worker.optimize_in_process("a.onnx", "b.onnx", [])
    assert done["exit_code"] == 2
    assert done["messages"] == ["a.onnx: the process was ended by signal 9."]


def test_no_scheduler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = inputs(tmp_path / "in")
    assert main(["optimize", *files, "-o", str(tmp_path / "out"), "--dask", "tcp://127.0.0.1:1"]) == 2
    assert "--dask" in capsys.readouterr().err


def test_a_dask_cluster_of_two_workers(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")
    report, files = tmp_path / "all.json", inputs(tmp_path / "in")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster:
        address = cluster.scheduler_address
        code = main(
            ["optimize", *files, "-o", str(tmp_path / "out"), "--dask", address, "--report", str(report), UNSAFE]
        )
    assert code == 2
    require_all_but_the_bad(tmp_path / "out", report)


def test_nothing_is_imported_from_the_current_folder(tmp_path: Path) -> None:
    files = inputs(tmp_path / "in")
    for name in (
        "argparse",
        "typing",
        "json",
        "signal",
        "numpy",
        "onnx",
        "onnx_ir",
        "castsmith_numerics",
        "subprocess",
    ):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})")
    words = ["optimize", files[0], files[2], "-o", "out", UNSAFE, "--json"]
    command = [sys.executable, "-m", "castsmith", *words]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    command = batch_worker.command_of(files[0], "one.onnx", [UNSAFE])
    env = batch_worker.environment({**os.environ, "PYTHONPATH": os.pathsep})
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, env=env).returncode == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("way", ["same", "spelling", "symlink", "hardlink", "output", "data", "promotion"])
def test_a_report_takes_the_place_of_no_other_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    files = inputs(tmp_path / "in")
    rules = tmp_path / "rules.json"
    rules.write_text('{"name": "mine", "library": "torch"}')
    victim, link = Path(files[2]), tmp_path / "link"
    if way == "symlink":
        link.symlink_to(victim)
    if way == "hardlink":
        link.hardlink_to(victim)
    report = {
        "same": victim,
        "spelling": victim.parent / ".." / "in" / victim.name,
        "output": tmp_path / "out" / victim.name,
        "data": tmp_path / "out" / f"{victim.name}.data",
        "promotion": rules,
    }.get(way, link)
    before = victim.read_bytes(), rules.read_bytes()
    words = ["-o", str(tmp_path / "out"), "--report", str(report), "--promotion", str(rules)]
    for sources in ([files[0], files[2]], [files[2]]):
        one = len(sources) == 1
        if one:
            words[1] = str(tmp_path / "out" / victim.name)
        if one and way == "data":
            continue
        assert main(["optimize", *sources, *words]) == 2
        assert "would overwrite" in capsys.readouterr().err
        assert (victim.read_bytes(), rules.read_bytes()) == before
        assert not (tmp_path / "out").exists()


def test_no_model_is_written_over_another_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = inputs(tmp_path / "in")
    out = tmp_path / "out"
    out.mkdir()
    (out / Path(files[0]).name).symlink_to(files[2])
    before = Path(files[2]).read_bytes()
    assert main(["optimize", files[0], files[2], "-o", str(out)]) == 2
    assert "over the input" in capsys.readouterr().err
    (out / Path(files[0]).name).unlink()
    (out / Path(files[0]).name).symlink_to(out / Path(files[2]).name)
    assert main(["optimize", files[0], files[2], "-o", str(out)]) == 2
    assert "would both be written to" in capsys.readouterr().err
    assert Path(files[2]).read_bytes() == before


def test_a_folder_of_models_is_optimized_in_place(tmp_path: Path) -> None:
    files = inputs(tmp_path / "in")
    twin = tmp_path / "in" / "twin.onnx"
    twin.hardlink_to(files[0])
    before = Path(files[0]).read_bytes()
    assert main(["optimize", files[0], str(twin), "-o", str(tmp_path / "in"), UNSAFE]) == 0
    assert before not in (Path(files[0]).read_bytes(), twin.read_bytes())
