"""castsmith show, and both commands in git: as textconv and as external diff program, in a real repository."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest

from castsmith.cli.commands.show import git_lines
from castsmith.cli.text.terminal import Line
from tests.cli.commands.test_diff import TEXT, model
from tests.cli.helpers import CHAIN, MIXED, Command, is_one_sentence, write_model
from tests.sampling import complete_only

SHOWN = """ir_version: 10
opset_import: ai.onnx 18
opset_import: local 1
metadata "key": "value"
main {
  input c: bool[]
  input x: float[N, 4]
  output y: float[N, 4]
  output both: float[N, 8]
  constant axes: int64[1] {0}
  constant v: float[4] {0.5, 0.5, 0.5, 0.5}
  constant w: float[4] {1.0, 2.0, 3.0, 4.0}
  scaled = Mul (x, w)  # (float[N, 4], float[4]) -> float
  shifted = Add (scaled, v)  # (float, float[4]) -> float
  active = Relu (shifted)  # (float) -> float
  chosen = If (c)  # (bool[]) -> float
    else_branch = no {
      output q: float[N, 4]
      half = Constant <value = float[] {0.5}> ()  # () -> float
      q = Mul (active, half)  # (float, float) -> float[N, 4]
    }
    then_branch = yes {
      output p: float[N, 4]
      p = Neg (active)  # (float) -> float[N, 4]
    }
  d = Cast <to = double> (chosen)  # (float) -> double
  y = Cast <to = float> (d)  # (double) -> float[N, 4]
  wide = Concat <axis = 1> (active, scaled)  # (float, float) -> float
  both = local.twice <factor = 2> (wide)  # (float) -> float[N, 8]
}

