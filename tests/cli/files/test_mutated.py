"""Some mutants that `python -m tests.cli.files.mutants` makes, and those that once ended in an internal error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from castsmith.cli.main import main
from castsmith.ir.errors import ModelError
from castsmith.ir.io.loading import from_proto
from tests.cli.files.mutants import CHANGES, MODELS, SMALL, faults, prepared
from tests.sampling import sampled

pytestmark = pytest.mark.usefixtures("onnx_apart")

SOURCES = [path for path in MODELS if path.stat().st_size < SMALL]


@pytest.mark.parametrize("seed", sampled("mutants of models", range(36), 6, cover=lambda seed: [seed % len(CHANGES)]))
@pytest.mark.filterwarnings("ignore")
def test_a_mutant_ends_in_a_sentence(seed: int, tmp_path: Path) -> None:
    change, source = CHANGES[seed % len(CHANGES)], SOURCES[seed % len(SOURCES)]
    assert not list(faults(source, change, seed, prepared(tmp_path), verify=seed % 4 == 0))


def small_model() -> onnx.ModelProto:
    text = """<ir_version: 10, opset_import: ["": 21]>
      g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }"""
    return onnx.parser.parse_model(text)


def with_attribute(proto: onnx.ModelProto, tensor: TensorProto) -> None:
    proto.graph.node.add(op_type="Constant", output=["k"]).attribute.append(helper.make_attribute("value", tensor))


def sparse(dims: list[int]) -> onnx.SparseTensorProto:
    values, indices = helper.make_tensor("s", 1, [1], [1.0]), helper.make_tensor("", 7, [1], [0])
    return onnx.SparseTensorProto(values=values, indices=indices, dims=dims)


def initializer(proto: onnx.ModelProto) -> TensorProto:
    return proto.graph.initializer[0]


def _short_strings(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.append(TensorProto(name="k", data_type=TensorProto.STRING, dims=[3]))


BROKEN: dict[str, Callable[[onnx.ModelProto], object]] = {
    "devices at IR version 10": lambda m: m.configuration.add(name="c", num_devices=2),
    "opset 2^62": lambda m: setattr(m.opset_import[0], "version", 2**62),
    "opset -1": lambda m: setattr(m.opset_import[0], "version", -1),
    "IR version 2^62": lambda m: setattr(m, "ir_version", 2**62),
    "dims (0, 2^62)": lambda m: m.graph.initializer.append(TensorProto(name="k", data_type=1, dims=[0, 2**62, 8])),
    "rank 65": lambda m: m.graph.initializer.append(helper.make_tensor("k", 1, [1] * 65, [1.0])),
    "attribute of type 0": lambda m: with_attribute(m, TensorProto(name="k", data_type=0)),
    "attribute of type 99": lambda m: with_attribute(m, TensorProto(name="k", data_type=99)),
    "sparse dims 2^32": lambda m: m.graph.sparse_initializer.append(sparse([2**32, 2**32])),
    "sparse rank 65": lambda m: m.graph.sparse_initializer.append(sparse([1] * 65)),
    "unknown data location": lambda m: initializer(m).MergeFromString(b"\x70\x09"),
    "strings that are missing": _short_strings,
    "no location": lambda m: setattr(initializer(m), "data_location", 1),
}


@pytest.mark.parametrize("op_type", ["Scan", "SequenceMap"])
@pytest.mark.parametrize("version", [0, 1, 6, 21])
def test_control_flow_of_an_opset_that_has_none(version: int, op_type: str) -> None:
    proto = small_model()
    proto.opset_import[0].version = version
    proto.graph.node.add(op_type=op_type, input=["x"], output=["k"])
    with pytest.raises(ModelError, match=op_type):
        from_proto(proto)


@pytest.mark.parametrize("given", ["num_scan_inputs: int = @n", "num_scan_inputs = 1, body: graph = @n"])
def test_control_flow_with_a_parameter_of_its_function(given: str) -> None:
    body = "body = b (float[2] a, float[2] i) => (float[2] o) { o = Add (a, i) }"
    text = f"""<ir_version: 10, opset_import: ["": 21, "local": 1]>
      g (float[2] s, float[2, 2] x) => (float[2] y) {{ y = local.f <n = 1> (s, x) }}
      <domain: "local", opset_import: ["": 21]>
      f <n> (s, x) => (y) {{ y = Scan <{given}{"" if "body" in given else f", {body}"}> (s, x) }}"""
    with pytest.raises(ModelError, match="of Scan is a parameter of its function, which is not supported"):
        from_proto(onnx.parser.parse_model(text))


def test_show_of_texts_that_are_not_utf_8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto = small_model()
    attribute = onnx.AttributeProto(name="a", type=onnx.AttributeProto.STRING, s=b"\xffb")
    several = onnx.AttributeProto(name="several", type=onnx.AttributeProto.STRINGS, strings=[b"b", b"c"])
    proto.graph.node.add(op_type="F", domain="other", input=["x"], output=["k"]).attribute.extend([attribute, several])
    proto.opset_import.add(domain="other", version=1)
    external = TensorProto(name="t", data_type=TensorProto.STRING, dims=[2], data_location=TensorProto.EXTERNAL)
    external.external_data.add(key="location", value="missing.bin")
    proto.graph.initializer.append(external)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    assert main(["show", str(path)]) == 0
    said = capsys.readouterr().out
    assert r'a = "\\xffb", several = ["b", "c"]' in said
    assert 'constant t: string[2] in "missing.bin", offset 0\n' in said


def test_names_that_are_not_utf_8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each text of a small model in turn: what cannot be read is refused in a sentence, by all that read models."""
    proto = small_model()
    proto.graph.node.add(op_type="Constant", name="node", output=["k"]).attribute.append(
        onnx.helper.make_attribute("value", onnx.helper.make_tensor("tensor", TensorProto.FLOAT, [1], [1.0]))
    )
    data, path = proto.SerializeToString(), tmp_path / "m.onnx"
    for text in (b"node", b"tensor", b"value", b"Constant"):
        path.write_bytes(data.replace(text, b"\xc9" + text[1:]))
        for words in (["show"], ["info"], ["check"], ["diff", str(path)]):
            assert main([*words, str(path)]) in (0, 1, 2, 3)
            assert "internal error" not in capsys.readouterr().err, (text, words)


