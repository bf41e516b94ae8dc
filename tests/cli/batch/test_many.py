"""Commands over many models: files, folders and patterns, one report, and a failing model costs only itself."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from castsmith.cli.batch import many
from castsmith.cli.batch.pool import run_alone
from castsmith.cli.main import main
from castsmith.cli.outcome import Failure, Outcome, Task
from castsmith.numerics.errors import OptionError
from tests.cli.helpers import task_for

MODELS = Path(__file__).parents[3] / "models"
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
    assert data["summary"] == {"models": 4, "written": 3, "inconclusive": 0, "unchanged": 0, "failed": 1}
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


@pytest.mark.usefixtures("one_process")
def test_options_reach_every_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = inputs(tmp_path / "in")
    options = ["--until", "insert-promote-types", UNSAFE, "--json"]
    assert main(["optimize", files[0], files[2], "-o", str(tmp_path / "out"), *options]) == 0
    models = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [model["schema"] for model in models] == [1, 1]
    passes = {rule["pass"] for model in models for rule in model["summary"]["rewrites"]}
    assert passes <= {"insert-promote-types"}


@pytest.mark.usefixtures("one_process")
def test_the_folder_of_results_keeps_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b/c"):
        inputs(tmp_path / "in" / name.replace("/", "-"))
        (tmp_path / "tree" / name).mkdir(parents=True)
        (tmp_path / "in" / name.replace("/", "-") / f"{GOOD[0]}.onnx").rename(tmp_path / "tree" / name / "model.onnx")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tree" / ".git").mkdir()
    shutil.copy(MODELS / "qonnx_trunc.onnx", "tree/.git")
    wanted = {Path("a/model.onnx"), Path("b/c/model.onnx")}
    ways = (["tree"], ["tree/**/*.onnx"], ["tree/a/model.onnx", "tree/b/c/model.onnx"], ["tree/*", "tree/b"])
    for number, words in enumerate(ways):
        out = Path(f"out{number}")
        assert main(["optimize", *words, "-o", str(out), UNSAFE, "--jobs", "1"]) == 0
        assert {path.relative_to(out) for path in out.rglob("*.onnx")} == wanted
    assert main(["optimize", "tree", "-o", "tree/done", UNSAFE, "--jobs", "1"]) == 0
    assert main(["optimize", "tree", "-o", "tree/done", UNSAFE, "--jobs", "1"]) == 0
    assert not Path("tree/done/done").exists()
    Path("tree/b/c/model.onnx").write_text("no model")
    assert main(["optimize", "tree/a", "tree/b", "-o", "partly", UNSAFE, "--jobs", "1"]) == 2
    assert [path.name for path in Path("partly").iterdir()] == ["a"]


@pytest.mark.usefixtures("one_process")
def test_a_folder_is_one_for_a_single_model_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = inputs(tmp_path / "in")[0]
    there, pattern = tmp_path / "there", str(tmp_path / "in" / "mixed*.onnx")
    there.mkdir()
    for word, out in ((source, f"{tmp_path / 'new'}/"), (source, str(there)), (pattern, str(tmp_path / "glob"))):
        assert main(["optimize", word, "-o", out, UNSAFE]) == 0
        assert [path.name for path in Path(out).iterdir()] == [Path(source).name]
    before = Path(source).read_bytes()
    assert main(["optimize", source, "-o", str(tmp_path / "in"), UNSAFE]) == 2
    assert Path(source).read_bytes() == before
    (tmp_path / "empty").mkdir()
    capsys.readouterr()
    for word, reason in (("none*", "no file matches"), ("empty", "a folder without .onnx files")):
        assert main(["optimize", str(tmp_path / word), "-o", str(tmp_path / "x")]) == 2
        assert reason in capsys.readouterr().err
    assert main(["optimize", source, source, "-o", str(tmp_path / "out.onnx"), UNSAFE]) == 2
    assert "is one file, but there are several models: name a folder" in capsys.readouterr().err
    assert not (tmp_path / "out.onnx").exists()


def test_two_models_share_no_data_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = inputs(tmp_path / "in")
    words = ["-o", str(tmp_path / "out"), "--external-data", "weights"]
    assert main(["optimize", files[0], files[2], *words]) == 2
    assert "would both be written to" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("one_process")
def test_every_option_means_the_same_for_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = inputs(tmp_path / "in")
    page = tmp_path / "all.html"
    words = ["-o", str(tmp_path / "out"), "--narrow", "int64", "--diff", "--explain", "--report", str(page), UNSAFE]
    assert main(["optimize", files[0], files[2], *words]) == 0
    many = capsys.readouterr().out
    assert page.read_text().startswith("<!doctype html>")
    for file in (files[0], files[2]):
        output = str(tmp_path / "out" / Path(file).name)
        words[1] = output
        words[7] = str(tmp_path / "one.html")
        assert main(["optimize", file, *words]) == 0
        assert capsys.readouterr().out in many
    assert main(["optimize", files[0], "-o", str(tmp_path / "x.onnx"), "--report", str(tmp_path / "r.pdf")]) == 2
    assert ".json or .html" in capsys.readouterr().err


@pytest.mark.usefixtures("one_process")
def test_what_is_unchanged_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files, out = inputs(tmp_path / "in"), tmp_path / "out"

    def unchanged(*more: str) -> int:
        report = tmp_path / "r.json"
        words = ["-o", str(out), "--skip-unchanged", "--report", str(report), UNSAFE, *more]
        assert main(["optimize", str(tmp_path / "in"), *words]) == 2
        assert "bad.onnx: not an ONNX model" in capsys.readouterr().err
        return json.loads(report.read_text())["summary"]["unchanged"]

    assert unchanged() == 0
    assert unchanged() == 3
    assert unchanged("--keep-output-types") == 0
    assert unchanged("--keep-output-types") == 3
    shutil.copy(files[2], files[0])
    (out / f"{GOOD[2]}.onnx").write_bytes(b"damaged")
    assert unchanged("--keep-output-types") == 1
    state = out / ".castsmith.jsonl"
    state.write_text(state.read_text().rstrip("\n")[:-20])
    assert unchanged("--keep-output-types") == 2


@pytest.mark.usefixtures("one_process")
def test_what_was_rewritten_in_place_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "in"
    Path(inputs(folder)[1]).unlink()
    for count in ("3 written", "3 unchanged"):
        assert main(["optimize", str(folder), "-o", str(folder), "--skip-unchanged", UNSAFE]) == 0
        assert count in capsys.readouterr().out


@pytest.mark.usefixtures("one_process")
def test_convert_check_and_verify_take_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out, names = tmp_path / "in", tmp_path / "out", GOOD[:2]
    for path in inputs(folder):
        if Path(path).stem not in names:
            Path(path).unlink()
    assert main(["convert", str(folder), "-o", str(out), "--to", "float16"]) == 0
    printed = capsys.readouterr().out
    assert "2 models: 2 written, 0 failed" in printed
    assert "    + " not in printed  # the rewrites, which only --diff and --explain show
    assert main(["check", str(folder), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["models"]
    assert {model["input"] for model in found} == {str(folder / f"{name}.onnx") for name in names}
    for source in names:
        shutil.copy(folder / f"{GOOD[1]}.onnx", out / f"{source}.onnx")
    for option, name in (("--dim", "Nothing=3"), ("--shape", "Nothing=3"), ("--allow-type-change", "Nothing")):
        assert main(["verify", str(folder), str(folder), option, name]) == 2
        assert f"{option} Nothing: unknown " in capsys.readouterr().err
    assert main(["verify", str(folder), str(folder), UNSAFE, "--sets", "1", "--dim", "batch=2"]) == 0
    assert "2 models: 2 equal" in capsys.readouterr().out
    assert main(["verify", str(folder), str(out), UNSAFE, "--sets", "1", "--json"]) == 1
    verdicts = [json.loads(line)["verdict"] for line in capsys.readouterr().out.splitlines()]
    assert sorted(verdicts) == ["different", "equal"]
    (out / f"{GOOD[0]}.onnx").unlink()
    for more in (".", ", nor 1 other."):
        assert main(["verify", str(folder), str(out)]) == 2
        assert f"{out} has no {GOOD[0]}.onnx to compare with{more}\n" in capsys.readouterr().err
        assert main(["verify", str(out), str(folder)]) == 2
        assert f"{out} has no {GOOD[0]}.onnx to compare with{more}\n" in capsys.readouterr().err
        shutil.copy(folder / f"{GOOD[0]}.onnx", folder / "z.onnx")


def test_nothing_is_imported_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    task = task_for("optimize", files[0], "-o", "one.onnx", UNSAFE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert run_alone(task).exit_code == 0
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


@pytest.mark.usefixtures("one_process")
def test_a_folder_of_models_is_optimized_in_place(tmp_path: Path) -> None:
    files = inputs(tmp_path / "in")
    twin = tmp_path / "in" / "twin.onnx"
    twin.hardlink_to(files[0])
    before = Path(files[0]).read_bytes()
    assert main(["optimize", files[0], str(twin), "-o", str(tmp_path / "in"), UNSAFE]) == 0
    assert before not in (Path(files[0]).read_bytes(), twin.read_bytes())


def test_what_one_of_many_models_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Each message names the file once; the text is for --diff and --explain, and JSON is one line."""
    messages = ["castsmith: it is odd", "castsmith: a.onnx: it is odd", "beside it"]
    done = Outcome(Task("a.onnx", "out/a.onnx", {}), messages=messages, text="changed\n", report={"key": 1})
    refused = Outcome(Task("a.onnx", "", {}), 2, failure=Failure("usage", "no", "", 2))
    text = "castsmith: a.onnx: it is odd\ncastsmith: a.onnx: it is odd\na.onnx: beside it\n"
    error = {"error": {"code": "usage", "message": "no", "file": "a.onnx", "exit_code": 2}}
    same = {"input": "a.onnx", "output": "out/a.onnx", "unchanged": True}
    for options, outcome, out, err in (
        ({}, done, "", text),
        ({"diff": None, "explain": False}, done, "", text),
        ({"diff": "net"}, done, "changed\n", text),
        ({"diff": None, "explain": True}, done, "changed\n", text),
        ({"json": True, "diff": "net"}, done, {"schema": 1, "key": 1}, text),
        ({"json": True}, refused, {"schema": 1, **error}, ""),
        ({"json": True}, Outcome(refused.task), {"schema": 1}, ""),
        ({"json": True}, Outcome(done.task, report={"key": 1}, unchanged=True), {"schema": 1, **same}, ""),
    ):
        many._tell(argparse.Namespace(**{"json": False, **options}), outcome)  # pyright: ignore[reportPrivateUsage]
        said = capsys.readouterr()
        assert (json.loads(said.out) if options.get("json") else said.out, said.err) == (out, err), options


