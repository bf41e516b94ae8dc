"""Files in which something was changed at random: whatever a command makes of one, it is no internal error."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from castsmith.cli.main import main

MODELS = sorted((Path(__file__).parents[2] / "models").glob("*.onnx"))
OPERATORS = ("Cast", "Add", "Trunc", "QuantizeLinear", "If", "Loop", "Constant", "Concat", "Where", "BitCast", "Split")
TYPES = (0, 1, 2, 7, 8, 9, 10, 14, 16, 17, 19, 21, 22, 23, 24, 25, 26, 99, -1)


def flipped(data: bytes, draw: random.Random) -> bytes:
    """The bytes with some of them changed, left out or added."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 2, 5, 20))):
        at, kind = draw.randrange(len(changed)), draw.random()
        if kind < 0.6:
            changed[at] = draw.randrange(256)
        else:
            changed[at : at + (kind < 0.8)] = bytes(draw.randrange(256) for _ in range(draw.randrange(8)))
    return bytes(changed)


def mutated(data: bytes, draw: random.Random) -> bytes:
    """A model that differs from the one in `data` in a node, a tensor or a version."""
    model = onnx.ModelProto.FromString(data)
    node = draw.choice(model.graph.node)
    changes: list[Callable[[], object]] = [
        lambda: node.input.pop(),
        lambda: node.output.append("another"),
        lambda: setattr(node, "op_type", draw.choice(OPERATORS)),
        lambda: setattr(node, "domain", draw.choice(("", "x", "castsmith", "qonnx.custom_op.general"))),
        lambda: node.attribute.append(onnx.helper.make_attribute("to", draw.choice((1, 99, -5, "x", 1.5)))),
        lambda: setattr(model.opset_import[0], "version", draw.choice((1, 7, 13, 20, 26))),
    ]
    if node.attribute:
        attribute = draw.choice(node.attribute)
        changes.append(lambda: node.attribute.remove(attribute))
        changes.append(
            lambda: attribute.CopyFrom(onnx.helper.make_attribute(attribute.name, draw.choice((1, "x", 2.0))))
        )
    if model.graph.initializer:
        tensor = draw.choice(model.graph.initializer)
        changes.append(lambda: setattr(tensor, "data_type", draw.choice(TYPES)))
        changes.append(lambda: tensor.dims.append(draw.choice((0, 1, 2, -1))))
    draw.choice(changes)()
    return model.SerializeToString()


@pytest.mark.parametrize("change", [flipped, mutated])
@pytest.mark.parametrize("seed", range(40))
def test_no_internal_error(
    change: Callable[[bytes, random.Random], bytes], seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw = random.Random(seed)
    original = draw.choice(MODELS)
    path, output = tmp_path / "m.onnx", tmp_path / "o.onnx"
    path.write_bytes(change(original.read_bytes(), draw))
    optimize = ["optimize", str(path), "-o", str(output), "--target", "onnxruntime-android", "--promote-unsafe"]
    for command in (optimize, ["check", str(path)], ["diff", str(path), str(original)]):
        code = main(command)
        said = capsys.readouterr().err
        assert "internal error" not in said, said
        assert "Traceback" not in said, said
        assert code in (0, 1, 2)
