"""What a certificate notes of a run: the constants that neither end has, and each step that changed something."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx import TensorProto, numpy_helper

import castsmith
from castsmith.ir.errors import ModelError
from castsmith.ir.records import Effect, Rewrite, Site, TextItem
from castsmith.lowering import certificate
from castsmith.lowering.certificate import certifier_of
from castsmith.verification import checker


def model_of(*arrays: np.ndarray[Any, Any], nodes: str = "a = Add (x, w) y = Relu (a)") -> onnx.ModelProto:
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) {{ {nodes} }}'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for array, name in zip(arrays, "wv", strict=False)
    )
    return model


def parsed(model: onnx.ModelProto) -> onnx_ir.Model:
    return onnx_ir.from_proto(model)


FIRST, SECOND, LAST = (np.full(size, size, np.float32) for size in (2, 3, 4))
LARGE = np.arange(1 << 15, dtype=np.float32)
"""More bytes than a weight has that is copied."""


@pytest.mark.parametrize(
    ("states", "between"),
    [
        (((FIRST,), (SECOND,), (LAST,)), [SECOND]),
        (((FIRST,), (FIRST, SECOND), (SECOND,)), []),
        (((FIRST,), (SECOND,), (FIRST,)), [SECOND]),
        (((FIRST,), (LARGE,), (LAST,)), [LARGE]),
        (((LARGE,), (SECOND,), (LARGE, LAST)), [SECOND]),
    ],
)
def test_the_constants_that_neither_model_has_are_in_it(states: Any, between: list[np.ndarray[Any, Any]]) -> None:
    first, second, last = (parsed(model_of(*arrays)) for arrays in states)
    certifier = certifier_of(first, None)
    certifier.step("one", second)
    noted = certifier.certificate(last)
    assert sorted(noted["constants"]) == sorted(map(checker.digest, between))
    for array in between:
        content = base64.b64decode(noted["constants"][checker.digest(array)])
        tensor = onnx.TensorProto.FromString(content)
        assert numpy_helper.to_array(tensor).tolist() == array.tolist()
    assert [step["pass"] for step in noted["steps"]] == ["one", "save"]
    assert (noted["format"], noted["sha256"]) == (checker.FORMAT, checker.sealed(noted))


def test_a_step_has_its_rewrites_and_one_that_changes_nothing_is_none() -> None:
    before, after = model_of(FIRST), model_of(FIRST, nodes="y = Add (x, w)")
    certifier = certifier_of(parsed(before), None)
    certifier.step("idle", parsed(before))
    rewrite = Rewrite("p", "rule", Site("g", "y", "Relu"), TextItem("old"), TextItem("new"), "why", Effect.CONVERTED)
    certifier.step("drop", parsed(after), [rewrite])
    (step,) = certifier.certificate(parsed(after))["steps"]
    assert (step["pass"], step["rewrites"]) == (
        "drop",
        [
            {
                "rule": "rule",
                "place": "g: y (Relu)",
                "removed": "old",
                "made": "new",
                "reason": "why",
                "effect": Effect.CONVERTED.value,
            }
        ],
    )
    assert step["edit"]["drop"]
    assert step["edit"]["put"]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_large_weight_is_the_same_from_memory_and_from_a_data_file(elsewhere: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model_of(LARGE), path, save_as_external_data=elsewhere, size_threshold=0)
    loaded = castsmith.load(path)
    from_file, from_memory = certifier_of(loaded, path), certifier_of(parsed(model_of(LARGE)), None)
    changed = model_of(LARGE, FIRST)
    certificates = [each.certificate(parsed(changed)) for each in (from_file, from_memory)]
    assert certificates[0] == certificates[1]
    assert certificates[0]["constants"] == {}
    assert any(checker.digest(FIRST) in text for text in certificates[0]["steps"][-1]["edit"]["put"].values())


def test_what_certificates_do_not_support_is_refused_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sparse = onnx.SparseTensorProto(dims=[2])
    sparse.values.CopyFrom(onnx.helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0]))
    sparse.indices.CopyFrom(onnx.helper.make_tensor("i", TensorProto.INT64, [1], [1]))
    broken = model_of(FIRST)
    broken.graph.sparse_initializer.append(sparse)
    path = tmp_path / "sparse.onnx"
    onnx.save(broken, path)
    with pytest.raises(ModelError) as error:
        certifier_of(parsed(model_of(FIRST)), path)
    assert str(error.value) == f"{path}: there is no certificate of it: sparse initializers are not supported."
    twice = model_of(FIRST)
    twice.graph.node.append(onnx.helper.make_node("Neg", ["x"], ["y"]))
    monkeypatch.setattr(certificate, "whole_proto", Mock(return_value=twice))
    with pytest.raises(ModelError, match=r"^the model: there is no certificate of it: node y is in the model twice\.$"):
        certifier_of(parsed(model_of(FIRST)), None)