def test_the_task_of_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the options of the run but those that are for all models, and the data that the run needs of it."""
    given = argparse.Namespace(parser=1, outcome=2, output="old", jobs=3, report=None, json=False, quiet=True)
    everything = {"json": False, "report": None, "jobs": None, "dask": None, "skip_unchanged": False, "verbose": False}
    task = many.task_of(given, "a", input=["a"])
    assert (task.source, task.output, task.wanted) == ("a", "", "figures")
    assert everything.items() <= task.values.items()
    assert (task.values["output"], task.values["input"]) == ("old", ["a"])
    assert not {"parser", "outcome"} & {*task.values}
    assert many.task_of(given, "a", "new").values["output"] == "new"
    for report, as_json, wanted in ((None, True, "report"), ("r.json", False, "report"), ("r.html", False, "page")):
        given.report, given.json = report, as_json
        assert many.task_of(given, "a").wanted == wanted

    monkeypatch.chdir(tmp_path)
    Path("npu.json").touch()
    values = {"input": ["a.onnx"], "output": "new/", "target": "npu.json", "promotion": "torch", "inputs": None}
    far = many._seen_from_afar(Task("a.onnx", "", values))  # pyright: ignore[reportPrivateUsage]
    here = os.getcwd()
    assert far.values == {
        "input": [f"{here}{os.sep}a.onnx"], "output": f"{here}{os.sep}new", "target": f"{here}{os.sep}npu.json",
        "promotion": "torch", "inputs": None,
    }  # fmt: skip


def test_how_a_run_over_many_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report and the table are for who wants them; a dry run, and verify, write no models."""
    task = Task("a", "out/a", {})
    done, failed = Outcome(task, 0), Outcome(Task("b", "out/b", {}), 2)
    report, dry, quiet = {"report": str(tmp_path / "r.json")}, {"dry_run": True}, {"quiet": True}
    everything = {"command": "optimize", "json": False, "quiet": False, "output": "out", "report": None}
    all_written, one = "out (2 models)", "out (1 model)"
    for options, ended, code, written, has_report, has_table in (
        ({}, [done, done], 0, all_written, False, True),
        (report, [done, failed], 2, one, True, True),
        (report | quiet, [failed, failed], 2, None, True, False),
        (report | dry, [done, done], 0, None, False, True),
        ({"json": True}, [done, done], 0, all_written, False, False),
        ({"output": None}, [done, done], 0, None, False, True),
        ({}, [Outcome(task, 3), Outcome(task, unchanged=True)], 3, one, False, True),
    ):
        arguments = argparse.Namespace(**{**everything, **options})
        assert many._conclude(arguments, ended) == code  # pyright: ignore[reportPrivateUsage]
        assert getattr(arguments, "written", None) == written, options
        assert bool(capsys.readouterr().out) is has_table, options
        files = list(tmp_path.iterdir())
        assert bool(files) is has_report, options
        for file in files:
            file.unlink()


