"""Limits of saving at their exact value, and the permissions of what is saved."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest

import castsmith
from castsmith.ir.io.files import mode_for, umask
from castsmith.ir.io.saving import Tensors, shards_of


def model_of(*sizes: int) -> onnx_ir.Model:
    """A model with weights of so many bytes."""
    weights = [onnx.numpy_helper.from_array(np.zeros(size, np.uint8), f"w{size}_{at}") for at, size in enumerate(sizes)]
    nodes = [onnx.helper.make_node("Identity", [each.name], [f"{each.name}_out"]) for each in weights]
    outputs = [onnx.helper.make_tensor_value_info(node.output[0], 2, [None]) for node in nodes]
    graph = onnx.helper.make_graph(nodes, "g", [], outputs, weights)
    opsets = [onnx.helper.make_opsetid("", 21)]
    return onnx_ir.from_proto(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10))


def test_a_weight_of_1024_bytes_stays_in_the_model(tmp_path: Path) -> None:
    castsmith.save(model_of(1023, 1024, 1025), tmp_path / "m.onnx", external_data="m.data")
    found = onnx.load(tmp_path / "m.onnx", load_external_data=False).graph.initializer
    outside = [each.name for each in found if each.data_location == onnx.TensorProto.EXTERNAL]
    assert outside == ["w1025_2"]
    assert (tmp_path / "m.data").stat().st_size == 1025


@pytest.mark.parametrize(("more", "count"), [(-1, 2), (0, 1), (1, 1), (None, 1), (-4499, 2)])
def test_a_data_file_of_exactly_the_limit(tmp_path: Path, more: int | None, count: int) -> None:
    sizes = (2000, 2500)
    tensors: Tensors = {onnx_ir.Value(name=f"w{size}"): onnx_ir.tensor(np.zeros(size, np.uint8)) for size in sizes}
    ((first, second),) = shards_of(tensors, None)
    assert (first.offset, first.tensor, second.tensor) == (0, *tensors.values())
    assert second.offset >= 2000
    limit = None if more is None else second.offset + 2500 + more
    castsmith.save(model_of(2000, 2500), tmp_path / "m.onnx", external_data="w", shard_bytes=limit)
    assert len([path for path in tmp_path.iterdir() if path.name != "m.onnx"]) == count
    assert [len(shard) for shard in shards_of(tensors, limit)] == ([2] if count == 1 else [1, 1])
    assert all(shard[0].offset == 0 for shard in shards_of(tensors, limit))


def test_a_limit_below_every_tensor_gives_each_its_own_file(tmp_path: Path) -> None:
    castsmith.save(model_of(2000, 2500), tmp_path / "m.onnx", external_data="w", shard_bytes=1)
    sizes = sorted(path.stat().st_size for path in tmp_path.iterdir() if path.name != "m.onnx")
    assert sizes == [2000, 2500]
    with pytest.raises(castsmith.OptionError, match="shard_bytes"):
        castsmith.save(model_of(2000), tmp_path / "m.onnx", external_data="w", shard_bytes=0)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_a_saved_model_keeps_the_permissions_of_the_file_it_replaces(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"")
    path.chmod(mode)
    assert mode_for(path) == mode
    castsmith.save(model_of(2000), path, external_data="w")
    assert [stat.S_IMODE(os.stat(each).st_mode) for each in (path, tmp_path / "w")] == [mode, mode]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_model_has_the_permissions_of_a_new_file(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        castsmith.save(model_of(2000), tmp_path / "m.onnx", external_data="w")
        expected = 0o666 & ~umask()
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("m.onnx", "w")}
    assert modes == {expected} == {0o666 & ~mask}
