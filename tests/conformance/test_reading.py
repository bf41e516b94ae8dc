"""Reading a suite: what a manifest says, and what is refused of one that was changed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.conformance.exporting import export, raw_bytes, suite
from castsmith.conformance.reading import from_raw, read_suite
from castsmith.ir.errors import ModelError

_TYPES = (DataType.INT4, DataType.FLOAT8E4M3FN, DataType.STRING)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reading") / "suite"
    export(place, _TYPES)
    return place


def test_vectors_whose_names_contain_a_text(folder: Path) -> None:
    names = [vector.name for vector in suite(_TYPES)]
    for match in ("", "int4", "cast_int4_to_string", "no_saturate", "xyzzy"):
        assert [vector.name for vector in read_suite(folder, match)] == [name for name in names if match in name]


def test_all_that_a_vector_says_is_read(folder: Path) -> None:
    for read, written in zip(read_suite(folder), suite(_TYPES), strict=True):
        for name in ("name", "op", "opset", "last_opset", "clause", "domain", "domain_version"):
            assert getattr(read, name) == getattr(written, name)
        assert (dict(read.attributes), list(read.spans)) == (dict(written.attributes), list(written.spans))
        assert read.output_type == written.output_type
        assert [(each.name, each.dtype) for each in read.inputs] == [(each.name, each.dtype) for each in written.inputs]
        for one, other in zip(read.inputs, written.inputs, strict=True):
            assert raw_bytes(one.elements) == raw_bytes(other.elements)


Change = Callable[[dict[str, Any]], object]


def _first(change: Callable[[dict[str, Any]], object]) -> Change:
    return lambda manifest: change(manifest["vectors"][0])


_REFUSED: list[tuple[Change, str]] = [
    (lambda manifest: manifest.update(format=2), "{} has format 2; this version reads format 1."),
    (lambda manifest: manifest.pop("format"), "{} is not the manifest of a conformance suite: 'format'."),
    (lambda manifest: manifest.pop("reasons"), "{} is not the manifest of a conformance suite: 'reasons'."),
    (lambda manifest: manifest.update(vectors=3), "{} is not the manifest of a conformance suite: "),
    (_first(lambda row: row.pop("name")), "{} is not the manifest of a conformance suite: 'name'."),
    (_first(lambda row: row.pop("clause")),
     "{}: the vector cast_int4_to_int4_opset21 is malformed: KeyError('clause')."),
    (_first(lambda row: row.update(opsets=[21])), "{}: the vector cast_int4_to_int4_opset21 is malformed: ValueError("),
    (_first(lambda row: row.update(open=[[0, 1, "undefined", 99]])),
     "{}: the vector cast_int4_to_int4_opset21 is malformed: IndexError("),
    (_first(lambda row: row["output"].update(shape=[15])),
     "{}: the vector cast_int4_to_int4_opset21 is malformed: ValueError("),
    (_first(lambda row: row["output"].update(type="int5")),
     "{}: the vector cast_int4_to_int4_opset21 is malformed: ElementTypeError(\"'int5' is not an element type"),
    (_first(lambda row: row["output"].update(sha256="0")),
     "{folder}/raw/inputs/int4 is not the file that the manifest describes: its hash differs."),
    (_first(lambda row: row["output"].update(file="../x")), "{} names ../x, which is outside the suite."),
]  # fmt: skip


def test_a_manifest_that_is_none_is_refused(folder: Path, tmp_path: Path) -> None:
    place = shutil.copytree(folder, tmp_path / "suite")
    for change, text in _REFUSED:
        manifest = json.loads((folder / "manifest.json").read_text())
        change(manifest)
        (place / "manifest.json").write_text(json.dumps(manifest))
        said = text.format(place / "manifest.json", folder=place)
        with pytest.raises(ModelError, match=f"^{re.escape(said)}"):
            list(read_suite(place))


def test_elements_are_in_one_file_each(folder: Path) -> None:
    """Those that many vectors have are in the raw inputs, and large ones that are in a data set stay there."""
    files, rows = dict[str, str](), json.loads((folder / "manifest.json").read_text())["vectors"]
    for entry in (each for row in rows for each in (*row["inputs"], row["output"])):
        assert files.setdefault(entry["sha256"], entry["file"]) == entry["file"]
        in_a_data_set = entry["file"].startswith("node/")
        assert in_a_data_set is (entry.get("offset", 0) > 0)
        assert not in_a_data_set or (folder / entry["file"]).stat().st_size - entry["offset"] >= 4096
    casts = {row["name"]: row for row in rows if row["op"] == "Cast"}
    for name, row in casts.items():
        source = name.split("_")[1]
        assert row["inputs"][0]["file"] == f"raw/inputs/{source}"


def test_large_elements_stay_in_the_data_set(tmp_path: Path) -> None:
    """All values of float16, which many vectors have, have a file, and what one vector has of float is in its set."""
    export(tmp_path / "suite", (DataType.INT8, DataType.FLOAT16, DataType.FLOAT), 13)
    rows = {row["name"]: row for row in json.loads((tmp_path / "suite" / "manifest.json").read_text())["vectors"]}
    files = {
        name: [each["file"] for each in (*rows[name]["inputs"], rows[name]["output"])]
        for name in ("cast_float16_to_int8_opset13", "cast_float16_to_float_opset13", "cast_float_to_float16_opset13")
    }
    assert list(files.values()) == [
        ["raw/inputs/float16", "raw/outputs/cast_float16_to_int8_opset13"],
        ["raw/inputs/float16", "node/test_cast_float16_to_float_opset13/test_data_set_0/output_0.pb"],
        [f"node/test_cast_float_to_float16_opset13/test_data_set_0/{name}.pb" for name in ("input_0", "output_0")],
    ]


def test_elements_of_less_than_a_byte_are_not_in_a_data_set(tmp_path: Path) -> None:
    """There they are stored in another form; and all elements of a type are in a file for all vectors."""
    export(tmp_path / "suite", (DataType.INT4, DataType.INT16), 21)
    rows = {row["name"]: row for row in json.loads((tmp_path / "suite" / "manifest.json").read_text())["vectors"]}
    row = rows["cast_int16_to_int4_opset21"]
    assert [row["inputs"][0]["file"], row["output"]["file"]] == [
        "raw/inputs/int16",
        "raw/outputs/cast_int16_to_int4_opset21",
    ]
    assert len(list(read_suite(tmp_path / "suite"))) == len(rows)


def test_what_is_no_json_and_a_folder_without_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=re.escape(f"{tmp_path} holds no conformance suite: it has no manifest.json.")):
        list(read_suite(tmp_path))
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ModelError, match="is not the manifest of a conformance suite: "):
        list(read_suite(tmp_path))


def test_elements_are_read_in_their_shape() -> None:
    bits = from_raw(b"\x01\x0f\x08\x00", DataType.INT4, (2, 2))
    assert (bits.dtype.name, bits.shape) == ("int4", (2, 2))
    assert from_raw(b"\x00\x3c\x00\xc0", DataType.FLOAT16, (2,)).tolist() == [1.0, -2.0]
    assert from_raw(b'["a", "b c"]', DataType.STRING, (2, 1)).tolist() == [["a"], ["b c"]]
    assert from_raw(b'["abc"]', DataType.STRING, (1,)).tolist() == ["abc"]
    with pytest.raises(ValueError, match="reshape"):
        from_raw(b"\x00\x3c", DataType.FLOAT16, (2,))
    assert np.array_equal(from_raw(raw_bytes(np.arange(6.0)), DataType.DOUBLE, (2, 3)), np.arange(6.0).reshape(2, 3))
