"""Each example runs as written, from an empty directory, and prints what its page shows."""

from __future__ import annotations

import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import onnx
import pytest

from castsmith.cli.main import main
from tests.sampling import complete_only

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
IMPORT = re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)
GOOD = '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) { y = Relu (x) }'
BAD = '<ir_version: 10, opset_import: ["": 21]> g (float[4] x, int64[4] n) => (float[4] y) { y = Add (x, n) }'


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")
def test_an_example_prints_what_its_page_shows(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing := [name for name in IMPORT.findall(path.read_text()) if find_spec(name) is None]:
        pytest.skip(f"{path.name} needs {', '.join(missing)}, as make examples has it")
    monkeypatch.chdir(tmp_path)
    with redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(path))
    assert printed.getvalue() == path.with_suffix(".out").read_text(), f"if this is meant, write {path.stem}.out anew"


def test_every_output_has_its_example() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.out")} == {path.stem for path in EXAMPLES.glob("*.py")}


def models(folder: Path, *texts: str) -> list[str]:
    names = [f"{index}.onnx" for index in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        onnx.save(onnx.parser.parse_model(text), folder / name)
    return names


def shell(folder: Path, monkeypatch: pytest.MonkeyPatch, *command: str) -> int:
    """The exit code of a command that finds `castsmith` on its path."""
    script = folder / "bin" / "castsmith"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m castsmith "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
def test_the_gate_lets_only_right_models_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = str(EXAMPLES / "ci_gate.sh")
    models(tmp_path, GOOD)
    assert shell(tmp_path, monkeypatch, "sh", gate, ".", "onnxruntime-android") == 0
    models(tmp_path, GOOD, BAD)
    assert shell(tmp_path, monkeypatch, "sh", gate, ".", "onnxruntime-android") == 1


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
@complete_only
def test_the_nightly_conversion_stops_at_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nightly = ("sh", str(EXAMPLES / "nightly.sh"), "incoming")
    (tmp_path / "castsmith.toml").write_text('target = "onnxruntime-cpu"')
    (tmp_path / "accepted.json").write_text('{"schema": 1, "findings": []}')
    (tmp_path / "incoming").mkdir()
    good, bad = models(tmp_path / "incoming", GOOD, BAD)
    assert shell(tmp_path, monkeypatch, *nightly) == 1
    assert "mixed-operand-types" in (tmp_path / "castsmith.sarif").read_text()
    assert not (tmp_path / "converted").exists()
    (tmp_path / "incoming" / bad).unlink()
    assert shell(tmp_path, monkeypatch, *nightly) == 0
    assert [path.name for path in (tmp_path / "converted").glob("*.onnx")] == [good]


def read_yaml(name: str) -> Any:
    yaml: Any = pytest.importorskip("yaml", reason="needs PyYAML")
    return yaml.safe_load((ROOT / name).read_text())


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
@complete_only
def test_the_pre_commit_hooks_check_and_repair_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = {hook["id"]: shlex.split(hook["entry"]) for hook in read_yaml(".pre-commit-hooks.yaml")}
    config = read_yaml("examples/pre-commit-config.yaml")["repos"][0]["hooks"]
    assert {hook["id"] for hook in config} == set(hooks)
    check, fix = hooks["castsmith-check"], hooks["castsmith-fix"]
    good, bad = models(tmp_path, GOOD, BAD)
    assert shell(tmp_path, monkeypatch, *check, "--target", "onnxruntime-cpu", good) == 0
    assert shell(tmp_path, monkeypatch, *check, bad, good) == 1
    before = (tmp_path / good).read_bytes()
    assert shell(tmp_path, monkeypatch, *fix, good, bad) == 1  # a lossy repair is not made unasked
    (tmp_path / "castsmith.toml").write_text("promote-unsafe = true")
    assert shell(tmp_path, monkeypatch, *fix, good, bad) == 0
    assert shell(tmp_path, monkeypatch, *check, good, bad) == 0
    assert (tmp_path / good).read_bytes() == before


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
def test_the_pre_commit_hooks_take_no_file_for_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they call is called in this process."""
    hostile = ("--help.onnx", "-q.onnx", "-o=x.onnx", "--exit-zero --.onnx", "--config=a.onnx")
    hooks = {hook["id"]: shlex.split(hook["entry"]) for hook in read_yaml(".pre-commit-hooks.yaml")}
    (bad,) = models(tmp_path, BAD)
    before = (tmp_path / bad).read_bytes()
    for name in hostile:
        (tmp_path / name).write_bytes(before)
    monkeypatch.chdir(tmp_path)
    (check,) = called(hooks["castsmith-check"], *hostile)
    assert main([*check, "--target", "onnxruntime-cpu"]) == 1
    (tmp_path / "castsmith.toml").write_text("promote-unsafe = true")
    assert [main(words) for words in called(hooks["castsmith-fix"], *hostile)] == [1, 0] * len(hostile)
    assert main(check) == 0


def called(hook: list[str], *files: str) -> list[list[str]]:
    """Return the words with which a hook calls castsmith; a script notes them in its place, and ends check with 1."""
    script = Path("bin/castsmith").absolute()
    script.parent.mkdir(exist_ok=True)
    script.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "" >> called\ntest "$1" != check\n')
    script.chmod(0o755)
    path = os.pathsep.join((str(script.parent), os.environ["PATH"]))
    subprocess.run([*hook, *files], env={**os.environ, "PATH": path}, check=False)
    text = Path("called").read_text()
    Path("called").unlink()
    return [lines.split("\n") for lines in text.removesuffix("\n\n").split("\n\n")]


PYTHON = f"""#!/bin/sh
echo "$@" >> called
case "$*" in
    *"-m venv "*) mkdir -p "$4/bin"; cp "$0" "$4/bin/python";;
    *"-m pip "*) ;;
    *) shift; exec {shlex.quote(sys.executable)} -P "$@";;
