"""Every call of the system that a save makes fails once, and the process dies once at each: the model stays whole."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.cli.output import write_file
from castsmith.ir.errors import ModelError
from castsmith.ir.io.superseded import locations
from castsmith.ir.walks import all_tensors
from tests.ir.io.faults import die, failing
from tests.sampling import sampled

Way = dict[str, Any]

WAYS: dict[str, tuple[Way, Way]] = {
    "in the file": ({}, {}),
    "into the file": ({"external_data": "m.onnx.data"}, {}),
    "beside the file": ({"external_data": "m.onnx.data", "shard_bytes": 4096}, {"external_data": "m.onnx.data"}),
}
"""How the old and the new model are saved."""


LOOKS = ("os.stat", "os.lstat", "os.fstat", "os.scandir", "file.read")
"""Calls that change nothing."""


def model_of(number: int) -> onnx_ir.Model:
    """A model whose weights all hold `number`."""
    values = [
        onnx_ir.Value(
            name=f"w{index}",
            type=onnx_ir.TensorType(DataType.FLOAT),
            shape=onnx_ir.Shape([600]),
            const_value=onnx_ir.tensor(np.full(600, number, np.float32), name=f"w{index}"),
        )
        for index in range(3)
    ]
    node = onnx_ir.node("Sum", values)
    node.outputs[0].name, node.outputs[0].dtype, node.outputs[0].shape = "y", DataType.FLOAT, values[0].shape
    graph = onnx_ir.Graph([], node.outputs, nodes=[node], initializers=values, opset_imports={"": 21}, name="g")
    return onnx_ir.Model(graph, ir_version=10)


def number_of(path: Path) -> int:
    """The number that all weights of a whole model hold."""
    (number,) = {float(x) for tensor in all_tensors(castsmith.load(path)) for x in tensor.numpy().ravel()}
    return int(number)


def left_over(path: Path) -> set[str]:
    """The names of files that the model does not need."""
    names = locations(onnx.load(path, load_external_data=False))
    return {file.name for file in path.parent.iterdir()} - {path.name, *names}


def start(folder: Path, before: Way) -> Path:
    folder.mkdir()
    castsmith.save(model_of(1), folder / "m.onnx", **before)
    return folder / "m.onnx"


def _name(call: tuple[int, str]) -> tuple[str]:
    return call[1:]


@pytest.mark.parametrize("way", WAYS)
def test_each_call_fails_once(way: str, tmp_path: Path) -> None:
    before, after = WAYS[way]
    new = model_of(2)
    with failing(None) as calls:
        castsmith.save(new, start(tmp_path / "whole", before), **after)
    with failing(None) as first:
        start(tmp_path / "first", before)
    offset = len(first.names)
    assert number_of(tmp_path / "whole" / "m.onnx") == 2
    wrong: list[str] = []
    for index, name in sampled(f"calls of a save [{way}]", enumerate(calls.names[offset:]), 25, cover=_name):
        path, said = start(tmp_path / f"{index}", before), ""
        with warnings.catch_warnings(record=True), failing(index):
            try:
                castsmith.save(new, path, **after)
            except ModelError as error:
                said = str(error)
        if said and (not said.startswith(f"{path}: the file cannot be written (") or "\n" in said):
            wrong.append(f"{index} {name}: {said}")
        if number_of(path) not in (1, 2) or (not said and number_of(path) != 2):
            wrong.append(f"{index} {name}: holds {number_of(path)}, said {said!r}")
        if left_over(path) and "unlink" not in name and not is_kept(path, before, name):
            wrong.append(f"{index} {name}: left {left_over(path)}, said {said!r}")
        castsmith.save(new, path, **after)
        if any(name.startswith(".") for name in left_over(path)):
            wrong.append(f"{index} {name}: left {left_over(path)} after the next save")
    assert not wrong


def is_kept(path: Path, before: Way, name: str) -> bool:
    """True if what is left is the data of the old model, which was kept because a look at the folder failed."""
    return (
        bool(before)
        and name in (*LOOKS, "open", "file.close")
        and all(left.startswith("m.onnx.data") for left in left_over(path))
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("way", WAYS)
def test_the_process_dies_at_each_call(way: str, tmp_path: Path) -> None:
    before, after = WAYS[way]
    new, old = model_of(2), model_of(3)
    path = start(tmp_path / "m", before)
    with failing(None) as calls:
        castsmith.save(new, path, **after)
    wrong: list[str] = []
    counted = [(index, name) for index, name in enumerate(calls.names) if name not in LOOKS]
    for index, name in sampled(f"calls of a save that ends [{way}]", counted, 12, cover=_name):
        castsmith.save(model_of(1), path, **before)
        if not (child := os.fork()):
            with failing(index, die):
                castsmith.save(new, path, **after)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            continue
        if number_of(path) not in (1, 2):
            wrong.append(f"{index} {name}: holds {number_of(path)}")
        castsmith.save(old, path, **before)
        if number_of(path) != 3 or not all(name.startswith("m.onnx.data") for name in left_over(path)):
            wrong.append(f"{index} {name}: left {left_over(path)}")
    assert not wrong


def test_each_call_that_writes_a_text_fails_once(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with failing(None) as calls:
        write_file(path, "whole")
    for index, name in enumerate(calls.names):
        path.write_text("old")
        said = ""
        with failing(index):
            try:
                write_file(path, "new")
            except ModelError as error:
                said = str(error)
        assert path.read_text() == ("old" if said else "new"), (name, said)
        assert not said or said == f"{path}: the file cannot be written (No space left on device)."
        assert "unlink" in name or [*tmp_path.iterdir()] == [path], name
        write_file(path, "newer")
        assert [*tmp_path.iterdir()] == [path], name


# Several processes at once.


def save_often(path: Path, number: int, turns: int, way: Way) -> None:
    """Load, check and save the model time and again."""
    for turn in range(turns):
        castsmith.save(model_of(number), path, **way)
        number_of(path)
        castsmith.save(castsmith.load(path), path, **({} if turn % 2 and len(way) == 1 else way))


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be deleted")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", [{"external_data": "m.onnx.data"}, {"external_data": "w.bin", "shard_bytes": 4096}])
def test_processes_that_save_one_file_wait_for_each_other(way: Way, tmp_path: Path) -> None:
    import multiprocessing

    path = tmp_path / "m.onnx"
    context = multiprocessing.get_context("fork")
    savers = [context.Process(target=save_often, args=(path, number, 4, way)) for number in range(4)]
    for saver in savers:
        saver.start()
    for saver in savers:
        saver.join()
    assert [saver.exitcode for saver in savers] == [0] * 4
    assert number_of(path) in range(4)
    assert not left_over(path)


def test_a_lock_that_is_held_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from castsmith.ir.io import files

    path, lock = tmp_path / "m.onnx", tmp_path / ".m.onnx.lock"
    monkeypatch.setattr(files, "_PATIENCE", 0.1)
    with files.locked(path):
        with pytest.raises(ModelError) as error:
            castsmith.save(model_of(1), path)
        assert str(error.value).startswith(f"{path}: another process has been writing this file for ")
        assert str(error.value).endswith(f"try again when it is done, or delete {lock} if there is none.")
        assert [*tmp_path.iterdir()] == [lock]
    castsmith.save(model_of(1), path)
    assert [*tmp_path.iterdir()] == [path]


def test_a_lock_of_a_process_that_is_gone_is_taken_over(tmp_path: Path) -> None:
    path = start(tmp_path / "m", {"external_data": "m.onnx.data"})
    (path.parent / ".m.onnx.lock").write_text("")
    (path.parent / ".m.onnx.saving").write_text("draft")
    (path.parent / ".m.onnx.1.saving").write_text("draft")
    castsmith.save(model_of(2), path, external_data="m.onnx.data")
    assert number_of(path) == 2
    assert not left_over(path)


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from castsmith.ir.io import files

    monkeypatch.setattr(files, "_PATIENCE", 0.1)
    (tmp_path / "other").write_text("somebody else's")
    (tmp_path / ".m.onnx.lock").symlink_to(tmp_path / "other")
    with pytest.raises(ModelError, match=r"or delete .*\.m\.onnx\.lock if there is none"):
        castsmith.save(model_of(1), tmp_path / "m.onnx")
    assert (tmp_path / "other").read_text() == "somebody else's"


def test_a_free_name_is_not_that_of_the_model(tmp_path: Path) -> None:
    from castsmith.ir.io.files import free_name

    wanted = tmp_path / "m.data"
    for model, name in (("m.onnx", "m.data"), ("m.data", "m.data.1"), ("M.Data", "m.data.1")):
        assert free_name(wanted, tmp_path / model) == tmp_path / name
    wanted.touch()
    (tmp_path / "m.data.1").symlink_to("nowhere")
    assert free_name(wanted, tmp_path / "m.data.2") == tmp_path / "m.data.3"


def test_a_lock_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from castsmith.ir.io import files

    path, tries = tmp_path / "m.onnx", list[Path]()
    take = files._try_lock  # pyright: ignore[reportPrivateUsage]

    def third_time(file: Path) -> IO[bytes] | None:
        tries.append(file)
        return take(file) if len(tries) == 3 else None

    monkeypatch.setattr(files, "_PAUSE", 0)
    monkeypatch.setattr(files, "_try_lock", third_time)
    with files.locked(path):
        assert tries == [tmp_path / ".m.onnx.lock"] * 3 == [*tmp_path.iterdir()] * 3
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_lock_of_another_is_left_if_it_cannot_be_looked_at(
    is_new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from castsmith.ir.io import files

    def fail(*_: object) -> bool:
        raise OSError(5, "Input/output error")

    lock = tmp_path / ".m.onnx.lock"
    if not is_new:
        lock.touch()
    monkeypatch.setattr(files, "_has_name", fail)
    with pytest.raises(OSError, match="Input/output error"), files.locked(tmp_path / "m.onnx"):
        pass
    assert lock.exists() is not is_new


def test_a_lock_where_the_system_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is the lock; one that can be deleted is of a process that is gone."""
    from castsmith.ir.io import files

    monkeypatch.setattr(files, "fcntl", None)
    lock = tmp_path / ".m.onnx.lock"
    lock.touch()
    assert files._try_lock(lock) is None  # pyright: ignore[reportPrivateUsage]
    assert not lock.exists()
    with files.locked(tmp_path / "m.onnx"):
        assert lock.exists()
    assert not lock.exists()
