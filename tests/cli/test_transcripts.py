"""The whole output of each command for rich models: transcripts below `golden`, whose commands are run again.

A transcript is what a terminal shows: a line `$ castsmith ...` for each command, what it prints, with `! ` before the
lines on stderr, and its exit code. After `$ terminal castsmith ...` standard output is a terminal of 60 columns, whose
escape sequences are written as `<31m>`. The models are those below; files that commands write stay for those after it.
"""

from __future__ import annotations

import operator
import re
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.external_data_helper
import onnx.numpy_helper
import pytest

from castsmith import __version__
from tests.cli.helpers import Command, write_model

pytestmark = pytest.mark.usefixtures("engines_here")

GOLDEN = Path(__file__).parent / "golden"
HEAD = '<ir_version: 10, opset_import: ["" : 18]>'
KINDS = ("Exp", "Sin", "Cos", "Tan", "Tanh", "Floor", "Ceil", "Sqrt", "Reciprocal", "Softsign")


def chain(name: str, kinds: tuple[str, ...], start: str) -> str:
    """Return named nodes, each of which uses the one before."""
    values = [start, *(f"{name}{index}" for index in range(len(kinds)))]
    lines = (f"[{name}_{index}] {values[index + 1]} = {kind} ({values[index]})" for index, kind in enumerate(kinds))
    return "\n".join(lines)


def differing(*, other: bool) -> str:
    """Return one of two models that differ in places alike, exactly at and beyond the numbers that are shown."""
    narrow, wide, half = ("float16", "double", "float16") if other else ("float", "float", "float")
    one, two = (15360, 16384) if other else (1, 2)  # text has float16 as codes
    wides = ", ".join(f"{wide}[1] w{index} = {{{index}}}" for index in range(4))
    gone, new = ("", ", float[2] m3") if other else (", float[2] k9", "")
    return f"""{HEAD}
    main (float[2] x, {narrow}[2] r, {narrow}[2] o)
      => (float[2] y, float[2] n3, {narrow}[2] p, {narrow}[2] g, {wide}[1] q, {half}[1] t, float[2] z{gone}{new})
    <{wides}, {half}[1] h0 = {{0}}, {half}[1] h1 = {{{one}}}, {half}[1] h2 = {{{two}}},
     float[2] v = {{1.0, {3.0 if other else 2.0}}}> {{
      {chain("s", ("Sigmoid" if other else "Relu",) * 8, "x")}
      [end] y = Identity (s7)
      {chain("n", ("Abs" if other else "Neg",) * 4, "x")}
      {chain("m", ("Erf",) * 4, "x") if other else chain("k", KINDS, "x")}
      {chain("p", ("Neg",) * 5, "r")}
      [left] p = Identity (p4)
      {chain("g", ("Neg",) * 2, "o")}
      [right] g = Identity (g1)
      [wides] q = Sum (w0, w1, w2, w3)
      [halves] t = Sum (h0, h1, h2)
      [scaled] z = Mul (y, v)
    }}"""


MIXED = f"""{HEAD}
layers (float[2] x, int16[2] y, bool c) => (float[2] z, float16[2] h)
<float[2] w = {{1.0, 1000.0}}> {{
    [constant] two = Constant <value_float: float = 2.0> ()
    [sum] a = Add (x, y)
    [product] b = Mul (a, two)
    [wide] p = Cast <to = 11> (b)
    [narrow] h = Cast <to = 10> (p)
    [choice] e = If (c) <
        then_branch = then () => (float[2] t) {{ [same] r = Cast <to = 1> (b) [relu] t = Relu (r) }},
        else_branch = other () => (float[2] u) {{ [negated] u = Neg (b) }}
    >
    [whole] i = Cast <to = 3> (w)
    [float] l = Cast <to = 1> (i)
    [end] z = Add (e, l)
}}"""


def casts(alike: int) -> str:
    """Return a model of so many chains of casts, and as many constants whose cast is undefined."""
    chains = "\n".join(
        f"[wide_{index}] a{index} = Cast <to = 11> (x) [back_{index}] b{index} = Cast <to = 10> (a{index})"
        f" [undefined_{index}] c{index} = Cast <to = 3> (w{index})"
        for index in range(alike)
    )
    weights = ", ".join(f"float[1] w{index} = {{1000}}" for index in range(alike))
    outputs = ", ".join(f"float16[2] b{index}, int8[1] c{index}" for index in range(alike))
    return f"{HEAD} casts (float16[2] x) => ({outputs}) <{weights}> {{ {chains} }}"


