"""What onnx refuses: the operators at fault, with a target by what follows from inputs and constants alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from castsmith import check
from castsmith.lowering.check import apart
from tests.lowering.check.test_target import PLAIN
from tests.sampling import check_all

pytestmark = pytest.mark.usefixtures("untried")

HEAD = '<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1, "local" : 1]>'
LARGE = "float[1, 1100] w = {" + ", ".join(["1"] * 1100) + "}"
FOREIGN = ("BiasGelu", "FastGelu", "QuickGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
AFTER = "g ({0}[2,4] x, {0}[3] v) => (y) {{ a = com.microsoft.{1} (x, x) y = Add (a, v) }}"

CASES: list[tuple[str, str | None, str]] = [
    # A graph, and the operators at fault for no target (None: outputs without types are) and for one.
    ("g (float[2] x, float[2] v) => (float[2] y) { y = Add (x, v) }", "", ""),
    ("g (float[2] x, float[3] v) => (float[2] y) { y = Add (x, v) }", "Add", "Add"),
    ("g (float[0] x, float[3] v) => (float[0] y) { y = Add (x, v) }", "Add", "Add"),
    ("g (float[N] x, float[M] v) => (float[K] y) { y = Add (x, v) }", "", ""),
    ("g (float[2] x, float[3] v, float[2,3] w) => (float[2] y, float[2,2] z) { y = Add (x, v) z = MatMul (w, w) }",
     "Add MatMul", "Add MatMul"),
    # Of declarations onnx judges alone.
    ("g (float[2] x) => (float[3] y) { y = Neg (x) }", "Neg", ""),
    ("g (float[2] x) => (float[2] y) <float[3] a> { a = Neg (x) y = Neg (a) }", "Neg Neg", ""),
    ("g (float[2] x, float[3] v) => (float[3] y) <float[3] a> { a = Neg (x) y = Add (a, v) }", "Neg", "Add"),
    ("""g (bool c, float[2] x) => (float[2] y) { y = If (c) <then_branch = t () => (float[3] p) { p = Neg (x) },
        else_branch = e () => (float[2] q) { q = Abs (x) }> }""", "Neg", ""),
    ("""g (bool c, float[2] x, float[3] v) => (y) { y = If (c) <then_branch = t () => (p) { p = Add (x, v) },
        else_branch = e () => (q) { q = Abs (x) }> }""", None, "Add"),
    ("""g (bool c, float[2] x) => (y) { y = If (c) <then_branch = t () => (p) <float[3] k> { k = Neg (x) p = Abs (k) },
        else_branch = e () => (q) { q = Abs (x) }> }""", None, ""),
    # Values that are computed from shapes.
    ("g (float[6] x, float[2,3] v, float[4] u) => (y) { s = Shape (v) a = Reshape (x, s) y = Add (a, u) }", None,
     "Add"),
    ("g (float[6] x, float[4] u) => (y) <int64[2] s = {2, 3}> { a = Reshape (x, s) y = Add (a, u) }", None, "Add"),
    ("g (float[6] x, int64[2] s, float[4] u) => (y) { a = Reshape (x, s) y = Add (a, u) }", None, ""),
    # Large constants, of which the type and the shape count.
    (f"g (float[2,3] x) => (y) <{LARGE}> {{ y = Add (x, w) }}", None, "Add"),
    (f"g (float[1,1100] x) => (y) <{LARGE}> {{ y = Add (x, w) }}", None, ""),
    (f"g (float[2,3] x, {LARGE}) => (y) {{ y = Add (x, w) }}", None, "Add"),
    (f"g (float[1,1100] x, {LARGE}) => (float[1,1100] y) {{ y = Add (x, w) }}", "", ""),
    # Operators that onnx does not know.
    *((AFTER.format("float", name), None, "Add") for name in FOREIGN),
    ("g (float[2,4] x, float[3] v) => (y) <float a> { a = SimplifiedLayerNormalization (x, x) y = Add (a, v) }", None,
     "Add"),
    *((AFTER.format(dtype, "BiasGelu"), None, "Add") for dtype in ("float16", "double")),
    (AFTER.format("bfloat16", "BiasGelu"), None, ""),
    (AFTER.format("float", "Own"), None, ""),
    ("g (float[2] x, float[3] v) => (y) { a = local.Own (x) y = Add (a, v) }", None, ""),
    ("g (float[2] x, int32[3] v) => (y) <float[2] a> { a = local.Own (x) y = Neg (a) }", None, ""),
    ("g (float[2] x) => (y) { a = com.microsoft.FastGelu () y = Neg (x) }", None, ""),
    ("g (float[2] x) => (y) { = com.microsoft.FastGelu (x) y = Neg (x) }", None, ""),
    # Of elements in a row.
    ("g (seq(float[2]) x) => (y) { a = Identity (x) y = Identity (a) }", None, ""),
    ("g (seq(float[2]) x) => (y) { y = Neg (x) }", None, "Neg"),
]  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not forked")
@pytest.mark.parametrize("hard", [-1, 1 << 30, 8 << 30])
def test_a_process_that_asks_onnx_keeps_to_the_limit_that_it_has(hard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least of the memory that it may take and 4 GiB is the limit, which its answer names here."""
    limit = Mock()
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("resource.getrlimit", Mock(return_value=(-1, hard)))
    monkeypatch.setattr("resource.setrlimit", limit)

    def question() -> None:
        raise ValueError([call.args[1] for call in limit.call_args_list])

    least = 4 << 30 if hard < 0 else min(4 << 30, hard)
    assert apart.asked_apart(question) == f"[({least}, {hard}), (0, 0)]"


