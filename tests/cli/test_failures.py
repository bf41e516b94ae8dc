"""Invalid model files: one sentence on stderr, exit code 2, nothing written, an older file unchanged."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from castsmith.cli.failures import failure_of
from castsmith.ir.errors import ModelError, VerificationError
from castsmith.numerics.errors import (
    CastError,
    CastsmithError,
    ElementTypeError,
    OptionError,
    PromotionError,
    QuantizeError,
    TruncError,
)
from castsmith.targets.statements import TargetError
from castsmith.verification.evaluate.engines import EngineError, LimitError
from tests.cli.helpers import CLEAN, Command, is_one_sentence, write_model

Break = Callable[[Path], None]


def missing(path: Path) -> None:
    del path


def folder(path: Path) -> None:
    path.mkdir()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    whole = write_model(path, CLEAN).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def random_bytes(path: Path) -> None:
    path.write_bytes(random.Random(7).randbytes(4096))


def text(path: Path) -> None:
    path.write_text("This is not a model.\n")


def external(location: str, size: int | None) -> Break:
    """A model whose weight of 4096 bytes is in `location`, a file of `size` bytes where one is given."""

    def write(path: Path) -> None:
        weight = numpy_helper.from_array(np.ones(1024, np.float32), "w")
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=location)
        value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1024]) for name in "xz"]
        graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["z"])], "g", value[:1], value[1:], [weight])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        path.write_bytes(model.SerializeToString())
        if size is not None:
            (path.parent / location).write_bytes(bytes(size))

    return write


def no_graph(path: Path) -> None:
    path.write_bytes(onnx.ModelProto(ir_version=10).SerializeToString())


BROKEN = {
    "missing": missing,
    "folder": folder,
    "empty": empty,
    "truncated": truncated,
    "random bytes": random_bytes,
    "text": text,
    "no graph": no_graph,
    "external data outside the folder": external("../outside.bin", 4096),
    "external data at an absolute path": external("/etc/hostname", None),
    "missing external data": external("weights.bin", None),
    "too short external data": external("weights.bin", 4095),
}


@pytest.fixture(params=BROKEN)
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "inner" / "broken.onnx"
    path.parent.mkdir()
    BROKEN[request.param](path)
    return path


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_optimize(castsmith: Command, broken: Path, tmp_path: Path, as_json: bool) -> None:
    before = files_in(tmp_path)
    words = ("optimize", broken, "-o", tmp_path / "out.onnx", "--report", tmp_path / "report.json")
    ended = castsmith(*words, *(["--json"] if as_json else []))
    assert (ended.code, bool(ended.out)) == (2, as_json)
    if as_json:
        error = json.loads(ended.out)["error"]
        assert (error["code"], error["file"], error["exit_code"]) == ("model", str(broken), 2)
        assert ended.err == f"castsmith: {error['message']}\n"
    assert is_one_sentence(ended.err)
    assert str(broken) in ended.err
    assert files_in(tmp_path) == before


def test_optimize_leaves_an_older_output_alone(castsmith: Command, broken: Path, tmp_path: Path) -> None:
    out = write_model(tmp_path / "out.onnx", CLEAN)
    before = files_in(tmp_path)
    assert castsmith("optimize", broken, "-o", out).code == 2
    assert files_in(tmp_path) == before


def test_check(castsmith: Command, broken: Path, request: pytest.FixtureRequest) -> None:
    """Data that cannot be read is a finding; of other files there is nothing to check."""
    ended = castsmith("check", broken)
    if "external data" in request.node.callspec.id:
        assert (ended.code, ended.out.count("malformed-model")) == (1, 1)
    else:
        assert (ended.code, ended.out) == (2, "")
        assert is_one_sentence(ended.err)


@pytest.mark.parametrize("first", [True, False])
def test_diff(castsmith: Command, broken: Path, tmp_path: Path, first: bool, request: pytest.FixtureRequest) -> None:
    """Of a model without its data the text is compared."""
    good = write_model(tmp_path / "good.onnx", CLEAN)
    ended = castsmith("diff", *((broken, good) if first else (good, broken)))
    if "external data" in request.node.callspec.id:
        assert (ended.code, bool(ended.out), str(broken) in ended.err) == (1, True, True)
    else:
        assert (ended.code, ended.out) == (2, "")
        assert is_one_sentence(ended.err)


def test_a_message_begins_with_the_file_once() -> None:
    """The file of a model, if there is one, stands before what is wrong with it; not before a bad option."""
    for error, words, message in (
        (ModelError("it is odd."), {"input": "a.onnx"}, "a.onnx: it is odd."),
        (ModelError("a.onnx: it is odd."), {"input": "a.onnx"}, "a.onnx: it is odd."),
        (ModelError("a.onnx is odd."), {"input": "a.onnx"}, "a.onnx: a.onnx is odd."),
        (ModelError("it is odd."), {"input": ["a.onnx"]}, "a.onnx: it is odd."),
        (ModelError("it is odd."), {"a": "a.onnx", "b": "b.onnx"}, "it is odd."),
        (ModelError("b.onnx: it is odd."), {"a": "a.onnx", "b": "b.onnx"}, "b.onnx: it is odd."),
        (ModelError("it is odd."), {}, "it is odd."),
        (OptionError("it is odd."), {"input": "a.onnx"}, "it is odd."),
        (FileNotFoundError(2, "No such file", "c.npz"), {"input": "a.onnx"}, "c.npz: No such file."),
        (OSError(28, "No space"), {"input": "a.onnx"}, "No space."),
        (MemoryError(), {"input": "a.onnx"}, "not enough memory."),
    ):
        assert failure_of(error, words).message == message, (error, words)


CODES = {
    ModelError: "model", EngineError: "engine", LimitError: "engine", VerificationError: "verification",
    PromotionError: "promotion", ElementTypeError: "element-type", CastError: "cast", QuantizeError: "quantize",
    TruncError: "trunc", TargetError: "target", OptionError: "option", CastsmithError: "internal",
}  # fmt: skip


def test_each_error_has_its_code() -> None:
    for kind, code in CODES.items():
        assert failure_of(kind("It is wrong."), {}).code == code


@pytest.mark.parametrize("name", ["input", "model", "a", "b", "output", "inputs", "report", "baseline"])
def test_the_file_that_a_sentence_begins_with(name: str) -> None:
    for given in ("f.x", ["g.x", "f.x"]):
        assert failure_of(OptionError("f.x: it is wrong."), {name: given}).file == "f.x"
    assert failure_of(OptionError("e.x: it is wrong."), {name: ["g.x", "f.x"]}).file == ""