def lost(kinds: tuple[str, ...]) -> str:
    """Return a model whose constant has its data in a file that is missing, once `lose_weights` has changed it."""
    nodes = chain("c", kinds, "x")
    return f"{HEAD} lost (float[2] x) => (float[2] z) <float[2] w = {{1, 2}}> {{ {nodes} [end] z = Add (c5, w) }}"


MODELS = {
    "mixed": MIXED,
    "unsafe": MIXED.replace("int16[2] y", "int64[2] y"),
    "clean": f"{HEAD} clean (float[2] x) => (float[2] z) {{ [node] z = Relu (x) }}",
    "before": differing(other=False),
    "after": differing(other=True),
    "casts4": casts(4),
    "casts8": casts(8),
    "texts": f"""{HEAD} texts (string[N] s) => (string[N] t, string[1] e)
      <string[1] one = {{"a text"}}, string[2] two = {{"é", "\\\\"}}> {{
        [upper] t = StringNormalizer <case_change_action = "UPPER", stopwords = ["a", "b"]> (s)
        [end] e = Identity (one)
      }}""",
    "table": f"""{HEAD} table (double[3] amount, float[3] rate) => (float[3] paid) {{
      [wide] r = Cast <to = 11> (rate)
      [product] p = Mul (amount, r)
      [narrow] paid = Cast <to = 1> (p)
    }}""",
    "lost_a": lost(KINDS[:6]),
    "lost_b": lost((*KINDS[:3], "Neg", *KINDS[4:6])),
}


FILES = {
    "broken.onnx": "no model",
    "list.json": "[]",
    "folder.json/file": "",
    "none/pyproject.toml": "[tool.other]",
    "number/pyproject.toml": "[tool]\ncastsmith = 1",
}


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda path: path.stem)
def test_a_transcript(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """The message of a failure is the new text, to be read and taken."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = path.read_text(encoding="utf-8")
    for name in (name for name in MODELS if f"{name}.onnx" in text):
        written = write_model(Path(f"{name}.onnx"), MODELS[name])
        if name.startswith("lost"):
            lose_weights(written)
    for name, content in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(content)
    sets: dict[str, Any] = {"one/x": np.array([0.5, 2], "f4"), "two/x": np.array([1, 60000], "f4")}
    np.savez("sets.npz", **sets)
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            words = shlex.split(line)[1:]
            monkeypatch.setattr(sys.stdout, "isatty", partial(operator.eq, words[0], "terminal"))
            lines += [line, *shown(castsmith, words[words.index("castsmith") + 1 :])]
    new = "\n".join(lines)
    assert new == text, new


def lose_weights(path: Path) -> None:
    """Let the constants of the model have their data in a file that is missing."""
    proto = onnx.load(path)
    for tensor in proto.graph.initializer:
        tensor.raw_data = onnx.numpy_helper.to_array(tensor).tobytes()
        onnx.external_data_helper.set_external_data(tensor, "missing.bin", length=len(tensor.raw_data))
        tensor.ClearField("float_data")
        tensor.ClearField("raw_data")
    onnx.save(proto, path)


def shown(castsmith: Command, words: list[str]) -> list[str]:
    """Return the output of a command, without the version of Castsmith and the sizes of the files that it writes."""
    ended = castsmith(*words)
    text = "".join((ended.out, *(f"! {line}\n" for line in ended.err.splitlines()), f"exit code {ended.code}\n"))
    text = re.sub(r"\x1b\[([0-9;]*m)", r"<\1>", text).replace("<0m><1m>", "").replace(__version__, "VERSION")
    text = "\n".join(map(str.rstrip, text.split("\n")))
    text = re.sub(r"(?m)^(  file .*  )\d[\d.]* [KM]?B$", r"\1SIZE", text)
    return re.sub(r"(?<=-> )\d[\d.]* [KM]?B\b", "SIZE", text).split("\n")