@pytest.mark.parametrize("how", BROKEN)
def test_what_no_reader_can_use_is_refused(how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto = small_model()
    BROKEN[how](proto)
    with pytest.raises(ModelError):
        from_proto(proto)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    assert main(["show", str(path)]) in (0, 2)
    assert "internal" not in capsys.readouterr().err
    assert main(["optimize", str(path), "-o", str(tmp_path / "o.onnx"), "--target", "onnxruntime-cpu"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"castsmith: {path}: ")
    assert "internal" not in said
    assert not (tmp_path / "o.onnx").exists()


@pytest.mark.parametrize("key", ["location", "offset", "length"])
@pytest.mark.parametrize("value", ["", "a\0b", "loop.bin", "-1", "\u00b2", "x", str(2**80), "0x10", "x" * 300])
def test_an_entry_of_external_data_that_is_wrong(
    key: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = small_model()
    tensor = initializer(proto)
    tensor.ClearField("float_data")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for name, text in {"location": "w.bin", "offset": "0", "length": "8", key: value}.items():
        tensor.external_data.add(key=name, value=text)
    path = prepared(tmp_path) / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    is_missing = main(["check", str(path)]) == 1
    printed = capsys.readouterr()
    said = printed.out if is_missing else printed.err
    assert said.startswith(f"{path}: " if is_missing else f"castsmith: {path}: ")
    assert "internal" not in said
    assert "lambda" not in said


COMMANDS = [
    ["check", "{m}"],
    ["verify", "{m}", "{m}"],
    ["bounds", "{m}"],
    ["diff", "{m}", "{m}"],
    ["show", "{m}"],
    ["optimize", "{m}", "-o", "{o}", "--verify", "--target", "onnxruntime-android"],
    ["convert", "{m}", "--to", "float16", "-o", "{o}", "--measure"],
]


@pytest.mark.parametrize("dims", [[0, 2**62], [2**62, 4], [2**31, 2**31], [1] * 100, [-2], []], ids=str)
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_inputs_of_unusual_shapes(
    words: list[str], dims: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = small_model()
    proto.graph.input[0].type.tensor_type.shape.Clear()
    for dim in dims:
        proto.graph.input[0].type.tensor_type.shape.dim.add(dim_value=dim)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    assert main([word.format(m=path, o=tmp_path / "o.onnx") for word in words]) in (0, 1, 2, 3)
    assert "internal" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "graph",
    [
        "g () => (float y) { y = Constant <value_int = 99999999999999999999> () }",
        "g () => (float y) { y = Constant <value_float = 1e999999> () }",
        "g () => (float y) { y = Constant <value = int64[1] {-99999999999999999999}> () }",
        "g (float[99999999999999999999] x) => (float y) { y = Relu (x) }",
    ],
)
def test_numbers_out_of_range_in_text(graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnxtxt"
    path.write_text(f'<ir_version: 10, opset_import: ["": 20]> {graph}')
    assert main(["check", str(path)]) == 2
    assert "out of range" in capsys.readouterr().err


@pytest.mark.parametrize(
    "graph",
    [
        "g (uint32[512] x, uint32[5] y) => (uint32[512] z) { z = Sum (x, y) }",
        "g (float[4] x) => (float[4] y) { y = qonnx.custom_op.general.If (x) }",
        "g (float[4] x) => (float[4] y) { y = qonnx.custom_op.general.MatMul (x) }",
        "g (int64[2] i) => (float[2] y) <float[2] w = {1, 2}> { y = qonnx.custom_op.general.Gather (w, i) }",
        """g (double[2] a) => (string[3, 2] y) {
            i = Cast <to = 6> (a) t = Cast <to = 8> (i) 
            e = Constant <value = int64[2] {3, 2}> () y = Expand (t, e) }""",
    ],
    ids=[
        "shapes that do not fit",
        "If of another domain",
        "MatMul",
        "Gather",
        "texts that depend on an undefined number",
    ],
)
def test_verify_of_what_no_engine_runs(graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnxtxt"
    path.write_text(f'<ir_version: 13, opset_import: ["": 21, "qonnx.custom_op.general": 1]> {graph}')
    for words in (["--prove"], ["--engine", "reference"]):
        assert main(["verify", str(path), str(path), "--sets", "2", *words]) in (0, 1, 2, 3)
        assert "internal" not in capsys.readouterr().err


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_slice_of_a_negative_dimension(words: list[str], tmp_path: Path) -> None:
    """Exporters write -1 for an unknown dimension; the inference of onnx ends the process there."""
    sliced = "Slice (x, one, two, zero)"
    proto = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21]>
      g (float[4] x, bool c) => (float[N] y, float[N] z)
      <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}> {{
        y = {sliced}
        z = If (c) <then_branch = t () => (float[N] p) {{ p = {sliced} }},
                    else_branch = e () => (float[N] q) {{ q = Identity (x) }}>
      }}""")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert main([word.format(m=tmp_path / "m.onnx", o=tmp_path / "o.onnx") for word in words]) in (0, 3)