opset_import: ai.onnx 18
function local.twice {
  input a: ?
  input unused: ?
  output b: ?
  parameter factor
  b = Add (a, a)  # (float, float) -> float
}
"""


def test_a_model_as_text(castsmith: Command, tmp_path: Path) -> None:
    ended = castsmith("show", write_model(tmp_path / "a.onnx", TEXT))
    assert (ended.code, ended.err, ended.out) == (0, "", SHOWN)
    ended = castsmith("show", tmp_path / "none.onnx")
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)


def test_the_text_follows_from_the_graph_and_not_from_the_file(castsmith: Command, tmp_path: Path) -> None:
    """Any valid order of nodes gives one text; each change of the file that the graph shows gives another."""
    proto = model()
    nodes = list(proto.graph.node)
    for seed in range(8):
        made: set[str] = {"c", "x", "w", "v", "axes"}
        waiting = random.Random(seed).sample(nodes, len(nodes))
        del proto.graph.node[:]
        while waiting:
            ready = next(
                node for node in waiting if set(node.input) <= made and (node.op_type != "If" or "active" in made)
            )
            waiting.remove(ready)
            made.update(ready.output)
            proto.graph.node.append(ready)
        tensors = sorted(proto.graph.initializer, key=lambda tensor: random.Random(f"{seed}{tensor.name}").random())
        del proto.graph.initializer[:]
        proto.graph.initializer.extend(tensors)
        onnx.save(proto, tmp_path / "a.onnx")
        assert castsmith("show", tmp_path / "a.onnx").out == SHOWN
    proto.graph.node[0].metadata_props.add(key="k", value="v")
    onnx.save(proto, tmp_path / "a.onnx")
    assert '    metadata "k": "v"\n' in castsmith("show", tmp_path / "a.onnx").out


def large(path: Path, last: float, *, external: bool = False) -> None:
    """Write a model with a constant and an attribute that are too long to be shown."""
    numbers = [*range(200), last]
    proto = onnx.parser.parse_model(CHAIN.replace("z = Relu (b)", "e = Relu (b) z = Add (e, w)"))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(numbers, np.float16), "w"))
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("extra", [float(number) for number in numbers]))
    onnx.save(proto, path, save_as_external_data=external, location="w.data", size_threshold=0)


def test_the_limit_of_a_text(castsmith: Command, tmp_path: Path) -> None:
    for length, more in ((198, False), (199, True)):  # and two quotes
        proto = onnx.parser.parse_model(CHAIN)
        proto.graph.node[0].attribute.append(onnx.helper.make_attribute("extra", "x" * length))
        onnx.save(proto, tmp_path / "a.onnx")
        assert ("... blake2b" in castsmith("show", tmp_path / "a.onnx").out) is more


def test_a_line_continues_further_in(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = list[Line]()
    monkeypatch.setattr("castsmith.cli.commands.show.print_lines", lines.extend)
    castsmith("show", write_model(tmp_path / "a.onnx", TEXT))
    assert {(len(line.plain) - len(line.plain.lstrip()), line.hang) for line in lines} == {
        (0, 4), (2, 6), (4, 8), (6, 10),
    }  # fmt: skip


def test_what_is_long_is_shown_by_a_digest(castsmith: Command, tmp_path: Path) -> None:
    texts: list[str] = []
    for last in (1.0, 2.0):
        large(tmp_path / "a.onnx", last)
        texts.append(castsmith("show", tmp_path / "a.onnx").out)
    different = [a for a, b in zip(*map(str.splitlines, texts), strict=True) if a != b]
    assert [line.split()[0] for line in different] == ["constant", "a"]
    assert max(map(len, different)) < 400


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if shutil.which("git") is None or sys.platform == "win32":
        pytest.skip("needs git and a shell")
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    git("init", "-q")
    for key, value in {
        "user.name": "a",
        "user.email": "a@b",
        "diff.renames": "true",
        "core.quotePath": "false",
    }.items():
        git("config", key, value)
    command = f"{sys.executable} -m castsmith"
    git("config", "diff.onnx.textconv", f"{command} show --textconv")
    git("config", "diff.onnx.command", f"{command} diff")
    Path(".gitattributes").write_text("*.onnx diff=onnx\n")
    return tmp_path


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commit_and_change() -> None:
    """Commit models, then change, add, delete and rename some; one has external data, one is not a model."""
    for name, text in {"with blank.onnx": TEXT, "gone.onnx": MIXED, "old.onnx": TEXT}.items():
        write_model(Path(name), text)
    Path("bad.onnx").write_text("not a model")
    Path("folder").mkdir()
    large(Path("folder/external.onnx"), 1.0, external=True)
    git("add", ".")
    git("commit", "-q", "-m", "before")
    proto = model()
    proto.graph.node[3].attribute[0].i = 0
    onnx.save(proto, "with blank.onnx")
    write_model(Path("new.onnx"), CHAIN)
    Path("gone.onnx").unlink()
    git("mv", "old.onnx", "renamed.onnx")
    proto = onnx.load("folder/external.onnx", load_external_data=False)
    proto.graph.node[0].attribute[0].i = 1
    onnx.save(proto, "folder/external.onnx")
    onnx.save(model_of_opset(17), "renamed.onnx")
    Path("bad.onnx").write_text("neither")
    git("add", ".")


def model_of_opset(version: int) -> onnx.ModelProto:
    proto = model()
    proto.opset_import[0].version = version
    return proto


@complete_only
def test_git_shows_models_by_both_ways(repository: Path) -> None:
    commit_and_change()
    shown = git("diff", "--cached", "--find-renames=50%")
    for expected in (
        "castsmith diff a/with blank.onnx b/with blank.onnx\n--- a/with blank.onnx\n+++ b/with blank.onnx\n"
        "main: wide (Concat)\n  attribute axis: 1 -> 0\n1 difference;",
        "--- /dev/null\n+++ b/new.onnx\nnew model: opset 18, 3 nodes, 2 casts, tensors of 0 B\n",
        "--- a/gone.onnx\n+++ /dev/null\ndeleted model: opset 18, 1 node, 0 casts, tensors of 0 B\n",
        "rename from old.onnx\nrename to renamed.onnx\n",
        "--- a/old.onnx\n+++ b/renamed.onnx\nopset of ai.onnx: 18 -> 17\n",
        "not compared by meaning: a/bad.onnx: not an ONNX model",
        "not compared by meaning: a/folder/external.onnx: tensor 'w' keeps its data in 'w.data', which is missing.",
        "-  a = Cast <extra = ",
        "+  a = Cast <extra = ",
    ):
        assert expected in shown
    text = git("diff", "--cached", "--find-renames=50%", "--no-ext-diff")
    for expected in (
        "-  wide = Concat <axis = 1> (active, scaled)  # (float, float) -> float\n"
        "+  wide = Concat <axis = 0> (active, scaled)  # (float, float) -> float\n",
        "-opset_import: ai.onnx 18\n+opset_import: ai.onnx 17\n",
        " not shown: not an ONNX model, or truncated.\n-11 bytes, sha256 ",
    ):
        assert expected in text
    assert ' constant w: float16[201] in "w.data", offset 0, 402 bytes\n' in git(
        "diff", "--no-ext-diff", "--cached", "-U9"
    )
    assert str(repository) not in shown + text


def test_git_gets_the_reason_and_a_digest_of_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"no model")
    digest = hashlib.sha256(b"no model").hexdigest()[:16]
    assert git_lines(str(tmp_path / "a.onnx")) == [
        "not shown: not an ONNX model, or truncated.", f"8 bytes, sha256 {digest}"
    ]  # fmt: skip
    assert git_lines(str(tmp_path / "none.onnx")) == ["not shown: no such file."]
    assert len(git_lines(str(tmp_path))) == 1


def test_diff_takes_no_other_numbers_of_models(castsmith: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (["a"], list("abc"), list("abcdef"), list("abcdefgh")):
        ended = castsmith("diff", *words)
        assert (ended.code, ended.out) == (2, "")
        assert is_one_sentence(ended.err)
    monkeypatch.setenv("GIT_DIFF_PATH_COUNTER", "1")
    ended = castsmith("diff", "a.onnx")
    assert (ended.code, ended.out) == (0, "unmerged: a.onnx\n")
