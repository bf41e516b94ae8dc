"""The suite as files: what is covered, read back, reproduced, and refused."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from onnx_ir import DataType

from castsmith.conformance.exporting import (
    Exported,
    codes_of,
    export,
    fixed_part,
    ir_version,
    model_bytes,
    raw_bytes,
    suite,
)
from castsmith.conformance.reading import read_suite
from castsmith.conformance.vectors import Operand, Vector, cast_vectors, every_type
from castsmith.ir.errors import ModelError
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.numerics.errors import OptionError
from castsmith.numerics.status import Definedness, Span
from castsmith.numerics.types import ELEMENT_TYPES, Kind, element_type, type_name
from tests.cli.helpers import Command
from tests.numerics import oracle
from tests.sampling import sampled

SOME = tuple(DataType[name] for name in ("BOOL", "INT4", "FLOAT8E4M3FN", "FLOAT8E8M0", "STRING", "FLOAT16"))
BIT_CAST = (DataType.INT8, DataType.FLOAT8E5M2)
TYPES = [dtype for dtype, row in ELEMENT_TYPES.items() if row.since.cast is not None]
PAIRS = [(a, b) for a in TYPES for b in TYPES if DataType.STRING not in (a, b)]


OFTEN = {DataType[name] for name in ("STRING", "FLOAT", "FLOAT16", "FLOAT8E8M0", "FLOAT8E5M2", "FLOAT8E4M3FNUZ")}
MANY = sampled("types of the conformance suite", TYPES, 9, always=OFTEN.__contains__)


@pytest.fixture(scope="module")
def vectors() -> list[Vector]:
    """The suite of many types."""
    return list(suite(MANY))


@pytest.fixture(scope="module")
def some() -> list[Vector]:
    """The vectors of a few types."""
    return list(suite(SOME))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the vectors of a few types."""
    folder = tmp_path_factory.mktemp("suite") / "a"
    export(folder, SOME)
    return folder


def casts(vectors: list[Vector]) -> list[Vector]:
    return [vector for vector in vectors if vector.op == "Cast"]


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_names_are_unique_and_every_pair_of_types_has_a_vector(vectors: list[Vector]) -> None:
    assert len({vector.name for vector in vectors}) == len(vectors)
    conversions = casts(vectors)
    assert {(vector.inputs[0].dtype, vector.output_type) for vector in conversions} == {
        (a, b) for a in MANY for b in MANY
    }
    attributes = {
        (vector.output_type, *(vector.attributes.get(k) for k in ("saturate", "round_mode"))) for vector in conversions
    }
    assert len([setting for setting in attributes if setting[0] is DataType.FLOAT8E8M0]) == 6
    assert (DataType.FLOAT8E5M2, 0, None) in attributes
    fnuz = [vector.opset for vector in conversions if vector.name.startswith("cast_float_to_float8e4m3fnuz_opset")]
    assert fnuz == [19, 24]


def test_narrow_sources_are_covered_whole_and_every_result_of_narrow_targets_is_reached(vectors: list[Vector]) -> None:
    for vector in casts(vectors):
        source, target = element_type(vector.inputs[0].dtype), element_type(vector.output_type)
        if Kind.STRING in (source.kind, target.kind):
            continue
        data = vector.inputs[0].elements
        if 1 < source.bits <= 16:
            assert np.unique(data.view(f"u{data.itemsize}")).size == 2**source.bits, vector.name
        elif target.bits <= 16 and target.kind is not Kind.BOOLEAN and source.kind is Kind.FLOATING:
            codes = np.unique(vector.output.view(f"u{vector.output.itemsize}"))
            specials = 2 ** (target.mantissa_bits + 1) if target.kind is Kind.FLOATING else 0
            assert codes.size >= 2**target.bits - specials, vector.name


@pytest.mark.parametrize(
    ("source", "target"),
    sampled("pairs of types of the conformance suite", PAIRS, 40, cover=enumerate),
    ids=type_name,
)
def test_the_outputs_are_those_of_the_oracle(source: DataType, target: DataType) -> None:
    for vector in cast_vectors("Cast", dict.fromkeys((source, target))):
        if (vector.inputs[0].dtype, vector.output_type) == (source, target):
            _compare(vector)