def faults(model: onnx.ModelProto, *, targeted: bool) -> str:
    found = [each for each in check(model, target=PLAIN if targeted else None) if each.code == "invalid-model"]
    assert {each.help for each in found} <= {"correct the model where it says so, or export it again"}
    assert all(each.message.startswith(f"{each.site.op}: ") for each in found)
    return " ".join(each.site.op for each in found)


def check_case(text: str, alone: str | None, targeted: str) -> None:
    model = onnx.parser.parse_model(HEAD + text)
    assert faults(model, targeted=True) == targeted
    assert alone is None or faults(model, targeted=False) == alone


def test_operators_at_fault() -> None:
    check_all(check_case, CASES)


def test_constants_in_a_file_are_not_read(tmp_path: Path) -> None:
    """A shape has 16 bytes, but onnx, which is given the model alone, ends at where they are."""
    model = onnx.parser.parse_model(HEAD + "g (float[6] x) => (float[2,3] y) { y = Reshape (x, s) }")
    model.graph.initializer.append(numpy_helper.from_array(np.array([2, 3]), "s"))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="data", size_threshold=0)
    for target in (None, PLAIN):
        assert not [each for each in check(path, target=target) if each.code == "invalid-model"]


def _asked_here(question: Callable[[], object]) -> str:
    return f"{question()}"


def test_large_constants_are_not_handed_to_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = Mock(return_value="")
    monkeypatch.setattr("castsmith.lowering.check.standard.asked_apart", _asked_here)
    monkeypatch.setattr("onnx.checker.check_model", questions)
    monkeypatch.setattr("onnx.shape_inference.infer_shapes", questions)
    model = onnx.parser.parse_model(HEAD + "g (float[16384] x) => (float[16384] y) { y = Add (x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(16384, np.float32), "w"))
    for target in (None, PLAIN):
        questions.reset_mock()
        check(model, target=target)
        assert [call.args[0].ByteSize() < 1000 for call in questions.call_args_list] == [True]


def _negative(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1


def _of_ir_version_3(model: onnx.ModelProto) -> None:
    model.ir_version = 3
    model.graph.initializer.append(onnx.helper.make_tensor("w", 1, [3], [1.0, 2.0, 3.0]))
    model.graph.node[0].input[1] = "w"


def _named(model: onnx.ModelProto) -> None:
    model.graph.node[0].name = "n"


def _without_an_opset(model: onnx.ModelProto) -> None:
    del model.opset_import[0]


CHANGES: list[tuple[Callable[[onnx.ModelProto], None], str]] = [
    (_negative, ""), (_of_ir_version_3, "g: (unnamed) (Add)"), (_named, "g: n (Add)"),
    (_without_an_opset, "g: (unnamed) (Add)"),
]  # fmt: skip


def test_what_text_cannot_say() -> None:
    for change, place in CHANGES:
        model = onnx.parser.parse_model(HEAD + "g (float[2] x, float[3] v) => (y) { y = Add (x, v) }")
        change(model)
        found = [str(each.site) for each in check(model, target=PLAIN) if each.code == "invalid-model"]
        assert " ".join(found) == place, change


def test_inputs_of_a_branch_are_told_apart() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) { y = If (c) <
        then_branch = t (float[2] k) => (float[2] p) { p = Neg (x) },
        else_branch = e () => (float[2] q) { q = Abs (x) }> }"""
    model = onnx.parser.parse_model(HEAD + text)
    for target in (None, PLAIN):
        assert [each.subject for each in check(model, target=target)] == ["branch-inputs"]
