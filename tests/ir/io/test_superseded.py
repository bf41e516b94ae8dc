"""Data files of models: they are neither lost nor left behind, and no written model needs another model's."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import castsmith
from castsmith.cli.main import main
from castsmith.ir.errors import ModelError
from castsmith.ir.io import superseded
from castsmith.ir.io.loading import load
from castsmith.ir.io.protos import tensors_of
from castsmith.ir.io.stored import release_pages
from castsmith.ir.io.superseded import locations
from castsmith.ir.walks import all_tensors
from tests.sampling import sampled

SIZES = (1, 2, 100, 256, 257, 2000)


def external(proto: TensorProto, folder: Path, name: str, offset: int) -> int:
    """Move the data of the tensor to the file, at `offset`; returns where it ends."""
    with open(folder / name, "r+b" if (folder / name).exists() else "wb") as file:
        file.seek(offset)
        file.write(proto.raw_data)
    end = offset + len(proto.raw_data)
    del proto.external_data[:]
    for key, value in (("location", name), ("offset", offset), ("length", len(proto.raw_data))):
        proto.external_data.add(key=key, value=str(value))
    proto.ClearField("raw_data")
    proto.data_location = TensorProto.EXTERNAL
    return end


def exported(folder: Path, name: str = "a.onnx", data: str = "a.onnx.data", factor: float = 1.0) -> Path:
    """A model whose weights of all sizes are external: initializers, in a branch, in a Constant, in a function."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = [numpy_helper.from_array(np.arange(n, dtype=np.float32) * factor + n, f"w{n}") for n in SIZES]
    inner = [
        numpy_helper.from_array(np.arange(n, dtype=np.float32) * factor, name) for n, name in ((3, "b"), (900, "d"))
    ]
    held = [
        numpy_helper.from_array(np.arange(n, dtype=np.float32) * factor, name) for n, name in ((3, "k"), (900, "q"))
    ]
    end = 0
    for tensor in (*tensors, *inner, *held):
        end = external(tensor, folder, data, end)
    output = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("t", "e", "y")]
    then = helper.make_graph([helper.make_node("Sum", ["b"], ["t"])], "then", [], output[:1], inner[:1])
    other = helper.make_graph([helper.make_node("Sum", ["d"], ["e"])], "else", [], output[1:2], inner[1:])
    nodes = [
        helper.make_node("Identity", [tensor.name], [f"{tensor.name}_out"]) for tensor in tensors
    ] + [
        helper.make_node("Constant", [], ["c"], value=held[0]),
        helper.make_node("own", ["c"], ["r"], domain="local"),
        helper.make_node("If", ["x"], ["y"], then_branch=then, else_branch=other),
    ]  # fmt: skip
    body = [helper.make_node("Constant", [], ["k"], value=held[1]), helper.make_node("Add", ["v", "v"], ["s"])]
    opsets = [helper.make_opsetid("", 21)]
    function = helper.make_function("local", "own", ["v"], ["s"], body, opsets)
    outputs = [*(helper.make_tensor_value_info(f"w{n}_out", TensorProto.FLOAT, [n]) for n in SIZES), output[2]]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.BOOL, [])], outputs, tensors)
    opsets.append(helper.make_opsetid("local", 1))
    proto = helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=10)
    (folder / name).write_bytes(proto.SerializeToString())
    return folder / name


def contents(path: Path) -> list[bytes]:
    """The bytes of every weight of the model."""
    return [tensor.tobytes() for tensor in all_tensors(castsmith.load(path))]


def require_self_contained(path: Path, folder: Path, expected: list[bytes]) -> None:
    """Move the model and the data files that it names to another folder, where it has to load."""
    moved = folder / "moved"
    moved.mkdir()
    names = locations(onnx.load(path, load_external_data=False))
    for name in (path.name, *names):
        (moved / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path.parent / name, moved / name)
    assert contents(moved / path.name) == expected
    onnx.checker.check_model(moved / path.name)