def test_where_several_results_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data file counts where one is asked for; a model may take its own place, and nothing another's."""
    monkeypatch.chdir(tmp_path)
    a, b, data = Task("a", "out/m", {}), Task("b", "out/n", {}), Task("c", "out/m.data", {})
    both, over = "a and {} would both be written to {}: rename one.", "{} would be written to b, over the input b:"
    npu = "npu.json"
    for tasks, options, said in (
        ([a, b, data], {}, ""),
        ([a, b], {"external_data": "w"}, both.format("b", "out/w")),
        ([a, data], {"external_data": "w"}, both.format("c", "out/w")),
        ([a, Task("b", "out/./m", {})], {}, both.format("b", "out/m")),
        ([Task("a", "a", {}), Task("b", "b", {})], {}, ""),
        ([Task("a", "b", {}), Task("b", "out/n", {})], {}, over.format("a")),
        ([a], {"external_data": "../b"}, ""),
        ([a, b], {"external_data": "sub/w"}, both.format("b", "out/sub/w")),
        ([Task("a", "d/m", {}), Task("b", "out/n", {})], {"external_data": "../b"}, "a would be written to d/../b"),
        ([a, Task("b", npu, {})], {"target": npu}, "OUT npu.json would overwrite"),
        ([a, Task("b.json", "out/n", {})], {"report": "b.json"}, "--report b.json would overwrite"),
        ([a, Task("b", "out/n.json", {})], {"report": "out/n.json"}, "--report out/n.json would overwrite"),
        ([a], {"report": "out/w.json", "external_data": "w.json"}, "--report out/w.json would overwrite"),
    ):
        arguments = argparse.Namespace(**{"external_data": None, "report": None, **options})
        if said:
            with pytest.raises(OptionError) as caught:
                many._require_places(arguments, tasks)  # pyright: ignore[reportPrivateUsage]
            assert said in str(caught.value)
        else:
            many._require_places(arguments, tasks)  # pyright: ignore[reportPrivateUsage]
