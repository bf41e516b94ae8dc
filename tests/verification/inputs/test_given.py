"""Inputs that the caller gives to `verify` and `convert`: every form, and the sentence for each that does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import onnx_ir
import pytest

from castsmith.ir.errors import ModelError
from castsmith.numerics.errors import OptionError
from castsmith.verification.inputs.given import given_sets
from castsmith.verification.run import verify

_HEAD = '<ir_version: 10, opset_import: ["": 21]>'
MODEL = onnx_ir.from_proto(
    onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float x, float[n] z) => (float[n] y) { y = Add (x, z) }'
    )
)
GIVEN: dict[str, Any] = {"x": np.float32(2), "z": np.ones(3, np.float32)}


def saved(folder: Path) -> Path:
    """Save one set of inputs alone, and beside it two with their results."""
    np.savez(folder / "data.npz", x=GIVEN["x"], z=GIVEN["z"])
    (folder / "sets").mkdir()
    sets = {f"in{number}/{name}": value for number in range(2) for name, value in GIVEN.items()}
    np.savez(folder / "sets" / "all.npz", **sets, **{"out0/y": GIVEN["z"]})
    return folder / "data.npz"


@pytest.mark.parametrize(
    ("inputs", "names"),
    [
        (GIVEN, ["the inputs"]),
        ([GIVEN, GIVEN], ["set 1", "set 2"]),
        ([("one", GIVEN)], ["one"]),
        ("npz", ["data"]),
        ("folder", ["data"]),
        ("sets", ["in0", "in1"]),
    ],
)
def test_forms_of_inputs(inputs: Any, names: list[str], tmp_path: Path) -> None:
    given = inputs
    if isinstance(inputs, str):
        given = {"npz": saved(tmp_path), "folder": tmp_path, "sets": tmp_path / "sets" / "all.npz"}[inputs]
    sets = list(given_sets(MODEL, given))
    assert [name for name, _ in sets] == names
    for _, feeds in sets:
        x = feeds["x"]
        assert isinstance(x, np.ndarray), "a scalar of numpy is an array without dimensions"
        assert (x.dtype, x.shape, x.item()) == (np.float32, (), 2.0)
    verdict = verify(MODEL, MODEL, inputs=given)
    assert (verdict.equal, sorted(verdict.runs)) == (True, sorted(names))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": 2.0, "z": GIVEN["z"]}, "the inputs: 'x' must be an array or a list of arrays, not of type float."),
        (
            {"x": GIVEN["x"], "z": [1.0, 2.0]},
            "the inputs: 'z' must be an array or a list of arrays, not of type float.",
        ),
        ([("one", ["x"])], "the inputs of one must map names to arrays, not be of type list."),
        (["x"], "the inputs of set 1 must map names to arrays, not be of type str."),
        ({**GIVEN, "q": GIVEN["z"]}, "the inputs are for 'q'; expected x, z."),
        ({**GIVEN, "q": GIVEN["z"], "b": GIVEN["z"]}, "the inputs are for 'b'; expected x, z."),
        ({**GIVEN, "z": GIVEN["x"]}, "the inputs: 'z' has the shape []; expected [n]."),
        ([GIVEN, {**GIVEN, "x": GIVEN["z"]}], "the inputs of set 2: 'x' has the shape [3]; expected []."),
    ],
)
def test_inputs_that_do_not_fit(inputs: Any, message: str) -> None:
    with pytest.raises(OptionError) as raised:
        verify(MODEL, MODEL, inputs=inputs)
    assert str(raised.value) == message


def test_inputs_that_are_missing() -> None:
    given = {"x": GIVEN["x"]}
    with pytest.raises(OptionError, match=r"^the inputs lack 'z'\.$"):
        list(given_sets(MODEL, given))
    with pytest.raises(OptionError, match=r"^the inputs of set 1 lack 'x'\.$"):
        list(given_sets(MODEL, [{}]))
    with pytest.raises(OptionError, match=r"^the inputs of one lack 'z'\.$"):
        list(given_sets(MODEL, [("one", given)]))
    assert [*given_sets(MODEL, given, partial=True)] == [("the inputs", {"x": 2})]
    assert verify(MODEL, MODEL, inputs=given).inconclusive


def test_a_dimension_without_a_name_is_any() -> None:
    model = MODEL.clone()
    model.graph.inputs[1].shape = onnx_ir.Shape([None, "n", 2])
    assert [*given_sets(model, {**GIVEN, "z": np.zeros((4, 5, 2), np.float32)})]
    with pytest.raises(OptionError, match=r"^the inputs: 'z' has the shape \[4, 5, 3\]; expected \[\?, n, 2\]\.$"):
        list(given_sets(model, {**GIVEN, "z": np.zeros((4, 5, 3), np.float32)}))


def test_an_input_with_a_default_need_not_be_given() -> None:
    model = MODEL.clone()
    model.graph.inputs[1].const_value = onnx_ir.tensor(np.ones(3, np.float32))
    assert [name for name, _ in given_sets(model, {"x": GIVEN["x"]})] == ["the inputs"]


def test_files_that_are_no_inputs(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("text")
    (tmp_path / "empty").mkdir()
    rows = [
        (tmp_path / "text.npz", ": not an .npz file of arrays."),
        (tmp_path / "empty", ": the folder has no .npz or .npy file."),
        (tmp_path / "none.npz", ": the inputs cannot be read (No such file or directory)."),
    ]
    (tmp_path / "objects").mkdir()
    np.save(tmp_path / "objects" / "x.npy", np.array([{}], object))
    rows.append((tmp_path / "objects", ": not an .npz file of arrays."))
    for path, text in rows:
        with pytest.raises(ModelError) as raised:
            list(given_sets(MODEL, path))
        assert str(raised.value) == f"{path}{text}"
    with pytest.raises(OptionError, match=r"^the name of the file of inputs is empty\.$"):
        list(given_sets(MODEL, ""))
    np.savez(tmp_path / "bad.npz", x=GIVEN["x"], q=GIVEN["z"])
    with pytest.raises(OptionError) as refused:
        list(given_sets(MODEL, tmp_path / "bad.npz"))
    assert str(refused.value) == f"{tmp_path / 'bad.npz'}: the inputs of bad are for 'q'; expected x, z."


def test_a_folder_of_arrays_is_one_set(tmp_path: Path) -> None:
    for name, array in GIVEN.items():
        np.save(tmp_path / f"{name}.npy", array)
    ((name, feeds),) = given_sets(MODEL, tmp_path)
    assert (name, sorted(feeds)) == (tmp_path.name, ["x", "z"])
    np.savez(tmp_path / "b.npz", **GIVEN)
    np.savez(tmp_path / "a.npz", **GIVEN)
    assert [name for name, _ in given_sets(MODEL, tmp_path)] == ["a", "b"]  # not those beside them


def test_sequences_and_optionals() -> None:
    text = f"{_HEAD} g (seq(float[2]) s, optional(float[2]) o) => (seq(float[2]) y) {{ y = Identity (s) }}"
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    given: Any = {"s": [np.float32(1), (np.ones(2), None)], "o": None}
    ((_, feeds),) = given_sets(model, given)
    s: Any = feeds["s"]
    assert (s[0].shape, s[1][0].tolist(), s[1][1], feeds["o"]) == ((), [1, 1], None, None)