WAYS: list[dict[str, object]] = [
    {},
    {"external_data": "weights.bin"},
    {"external_data": "b.onnx.data", "shard_bytes": 4000},
    {"external_data": "sub/weights.bin"},
    {"reference_data": True},
]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("in_memory", [False, True])
def test_a_saved_model_needs_no_data_of_another(tmp_path: Path, way: dict[str, object], in_memory: bool) -> None:
    source = exported(tmp_path / "in")
    expected = contents(source)
    target = tmp_path / "out" / "b.onnx"
    (target.parent / "sub").mkdir(parents=True)
    model = castsmith.load(source)
    if in_memory:
        model = castsmith.optimize(model).model
        expected = [tensor.tobytes() for tensor in all_tensors(model)]
    castsmith.save(model, target, **way)  # type: ignore[arg-type]
    shutil.rmtree(tmp_path / "in")
    require_self_contained(target, tmp_path, expected)


@pytest.mark.parametrize("way", [[], ["--external-data", "weights.bin"], ["--shard-bytes", "2000"]], ids=str)
def test_the_command_writes_models_that_need_no_data_of_another(tmp_path: Path, way: list[str]) -> None:
    source = exported(tmp_path / "in")
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "b.onnx"
    assert main(["optimize", str(source), "-o", str(target), *way]) == 0
    shutil.rmtree(tmp_path / "in")
    require_self_contained(target, tmp_path, contents(target))


@pytest.mark.parametrize("wanted", ["b.onnx", "./b.onnx", "sub/../b.onnx", "B.ONNX", "sub", ".", ""])
def test_data_never_takes_the_place_of_the_model(tmp_path: Path, wanted: str) -> None:
    model = castsmith.load(exported(tmp_path))
    (tmp_path / "sub").mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ModelError, match="external data cannot be written to"):
        castsmith.save(model, tmp_path / "b.onnx", external_data=wanted)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("wanted", ["../w.bin", "/tmp/w.bin", "sub/../../w.bin", "link/w.bin", "a\0b"])
def test_data_stays_in_the_models_folder(tmp_path: Path, wanted: str) -> None:
    folder = tmp_path / "model"
    model = castsmith.load(exported(folder))
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(ModelError, match="outside the model's folder"):
        castsmith.save(model, folder / "b.onnx", external_data=wanted)
    assert sorted(path.name for path in folder.iterdir()) == ["a.onnx", "a.onnx.data", "link"]


def test_shards_named_like_the_model_take_another_name(tmp_path: Path) -> None:
    model = castsmith.load(exported(tmp_path))
    target = tmp_path / "w-00001-of-00003"
    castsmith.save(model, target, external_data="w", shard_bytes=4000)
    assert contents(target) == contents(tmp_path / "a.onnx")


def test_a_model_is_not_written_over_its_own_weights(tmp_path: Path) -> None:
    source = exported(tmp_path)
    before = (tmp_path / "a.onnx.data").read_bytes()
    with pytest.raises(ModelError, match="keeps weights in this file"):
        castsmith.save(castsmith.load(source), tmp_path / "a.onnx.data")
    assert main(["optimize", str(source), "-o", str(tmp_path / "a.onnx.data")]) == 2
    assert (tmp_path / "a.onnx.data").read_bytes() == before


def copied(path: Path) -> Path:
    return Path(shutil.copy(path, path.with_name("backup.bak")))


def linked(path: Path) -> Path:
    os.link(path, path.with_name("other.onnx"))
    return path.with_name("other.onnx")


def referring(path: Path) -> Path:
    castsmith.save(castsmith.load(path), path.with_name("b.onnx"), reference_data=True)
    return path.with_name("b.onnx")


def as_text(path: Path) -> Path:
    onnx.save(onnx.load(path, load_external_data=False), path.with_name("b.textproto"))
    return path.with_name("b.textproto")


def above(path: Path) -> Path:
    proto = onnx.load(path, load_external_data=False)
    for tensor in tensors_of(proto):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = f"./{path.parent.name}/{entry.value}"
    onnx.save(proto, path.parent.parent / "above.onnx")
    return path.parent.parent / "above.onnx"


