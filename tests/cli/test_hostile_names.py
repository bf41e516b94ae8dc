"""Control characters and those that turn the direction of text, in names of files and everywhere in a model.

No command prints one: a terminal would obey it, and GitHub takes a line that begins with `::` as a command.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from castsmith.cli.main import main

pytestmark = pytest.mark.usefixtures("engines_here")

EVIL = "\x1b[31m\u202eevil\u2066\x07\x9b\n::error::x\r\x7f"
_STYLES = re.compile(r"\x1b\[[0-9;]*m")


def name(role: str) -> str:
    return f"{role}{EVIL}"


def model(dtype: int = TensorProto.FLOAT16) -> onnx.ModelProto:
    """A model that every command has something to say about, with such text wherever a file may have text."""
    body = helper.make_graph(
        [helper.make_node("Cast", [name("c")], [name("t")], name("inner"), to=TensorProto.DOUBLE)],
        name("branch"),
        [],
        [helper.make_tensor_value_info(name("t"), TensorProto.DOUBLE, [name("N")])],
    )
    nodes = [
        helper.make_node("Cast", [name("x")], [name("c")], name("Cast"), to=TensorProto.DOUBLE),
        helper.make_node("If", [name("b")], [name("i")], name("If"), then_branch=body, else_branch=_other(body)),
        helper.make_node("Cast", [name("i")], [name("d")], name("back"), to=dtype),
        helper.make_node("Cast", [name("w")], [name("v")], name("weight"), to=dtype),
        helper.make_node("Mul", [name("d"), name("v")], [name("m")], name("Mul")),
        helper.make_node(name("F"), [name("m")], [name("f")], name("call"), domain=name("domain")),
        helper.make_node("Exp", [name("f")], [name("y")], name("Exp")),
    ]
    for node in nodes:
        node.doc_string = name("doc")
        node.metadata_props.add(key=name("key"), value=name("value"))
    function = helper.make_function(
        name("domain"),
        name("F"),
        [name("a")],
        [name("r")],
        [helper.make_node("Cast", [name("a")], [name("h")], name("Cast"), to=dtype),
         helper.make_node("Neg", [name("h")], [name("r")], name("Neg"))],
        [helper.make_opsetid("", 21)],
    )  # fmt: skip
    weight = numpy_helper.from_array(np.array([1.5, 1e30], np.float32), name("w"))
    ports = [
        helper.make_tensor_value_info(name("x"), dtype, [name("N")]),
        helper.make_tensor_value_info(name("b"), TensorProto.BOOL, []),
    ]
    graph = helper.make_graph(
        nodes, name("graph"), ports, [helper.make_tensor_value_info(name("y"), dtype, [name("M")])], [weight]
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(name("domain"), 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=[function])
    proto.producer_name, proto.producer_version, proto.doc_string = name("producer"), name("version"), name("doc")
    proto.metadata_props.add(key=name("key"), value=name("value"))
    return proto


def _other(body: onnx.GraphProto) -> onnx.GraphProto:
    other = onnx.GraphProto()
    other.CopyFrom(body)
    return other


def invalid() -> onnx.ModelProto:
    """One that is refused: a node reads a value that nothing gives."""
    proto = model()
    proto.graph.node[0].input[0] = name("missing")
    return proto


def mixed() -> onnx.ModelProto:
    """One whose operands disagree, in a way that no rule settles."""
    proto = model()
    proto.graph.node.append(helper.make_node("Add", [name("x"), name("b")], [name("z")], name("Add")))
    return proto


COMMANDS = """
optimize A -o OUT --diff --explain
optimize A -o OUT --diff=full --target onnxruntime-android
optimize A -o OUT --verify
optimize A -o OUT --target NAME
optimize A -o OUT --passes NAME
optimize A -o NAME/OUT
optimize A -o OUT --target tensorrt-11 --json
optimize FOLDER -o OUTS --explain
optimize BAD -o OUT
optimize MIXED -o OUT
optimize NAME -o OUT
convert A --to float16 -o OUT --explain
convert A --to bfloat16 -o OUT --diff --target onnxruntime-cuda
convert A --to NAME -o OUT
convert A --to float16 -o OUT --keep NAME
check A --target tensorrt-11 --all
check MIXED --format text
check MIXED --format json
check MIXED --format sarif
check MIXED --format markdown
check MIXED --format github
check FOLDER --target onnxruntime-android --format github
check FOLDER --target onnxruntime-android --format markdown
check BAD
check NAME
check A --write-baseline NAME.json
check A --config NAME
show A
show BAD
show MIXED --json
diff A B --all --full
diff A B --format json
diff A MIXED
diff A BAD
diff A NAME
diff NAME A 0000 100644 B 0000 100644
verify A B --dim NAME=2 --sets 1
verify A A --prove
verify A MIXED --sets 1
verify A B --inputs NAME
verify FOLDER FOLDER --sets 1
bounds A --to float16 --all
bounds A --range NAME=0:1
bounds A --json
bounds MIXED
explain NAME
targets NAME
targets show NAME
targets --json
passes NAME
cast NAME float16
cast 1.5 NAME
trunc NAME 1 0 8 4
promote NAME float
conformance run NAME
completion NAME
NAME
check A --NAME
""".strip().splitlines()
COLOURED = """
optimize A -o OUT --diff --explain
check A --target tensorrt-11
diff A B
verify A B
bounds A --to float16
""".strip().splitlines()


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / name("folder").replace("/", "")
    folder.mkdir()
    files = {"A": model(), "B": model(TensorProto.FLOAT), "BAD": invalid(), "MIXED": mixed()}
    found = {key: folder / f"{key}{EVIL}.onnx" for key in files}
    for key, proto in files.items():
        found[key].write_bytes(proto.SerializeToString())
    found |= {"OUT": folder / f"out{EVIL}.onnx", "OUTS": tmp_path / f"outs{EVIL}", "FOLDER": folder}
    return {key: str(path) for key, path in found.items()}


def said(capfd: pytest.CaptureFixture[str], words: list[str]) -> str:
    capfd.readouterr()
    code = main(words)
    out, err = capfd.readouterr()
    assert code in (0, 1, 2, 3), err
    assert "internal error" not in err, err
    assert out or err or code == 0
    return out + err


def words_of(command: str, places: dict[str, str]) -> list[str]:
    return [places.get(word, word.replace("NAME", name("name"))) for word in command.split()]


def wrong(command: str, text: str) -> Iterator[str]:
    bad = sorted({character for character in text if not character.isprintable() and character != "\n"})
    if bad:
        yield f"{command}: {bad}"


@pytest.mark.usefixtures("one_process")
def test_no_command_prints_a_control_character(places: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    found = list[str]()
    for command in COMMANDS:
        text = said(capfd, words_of(command, places))
        found += wrong(command, text)
        lines = [line for line in text.splitlines() if line.lstrip().startswith("::")]
        made = "::(error|warning|notice) file=" if "github" in command else "$ "
        found += [f"{command}: {line}" for line in lines if not re.match(made, line)]
    assert not found, "\n".join(found)


def test_nor_with_colours(
    places: dict[str, str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for command in COLOURED:
        text = said(capfd, words_of(command, places))
        assert _STYLES.search(text), command
        assert not list(wrong(command, _STYLES.sub("", text)))


def test_json_says_the_names_as_they_are(places: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    data = json.loads(said(capfd, ["check", places["MIXED"], "--json"]))
    assert data["input"] == places["MIXED"]
    assert any(found["place"]["graph"] == name("graph") for found in data["findings"])
