"""Findings that follow from others."""

from __future__ import annotations

from tests.cli.gate.samples import found
from tests.cli.helpers import Command


def test_findings_name_the_one_from_which_they_follow(castsmith: Command) -> None:
    first, *others = found(castsmith, "models/followed.onnx")
    assert (first["code"], first["follows"]) == ("mixed-operand-types", None)
    assert first["help"] == "optimize --promotion torch promotes them as PyTorch does"
    assert {each["follows"] for each in others} == {0}
    codes = ["mixed-operand-types", "value-type-mismatch", "value-type-mismatch", "output-type-mismatch"]
    assert [each["code"] for each in others] == codes
    # Without the cause the others stand alone.
    assert {e["follows"] for e in found(castsmith, "models/followed.onnx", "--select=value-type-mismatch")} == {None}
    assert castsmith("optimize", "models/followed.onnx", "-o", "fixed.onnx", "--promotion", "torch").code == 0
    assert found(castsmith, "fixed.onnx") == []