@pytest.mark.parametrize(
    ("share", "own", "way"),
    sampled(
        "ways to share data",
        itertools.product(
            [copied, linked, referring, as_text, above],
            [False, True],
            [{}, {"external_data": "new.bin"}, {"external_data": "a.onnx.data", "shard_bytes": 3000}],
        ),
        24,
        cover=lambda case: [f"{index} {value}" for index, value in enumerate(case)],
    ),
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_data_that_another_model_uses_stays(
    tmp_path: Path, share: Callable[[Path], Path], own: bool, way: dict[str, object]
) -> None:
    path = exported(tmp_path / "models")
    if own:
        model = castsmith.load(path)
        path = path.with_name("m.onnx")
        castsmith.save(model, path)
    other = share(path)
    expected = contents(other)
    model = castsmith.load(exported(tmp_path / "elsewhere", factor=2.0))
    castsmith.save(model, path, **way)  # type: ignore[arg-type]
    assert contents(other) == expected
    options = ["--external-data", str(way["external_data"])] if way else []
    assert main(["optimize", str(path), "-o", str(path), *options]) == 0
    assert contents(other) == expected


def test_data_of_another_program_stays_and_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = exported(tmp_path)
    assert main(["optimize", str(path), "-o", str(path), "--external-data", "new.bin"]) == 0
    assert "a.onnx.data: the saved model no longer needs this data file; it was kept" in capsys.readouterr().err
    assert (tmp_path / "a.onnx.data").exists()
    os.link(tmp_path / "new.bin", tmp_path / "second")
    model = castsmith.load(exported(tmp_path / "other"))
    with pytest.warns(UserWarning, match=r"new\.bin: .* was kept"):
        castsmith.save(model, path, external_data="third.bin")


def test_own_data_that_nothing_uses_goes(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for factor in range(5):
        source = castsmith.load(exported(tmp_path / f"in{factor}", factor=factor))
        castsmith.save(source, path, external_data="m.data", shard_bytes=None if factor % 2 else 3000)
    names = locations(onnx.load(path, load_external_data=False))
    assert {file.name for file in tmp_path.iterdir() if file.is_file()} == {"m.onnx", *names}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("searched", [True, False])
def test_old_data_is_kept_where_too_much_is_to_be_searched(
    tmp_path: Path, searched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is the size of all other files together."""
    path = tmp_path / "m.onnx"
    castsmith.save(castsmith.load(exported(tmp_path / "in")), path, external_data="m.data")
    (tmp_path / "first").write_bytes(bytes(500))
    (tmp_path / "second").write_bytes(bytes(500))
    monkeypatch.setattr(superseded, "_MOST_TO_SEARCH", 1000 if searched else 999)

    def is_model_name(_: Path) -> bool:
        return False

    monkeypatch.setattr(superseded, "is_model_name", is_model_name)  # in folders above, which are not the test's
    old = tmp_path / "m.data"
    onnx.save(onnx.ModelProto(ir_version=10), path)
    assert superseded.drop({old}, path, old) == ({old} if searched else set())
    assert old.exists() is not searched


@pytest.mark.parametrize(
    ("case", "goes"),
    [("alone", True), ("hard link", False), ("link", False), ("named by a link", False), ("not ASCII", False)],
)
def test_data_with_another_name_is_kept(case: str, goes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_model_name(_: Path) -> bool:
        return False

    monkeypatch.setattr(superseded, "is_model_name", is_model_name)  # in folders above, which are not the test's
    folder, other = tmp_path.resolve() / "in", tmp_path.resolve() / "other"
    folder.mkdir()
    data = folder / ("\xe4.data" if case == "not ASCII" else "m.data")
    other.write_bytes(b"data")
    if case == "link":
        data.symlink_to(other)
    elif case == "hard link":
        os.link(other, data)
    else:
        data.write_bytes(b"data")
    if case == "named by a link":
        (folder / "alias").symlink_to(data)
    assert superseded.drop({data}, folder / "m.onnx", data) == ({data} if goes else set())
    assert os.path.lexists(data) is not goes


def test_which_files_hold_data_of_a_model(tmp_path: Path) -> None:
    """Those in its folder that are there; not the model itself."""
    path = tmp_path.resolve() / "in" / "m.onnx"
    (path.parent / "folder").mkdir(parents=True)
    for file in ("in/w.bin", "out.bin"):
        (tmp_path / file).touch()
    proto = onnx.ModelProto(ir_version=10)
    for location in ("w.bin", "./w.bin", "absent", "folder", "../out.bin", "m.onnx"):
        tensor = proto.graph.initializer.add(data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=location)
    proto.graph.initializer.add().external_data.add(key="location", value="folder/not external")
    path.write_bytes(proto.SerializeToString())
    assert superseded.data_files_of(path) == {path.parent / "w.bin"}
    path.write_bytes(b"\xff")
    assert superseded.data_files_of(path) == superseded.data_files_of(tmp_path / "absent") == set()


def test_weights_stay_in_the_data_file_of_the_model_saved_over(tmp_path: Path) -> None:
    path = exported(tmp_path)
    data = tmp_path / "a.onnx.data"
    before = data.stat()
    model = castsmith.load(path)
    model.graph.initializers["w1"].const_value = onnx_ir.tensor(np.ones(1, np.float32), name="w1")
    castsmith.save(model, path)
    assert (data.stat().st_ino, data.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert sorted(tmp_path.iterdir()) == [path, data]


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("mode", [0o640, 0o600, 0o664, 0o755])
def test_a_replaced_file_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    path = exported(tmp_path)
    path.chmod(mode)
    castsmith.save(castsmith.load(path), path, external_data="new.bin")
    assert (path.stat().st_mode & 0o777, (tmp_path / "new.bin").stat().st_mode & 0o777) == (mode, mode)
    report = tmp_path / "r.json"
    report.touch()
    report.chmod(mode)
    assert main(["optimize", str(path), "-o", str(path), "--report", str(report)]) == 0
    assert [file.stat().st_mode & 0o777 for file in (path, report)] == [mode, mode]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_link_is_written_through(tmp_path: Path, is_there: bool) -> None:
    source = exported(tmp_path / "in")
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.mkdir()
    if is_there:
        (real / "b.onnx").write_bytes(b"old")
    (link / "c.onnx").symlink_to(Path("..") / "real" / "b.onnx")
    (link / "r.json").symlink_to(Path("..") / "real" / "r.json")
    words = ["optimize", str(source), "-o", str(link / "c.onnx"), "--report", str(link / "r.json")]
    assert main([*words, "--external-data", "w.bin"]) == 0
    assert (link / "c.onnx").is_symlink()
    assert (link / "r.json").is_symlink()
    assert (real / "r.json").exists()
    assert sorted(file.name for file in real.iterdir()) == ["b.onnx", "r.json", "w.bin"]
    assert contents(real / "b.onnx") == contents(link / "c.onnx")


def test_data_is_linked_beside_a_link_to_the_model(tmp_path: Path) -> None:
    """ONNX Runtime looks for data beside the name that it is given, also after the next save in place."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 20]> g (float[4000] x) => (float[4000] y) { y = Mul (x, w) }'
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones(4000, np.float32), "w"))
    source, blobs, snapshot = tmp_path / "a.onnx", tmp_path / "blobs", tmp_path / "snapshot"
    onnx.save(model, source, save_as_external_data=True, location="a.data", size_threshold=0)
    blobs.mkdir()
    snapshot.mkdir()
    (snapshot / "c.onnx").symlink_to(Path("..") / "blobs" / "0123")
    for words in ([source], [snapshot / "c.onnx"], [snapshot / "c.onnx", "--external-data", "new.bin"]):
        assert main(["optimize", *map(str, words), "-o", str(snapshot / "c.onnx")]) == 0
        onnxruntime.InferenceSession(snapshot / "c.onnx", providers=["CPUExecutionProvider"])
        links = {file.name for file in snapshot.iterdir()} - {"c.onnx"}
        assert links == {file.name for file in blobs.iterdir()} - {"0123"}
        assert all((snapshot / name).is_symlink() for name in links)
    for name in links:
        (snapshot / name).unlink()
    assert main(["optimize", str(source), "-o", str(snapshot / "c.onnx"), "--external-data", "new.bin"]) == 0
    assert all(file.exists() for file in snapshot.iterdir())  # no link to data that is gone


def test_links_in_a_cycle_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = exported(tmp_path)
    (tmp_path / "x.onnx").symlink_to("y.onnx")
    (tmp_path / "y.onnx").symlink_to("x.onnx")
    with pytest.raises(ModelError, match="cycle"):
        castsmith.save(castsmith.load(source), tmp_path / "x.onnx")
    assert main(["optimize", str(source), "-o", str(tmp_path / "x.onnx")]) == 2
    assert main(["check", str(tmp_path / "x.onnx")]) == 2
    assert "internal" not in capsys.readouterr().err


def test_hard_linked_data_is_read(tmp_path: Path) -> None:
    source = exported(tmp_path / "a")
    subprocess.run(["cp", "-rl", tmp_path / "a", tmp_path / "b"], check=True)
    path = tmp_path / "b" / "a.onnx"
    assert contents(path) == contents(source)
    assert main(["optimize", str(path), "-o", str(path)]) == 0
    assert main(["optimize", str(path), "-o", str(tmp_path / "c.onnx"), "--target", "onnxruntime-cpu"]) == 0


@pytest.mark.parametrize("data_is_linked", [True, False])
def test_the_cache_of_a_model_hub_is_read(tmp_path: Path, data_is_linked: bool) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1a2b"
    source = exported(blobs)
    snapshot.mkdir(parents=True)
    expected = contents(source)
    source.rename(blobs / "0123")
    (snapshot / "model.onnx").symlink_to(Path("..") / ".." / "blobs" / "0123")
    if data_is_linked:
        (blobs / "a.onnx.data").rename(blobs / "4567")
        (snapshot / "a.onnx.data").symlink_to(Path("..") / ".." / "blobs" / "4567")
    assert contents(snapshot / "model.onnx") == expected
    out = tmp_path / "out.onnx"
    assert main(["optimize", str(snapshot / "model.onnx"), "-o", str(out)]) == 0
    require_self_contained(out, tmp_path, contents(out))
    (tmp_path / "secret").write_bytes(bytes(20000))
    (snapshot / "a.onnx.data").unlink(missing_ok=True)
    (snapshot / "a.onnx.data").symlink_to(tmp_path / "secret")
    (blobs / "a.onnx.data").unlink(missing_ok=True)
    with pytest.raises(ModelError, match="outside the model's folder"):
        castsmith.load(snapshot / "model.onnx")


def test_a_report_never_takes_the_place_of_weights(tmp_path: Path) -> None:
    path = exported(tmp_path)
    before = (tmp_path / "a.onnx.data").read_bytes()
    for name in ("a.onnx.data", "w.bin"):
        words = ["optimize", str(path), "-o", str(tmp_path / "b.onnx"), "--external-data", "w.bin"]
        assert main([*words, "--report", str(tmp_path / name)]) == 2
    assert (tmp_path / "a.onnx.data").read_bytes() == before
    assert not (tmp_path / "b.onnx").exists()


@pytest.mark.parametrize("shift", [0, 4096 + 64])
def test_released_pages_leave_the_memory_and_are_read_again(tmp_path: Path, shift: int) -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("no /proc: how much of a file is in memory is not known")

    def resident() -> int:
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("RssFile"))

    weights = np.arange(1 << 23, dtype=np.float32)
    (tmp_path / "data").write_bytes(bytes(shift) + weights.tobytes())
    tensor = TensorProto(name="w", data_type=1, dims=[1 << 23], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "data"), ("offset", str(shift)), ("length", str(weights.nbytes))):
        tensor.external_data.add(key=key, value=value)
    graph = helper.make_graph([], "g", [], [helper.make_tensor_value_info("w", 1, [1 << 23])], [tensor])
    onnx.save(helper.make_model(graph), tmp_path / "model.onnx")
    found = load(tmp_path / "model.onnx").graph.initializers["w"].const_value
    assert found is not None
    before = resident()
    assert found.numpy().sum(dtype=np.float64) == weights.sum(dtype=np.float64)
    assert resident() - before > 20_000
    release_pages(found)
    assert resident() - before < 5_000
    assert np.array_equal(found.numpy(), weights)
