"""What `show` prints of a model in which names are missing, and in which order of the nodes."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser

from tests.cli.helpers import Command

TEXT = """<ir_version: 10, opset_import: ["" : 18, "other" : 1], producer_name: "maker">
unnamed (float[4] x, bool c) => (float[4] z, float[4] x) {
  , k = other.Pair (x)
  [c9] c9 = other.Use (b0)
  [b9] b9 = Identity (x)
  [b0] b0 = other.Get (x, )
  [second] same = Neg (x)
  q = If (c) <then_branch = none () => (float[4] y) { y = Identity (x) },
              else_branch = no () => (float[4] n) { n = Neg (x) }>
  z = other.Call <factor = 3> (q, , x)
}
<domain: "other", opset_import: ["" : 18]>
Call <factor, free: int = 4> (X, Y, W) => (Z) {
  K = Constant <value_int: int = @factor> ()
  Z = other.Use (X, , K)
}"""

SHOWN = """ir_version: 10
opset_import: ai.onnx 18
opset_import: other 1
producer "name": "maker"
 {
  input x: float[4]
  input c: bool[]
  output z: float[4]
  output x: float[4]
  constant far: float[2] in "f.bin", offset 16, 8 bytes
  constant near: float[2] in "f.bin", offset 0, 8 bytes
  constant texts: string[2] {"a", "\\"b\\""}
  q = If (c)  # (bool[]) -> float
    else_branch = no {
      output n: float[4]
      n = Neg (x)  # (float[4]) -> float[4]
    }
    then_branch =  {
      output y: float[4]
      y = Identity (x)  # (float[4]) -> float[4]
    }
  z = other.Call <factor = 3> (q, , x)  # (float, float[4]) -> float[4]
  ?, k = other.Pair (x)  # (float[4]) -> ?, ?
  b9 = Identity (x)  # (float[4]) -> float  [b9]
  b0 = other.Get (x)  # (float[4]) -> ?  [b0]
  c9 = other.Use (b0)  # (?) -> ?  [c9]
  same = Neg (x)  # (float[4]) -> float  [second]
    metadata "key": "value"
}

opset_import: ai.onnx 18
function other.Call {
  input X: ?
  input Y: ?
  input W: ?
  output Z: ?
  parameter factor
  parameter free: 4
  K = Constant <value_int = @factor> ()  # () -> int64
  Z = other.Use (X, , K)  # (float, int64) -> ?
}
"""


def test_a_model_without_some_names(castsmith: Command, tmp_path: Path) -> None:
    """Nodes that nothing uses are sorted by their results; what only these use comes before them."""
    proto = onnx.parser.parse_model(TEXT)
    proto.graph.name = proto.graph.node[5].attribute[0].g.name = ""
    proto.graph.node[4].metadata_props.add(key="key", value="value")
    proto.graph.node[4].metadata_props.add(key="empty", value="")
    proto.metadata_props.add(key="empty", value="")
    for name, entries in {"near": {}, "far": {"offset": "16"}}.items():
        tensor = proto.graph.initializer.add(name=name, data_type=onnx.TensorProto.FLOAT, dims=[2])
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in {"location": "f.bin", **entries}.items():
            tensor.external_data.add(key=key, value=value)
    texts = proto.graph.initializer.add(name="texts", data_type=onnx.TensorProto.STRING, dims=[2])
    texts.string_data.extend([b"a", b'"b"'])
    onnx.save(proto, tmp_path / "a.onnx")
    ended = castsmith("show", tmp_path / "a.onnx")
    assert (ended.code, ended.out) == (0, SHOWN)
