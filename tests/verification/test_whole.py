"""What a runtime changes as a whole is told apart from what the model means."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest

from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification import whole
from castsmith.verification.compare import How
from castsmith.verification.evaluate.engines import Engine, EngineError
from castsmith.verification.evaluate.evaluator import Evaluator
from castsmith.verification.evaluate.limits import Budget
from tests.verification.test_run import HEAD, MISCOMPILES, compared


def test_the_runtime_is_told_apart_from_the_model() -> None:
    chain = HEAD + MISCOMPILES["wrapping is taken for saturating"][0]
    verdict = compared(chain, chain)
    assert verdict.same
    assert any("ONNX Runtime" in text and "y[" in text for text in verdict.runtime)


def test_the_node_at_which_a_difference_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of those before the output that are wrong if they are the only output."""
    text = HEAD + "g (float[2] x) => (float[2] y, float[2] z) { a = Neg (x) b = Abs (a) y = Neg (b) z = Exp (y) }"
    model, x = onnx_ir.from_proto(onnx.parser.parse_model(text)), np.array([1, -2], np.float32)
    right = {"a": -x, "b": abs(x), "y": -abs(x), "z": np.exp(-abs(x))}
    wrong: dict[int, str] = {}  # by the number of outputs
    kinds = set[str]()

    class Runtime:
        def __init__(self, kind: str, data: bytes) -> None:
            kinds.add(kind)
            self.kind, self.names = kind, [value.name for value in onnx.ModelProto.FromString(data).graph.output]

        def ready(self, seconds: float) -> None:
            assert seconds == 9

        def run(self, *_: object) -> list[object]:
            return [right[name] + (name in wrong[len(self.names)]) for name in self.names]

    monkeypatch.setattr(whole, "Prepared", Runtime)
    evaluator = Evaluator(model, PromotionRules(), Engine("reference"), Budget(20))
    expected = evaluator.run({"x": x})
    for together, alone, cause in (
        ("y", "by", "; it starts at b, made by Abs"),
        ("y", "y", "; it starts at y, made by Neg"),
        ("y", "az", "; it starts at a, made by Neg"),
        ("y", "z", ""),
        ("z", "z", "; it starts at z, made by Exp"),
        ("z", "", ""),
    ):
        wrong[2], wrong[1] = together, alone
        texts = whole.Whole(model, "onnxruntime", 9).differences("mine", {"x": x}, expected, evaluator, How())
        for text, level in zip(texts, ("", ", with its default optimization"), strict=True):
            assert text.startswith(f"run as a whole by ONNX Runtime{level}, {together}[0] is ")
            assert text.endswith(f" (mine; 2 of 2 elements){cause}")
    wrong[2], wrong[1] = "y", "by"
    (text,) = whole.Whole(model, "openvino", 9).differences("mine", {"x": x}, expected, evaluator, How())
    assert text.startswith("run as a whole by OpenVINO, y[0] is ")
    assert kinds == {"onnxruntime", "onnxruntime optimized", "openvino whole"}
    monkeypatch.setattr(whole, "_PART", 0)  # no time is left for the search
    wrong[2], wrong[1] = "y", "by"
    texts = whole.Whole(model, "onnxruntime", 9).differences("mine", {"x": x}, expected, evaluator, How())
    assert all(text.endswith(" (mine; 2 of 2 elements)") for text in texts)
    wrong[2] = ""
    assert whole.Whole(model, "onnxruntime", 9).differences("mine", {"x": x}, expected, evaluator, How()) == []


@pytest.mark.parametrize(
    ("said", "invalid"),
    [
        ("Type Error: Type 'tensor(float)' of input parameter (x) is not the one expected", True),
        ("[ONNXRuntimeError] : 10 : INVALID_GRAPH : This is an invalid model.", True),
        ("Type parameter (T) of Optype (Add) bound to different types (tensor(float) and tensor(double))", True),
        ("[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for Add(14)", False),
    ],
)
def test_what_a_runtime_calls_invalid(monkeypatch: pytest.MonkeyPatch, said: str, invalid: bool) -> None:
    class Runtime:
        def __init__(self, kind: str, data: bytes) -> None:
            pass

        def ready(self, _: float) -> None:
            raise EngineError(said)

    monkeypatch.setattr(whole, "Prepared", Runtime)
    model = onnx_ir.from_onnx_text(HEAD + "g (float[2] x) => (float[2] y) { y = Neg (x) }")
    assert whole.Whole(model, "onnxruntime", 9).invalid is invalid