def _compare(vector: Vector) -> None:
    source, target = type_name(vector.inputs[0].dtype), type_name(vector.output_type)
    if source == target:
        assert vector.output.tobytes() == vector.inputs[0].elements.tobytes()
        return
    attributes: Any = vector.attributes
    settings = oracle.Settings(attributes.get("saturate", 1) == 1, attributes.get("round_mode", "up"), vector.opset)
    data, output = vector.inputs[0].elements, vector.output
    every = np.flatnonzero(vector.defined())
    some = every[:: max(1, every.size // 200)]
    numbers = [oracle.decode(source, code) for code in codes_of(data[some]).tolist()]
    assert codes_of(output[some]).tolist() == oracle.cast_codes(source, target, numbers, settings)


def test_what_is_written_is_read_and_written_again_byte_for_byte(
    exported: Path, some: list[Vector], tmp_path: Path
) -> None:
    again = export(tmp_path / "b", SOME)
    assert digests(exported) == digests(tmp_path / "b")
    assert again.sha256 == digests(exported)["manifest.json"]
    for written, read in zip(some, read_suite(exported), strict=True):
        assert (read.name, read.opset, dict(read.attributes)) == (written.name, written.opset, dict(written.attributes))
        assert list(read.spans) == list(written.spans)
        assert read.output.tolist() == written.output.tolist() or read.output.tobytes() == written.output.tobytes()
        assert [operand.elements.shape for operand in read.inputs] == [
            operand.elements.shape for operand in written.inputs
        ]


def test_the_models_are_valid_and_their_data_sets_hold_what_the_standard_fixes(
    exported: Path, some: list[Vector]
) -> None:
    vectors = {vector.name: vector for vector in some}
    folders = sorted((exported / "node").iterdir())
    assert len(folders) >= 0.9 * len(vectors)
    for folder in folders[::3]:
        vector = vectors[folder.name.removeprefix("test_")]
        model = onnx.load(folder / "model.onnx")
        if vector.opset <= onnx.defs.onnx_opset_version() and not vector.domain:
            onnx.checker.check_model(model, full_check=True)
        read = onnx.TensorProto.FromString((folder / "test_data_set_0" / "output_0.pb").read_bytes())
        array = onnx.numpy_helper.to_array(read)
        mask = vector.defined()
        assert array.size == mask.sum() or (mask.ndim == 2 and 0 < array.size < mask.sum()), folder.name
        if array.dtype == vector.output.dtype and array.dtype.kind != "O" and mask.ndim == 1:
            assert array.tobytes() == vector.output[vector.defined()].tobytes()


def test_what_the_standard_leaves_open_is_left_out() -> None:
    """With whole columns if the scales are along the rows, and whole rows, those of the scales too, if in blocks."""
    grid, rows, blocks = [[1, 2, 3], [4, 5, 6]], [7, 8], [[7, 8], [9, 10]]
    expected: dict[str, tuple[list[Any], list[tuple[int, int]], list[Any] | None]] = {
        "nothing": ([grid, rows], [], [grid, rows, grid]),
        "of a vector": ([grid[0], 7], [(1, 2)], [[1, 3], 7, [1, 3]]),
        "all of a vector": ([grid[0], 7], [(0, 2), (2, 3)], None),
        "columns": ([grid, rows], [(0, 1), (5, 6)], [[[2], [5]], rows, [[2], [5]]]),
        "each column": ([grid, rows], [(0, 2), (5, 6)], None),
        "rows": ([grid, blocks], [(1, 3)], [grid[1:], blocks[1:], grid[1:]]),
        "rows of two operands": ([grid, blocks, blocks], [(4, 5)], [grid[:1], blocks[:1], blocks[:1], grid[:1]]),
        "each row": ([grid, blocks], [(0, 1), (5, 6)], None),
    }
    for name, (operands, ends, left) in expected.items():
        inputs = [Operand(f"i{place}", np.array(numbers), str(place)) for place, numbers in enumerate(operands)]
        spans = [Span(start, stop, Definedness.UNDEFINED, "") for start, stop in ends]
        part = fixed_part(Vector(name, "QuantizeLinear", 21, 21, {}, inputs, np.array(operands[0]) * 10, spans, ""))
        if left is None or part is None:
            assert part is left, name
            continue
        assert [operand.elements.tolist() for operand in part[0]] == left[:-1], name
        assert part[1].tolist() == (np.array(left[-1]) * 10).tolist(), name
        assert [(operand.name, operand.file) for operand in part[0]] == [(value.name, value.file) for value in inputs]


def test_codes_are_in_the_low_bits() -> None:
    """Of numbers below zero too, and of either byte order."""
    for dtype, numbers, codes in (
        ("int4", [-8, -1, 7], [8, 15, 7]), ("int2", [-2, -1, 1], [2, 3, 1]), ("uint4", [0, 15], [0, 15]),
        ("float4_e2m1fn", [-6, -0.5, 6], [15, 9, 7]), ("float6_e2m3fn", [-7.5, 1], [63, 8]), ("?", [0, 1], [0, 1]),
        ("int8", [-1, 1], [255, 1]), (">i2", [-2, 1], [65534, 1]), ("<u4", [2**32 - 1], [2**32 - 1]),
        ("int64", [-1], [2**64 - 1]), (">f4", [-1.5, 0], [0xBFC00000, 0]), ("bfloat16", [-1], [0xBF80]),
    ):  # fmt: skip
        array = np.array(numbers).astype(np.dtype(dtype))
        assert codes_of(array).tolist() == codes
        little = b"".join(code.to_bytes(array.itemsize, "little") for code in codes)
        assert raw_bytes(array) == raw_bytes(array.reshape(-1, 1)) == little
    assert raw_bytes(np.array([["a", "\u00e9"]], object)) == b'["a", "\\u00e9"]'


def test_the_version_of_a_model_is_that_of_its_release_or_of_its_newest_type() -> None:
    """Releases of onnx with their opsets (its table of versions); every runtime reads version 8."""
    releases = {row[2]: row[1] for row in onnx.helper.VERSION_TABLE}
    for opset in range(13, min(28, onnx.defs.onnx_opset_version()) + 1):
        assert ir_version(opset, []) == max(8, releases[opset]), opset
        assert ir_version(opset, [DataType.FLOAT, DataType.STRING]) == max(8, releases[opset])
    newest = {"FLOAT8E5M2": 9, "INT4": 10, "FLOAT4E2M1": 11, "FLOAT8E8M0": 12, "INT2": 13, "FLOAT6E3M2": 14}
    assert {name: ir_version(13, [DataType.FLOAT, DataType[name]]) for name in newest} == newest
    assert ir_version(28, [DataType.FLOAT8E5M2]) == 14


def test_the_model_of_a_vector() -> None:
    """Operands are inputs, or constants; an attribute is a number or a text; a domain stands beside the standard's."""
    x, scale, result = np.arange(6, dtype=np.float32).reshape(2, 3), np.array(2, np.float32), np.zeros((2, 3), np.int8)
    operands = [Operand("x", x, ""), Operand("scale", scale, "")]
    for domain, imports in (("", [("", 19)]), ("a.b", [("", 19), ("a.b", 7)])):
        attributes = {"axis": 0, "mode": "up"}
        vector = Vector("v", "Op", 19, 28, attributes, operands, result, [], "", domain, 7)
        for constant in (False, True):
            model = onnx.ModelProto.FromString(model_bytes(vector, operands, result, constant=constant))
            graph = model.graph
            assert [(entry.domain, entry.version) for entry in model.opset_import] == imports
            assert (model.ir_version, model.producer_name, graph.name) == (9, "castsmith", "v")
            node = graph.node[0]
            assert (node.domain, node.op_type, [*node.input], [*node.output]) == (
                domain,
                "Op",
                ["x", "scale"],
                ["output"],
            )
            assert {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute} == {
                "axis": 0, "mode": b"up",
            }  # fmt: skip
            ports = {
                value.name: (
                    value.type.tensor_type.elem_type,
                    [dim.dim_value for dim in value.type.tensor_type.shape.dim],
                )
                for value in (*graph.input, *graph.output)
            }
            given = {} if constant else {"x": (1, [2, 3]), "scale": (1, [])}
            assert ports == {**given, "output": (3, [2, 3])}
            weights = {tensor.name: onnx.numpy_helper.to_array(tensor).tolist() for tensor in graph.initializer}
            assert weights == ({"x": x.tolist(), "scale": 2.0} if constant else {})
    float8 = np.zeros(1, DataType.FLOAT8E8M0.numpy())  # the newest type is that of the result
    newer = onnx.ModelProto.FromString(model_bytes(Vector("v", "Op", 13, 28, {}, [], float8, [], ""), operands, float8))
    assert newer.ir_version == 12


def test_the_operators_of_some_types() -> None:
    def operators(*types: DataType, opset: int | None = None) -> list[str]:
        return list(dict.fromkeys(vector.op for vector in suite(types, opset)))

    assert operators(DataType.INT8) == ["Cast", "CastLike"]
    assert operators(DataType.INT8, DataType.UINT8) == ["Cast", "CastLike", "BitCast"]
    every = ["Cast", "CastLike", "BitCast", "QuantizeLinear", "DequantizeLinear", "Trunc"]
    assert operators(DataType.INT32, DataType.FLOAT, DataType.INT8) == every
    assert operators(DataType.FLOAT, DataType.INT8, opset=14) == ["Cast", *every[3:]]


def test_what_an_export_says(tmp_path: Path) -> None:
    """Into an empty folder; a vector of which nothing is fixed has no model."""
    folder = tmp_path / "a"
    folder.mkdir()
    types = (DataType.FLOAT8E8M0, DataType.STRING)
    said, vectors = export(folder, types, 24), list(suite(types, 24))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {key: manifest[key] for key in ("format", "opset", "types")} == {
        "format": 1, "opset": 24, "types": ["float8e8m0", "string"],
    }  # fmt: skip
    open_ones = {vector.name for vector in vectors if not vector.defined().any()}
    assert open_ones
    assert {row["name"] for row in manifest["vectors"] if "model" not in row} == open_ones
    for row in manifest["vectors"]:
        if "model" in row:
            assert row["model"]["file"] == f"node/test_{row['name']}/model.onnx"
            assert row["model"]["sha256"] == digests(folder)[row["model"]["file"]]
    assert all(entry.get("offset") != 0 for row in manifest["vectors"] for entry in (*row["inputs"], row["output"]))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    elements = sum(vector.output.size for vector in vectors)
    assert said == Exported(
        len(vectors), len(vectors) - len(open_ones), elements, size, digests(folder)["manifest.json"]
    )
    (tmp_path / "file").write_text("")
    for taken in (folder, tmp_path / "file"):
        with pytest.raises(OptionError, match=f"^{taken} is not an empty directory; name a new one for the suite"):
            export(taken, types)


def test_one_opset_gives_models_of_that_opset_alone() -> None:
    assert {vector.opset for vector in suite(SOME, 23) if vector.op != "Trunc"} == {23}
    assert any(vector.op == "BitCast" for vector in suite(BIT_CAST, 26))
    assert not any(vector.op == "BitCast" for vector in suite(BIT_CAST, 25))
    assert {vector.opset for vector in suite((DataType.FLOAT, DataType.INT8), 13) if vector.op != "Trunc"} == {13}
    for opset in (12, NEWEST_OPSET + 1):
        text = f"unsupported opset {opset} of a conformance suite; supported are 13 to "
        with pytest.raises(OptionError, match=text):
            next(suite(SOME, opset))


def test_casts_like_have_the_types_of_their_schema(vectors: list[Vector]) -> None:
    newest = onnx.defs.get_schema("CastLike", min(28, onnx.defs.onnx_opset_version()))
    standard = {
        text[len("tensor(") : -1] for constraint in newest.type_constraints for text in constraint.allowed_type_strs
    }
    used = {type_name(vector.output_type) for vector in vectors if vector.op == "CastLike"}
    assert used == standard & {type_name(dtype) for dtype in MANY}
    assert {type_name(dtype) for dtype in every_type()} >= standard


def test_bad_requests_are_refused_in_a_sentence_and_leave_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    for words, text in (
        (("export", tmp_path / "full"), "is not an empty directory"),
        (("export", tmp_path / "new", "--opset", "99"), "unsupported opset 99"),
        (("export", tmp_path / "none" / "new"), "No such file"),
        (("run", tmp_path / "full", "--engine", "reference"), "holds no conformance suite"),
        (("run", "--engine", "onnxruntim"), "did you mean 'onnxruntime'?"),
        (("run", "--engine", "ml_dtypes", "--match", "xyzzy", "--types", "bool"), "no vector has"),
    ):
        ended = Command(capsys)("dev", "conformance", *words)
        assert ended.code == 2
        assert text in ended.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full"]


def test_a_changed_file_and_a_path_outside_are_refused(tmp_path: Path) -> None:
    export(tmp_path / "a", (DataType.INT4, DataType.BOOL))
    manifest = tmp_path / "a" / "manifest.json"
    text = manifest.read_text()
    name = json.loads(text)["vectors"][0]["output"]["file"]
    (tmp_path / "a" / name).write_bytes(b"\x01" * (tmp_path / "a" / name).stat().st_size)
    with pytest.raises(ModelError, match="its hash differs"):
        list(read_suite(tmp_path / "a"))
    manifest.write_text(text.replace(name, os.path.join("..", "..", "x")))
    with pytest.raises(ModelError, match="outside the suite"):
        list(read_suite(tmp_path / "a"))
    manifest.write_text(text.replace('"opsets"', '"opset"'))
    with pytest.raises(ModelError, match="is malformed"):
        list(read_suite(tmp_path / "a"))
