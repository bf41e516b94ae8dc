"""The files that a run leaves: shards of data, the same ones that --verify judges, and how many bytes each has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest

from castsmith.verification import run as comparison
from castsmith.verification.verdict import Verdict
from tests.cli.helpers import Command

MODEL = """<ir_version: 10, opset_import: ["" : 18]>
g (float[1024] x) => (float[1024] z) { [first] y = Add (x, a) [second] w = Mul (y, b) [third] z = Sub (w, c) }"""


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def test_shards_are_verified_as_they_are_written(
    castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = onnx.parser.parse_model(MODEL)
    for name in "abc":
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.full(1024, ord(name), np.float32), name))
    onnx.save(proto, tmp_path / "in.onnx")
    out = tmp_path / "out"
    out.mkdir()
    verified: list[dict[str, bytes]] = []
    before: list[dict[str, bytes]] = []

    def watched(_: Any, b: Path | onnx_ir.Model, **_options: Any) -> Verdict:
        if isinstance(b, Path):
            verified.append(files_below(b.parent))
            before.append(files_below(out))
        return Verdict("reference")

    monkeypatch.setattr(comparison, "verify", watched)
    words = ("optimize", tmp_path / "in.onnx", "-o", out / "m.onnx", "--external-data", "w.bin", "--verify")
    sizes: list[dict[str, int]] = []
    for more in ((), ("--shard-bytes", "8192"), ("--shard-bytes", "8191")):
        for path in list(out.iterdir()):
            path.unlink()
        ended = castsmith(*words, *more)
        assert (ended.code, ended.err) == (0, "")
        written = files_below(out)
        assert written == verified[-1]
        sizes.append({name: len(content) for name, content in written.items() if name != "m.onnx"})
        assert castsmith("diff", tmp_path / "in.onnx", out / "m.onnx").code == 0
    assert before == [{}] * 3
    assert sizes == [
        {"w.bin": 3 * 4096},
        {"w.bin-00001-of-00002": 2 * 4096, "w.bin-00002-of-00002": 4096},
        {f"w.bin-0000{number}-of-00003": 4096 for number in (1, 2, 3)},
    ]