esac
"""
"""A Python that notes how it is called, installs nothing, and in place of -I takes -P, which allows PYTHONPATH."""
STAND_INS = {"python": PYTHON, "gh": "#!/bin/sh\necho gh $@ >> called\n"}
"""Programs that the lines of the workflow and of the action call, replaced."""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@complete_only
def test_the_workflow_and_the_action_run_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    for name, lines in STAND_INS.items():
        (tmp_path / "bin" / name).write_text(lines)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "models").mkdir()
    models(tmp_path / "models", GOOD, BAD)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    monkeypatch.setenv("GITHUB_ACTION_PATH", str(ROOT))
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path / "temporary"))

    job = read_yaml("examples/github_workflow.yml")["jobs"]["check"]
    action = read_yaml("action.yml")
    given = {"models": "models", "target": "onnxruntime-cpu", "fail-on": "error", "args": "-j 1", "sarif": "a.sarif"}
    assert set(given) == set(action["inputs"])
    assert all(set(each) == {"description", "default"} for each in action["inputs"].values())
    used = {value for step in action["runs"]["steps"] for value in step.get("env", {}).values()}
    assert used == {"1", *(f"${{{{ inputs.{name} }}}}" for name in given)}
    for steps, settings, written in (
        (job["steps"], job["env"], "castsmith.sarif"),
        (action["runs"]["steps"], {}, "a.sarif"),
    ):
        codes = list[int]()
        for step in (step for step in steps if "run" in step):
            for name, value in {**settings, **step.get("env", {})}.items():
                text = re.sub(r"\${{ inputs\.([a-z-]+) }}", lambda found: given[found[1]], value)
                monkeypatch.setenv(name, "7" if name == "NUMBER" else text)
                lines = " ".join(step["run"] for step in steps if "run" in step)
                assert f"${name}" in lines or name in ("GH_TOKEN", "PYTHONSAFEPATH")
            codes.append(shell(tmp_path, monkeypatch, "bash", "-e", "-o", "pipefail", "-c", step["run"]))
        assert sorted(codes) == [*[0] * (len(codes) - 1), 1]
        assert "mixed-operand-types" in (tmp_path / written).read_text()
    assert "mixed-operand-types" in (tmp_path / "summary.md").read_text()
    called = (tmp_path / "called").read_text().splitlines()
    assert any(line.startswith("gh pr comment 7 ") for line in called)
    assert all(line.startswith(("gh ", "-I -m ")) for line in called)
    assert any("--require-hashes" in line for line in called)


def test_the_action_installs_what_the_package_needs_each_pinned_with_its_hashes() -> None:
    lines = (ROOT / ".github" / "requirements.txt").read_text().splitlines()
    pinned = [line for line in lines if line and line[0] not in "# "]
    assert all(re.fullmatch(r"[a-z0-9-]+==[^ ;]+( ; [^\\]+)? \\", line) for line in pinned), pinned
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    names = {re.match("[A-Za-z0-9_-]+", each)[0].replace("_", "-") for each in needed}  # type: ignore[index]
    assert names <= {line.partition("==")[0] for line in pinned}
