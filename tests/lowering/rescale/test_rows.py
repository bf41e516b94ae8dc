"""Models in float16, and what `rescale` makes of them: the constants, the nodes, and each record.

Each line of `rows.txt` is the body of a model from x, z and a mask c to y, below `# opset N`; `python -m
tests.lowering.rescale.test_rows` writes the result below each line again, to be read. That a result computes the same
is tried by executing it beside the model in float.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir

from castsmith.ir.io.loading import from_proto
from castsmith.lowering.accuracy import Reference
from castsmith.lowering.faults import reference_of
from castsmith.lowering.rescale.run import Rescale, RescaleResult
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.evaluate.engines import Engine
from castsmith.verification.evaluate.evaluator import Evaluator
from tests.evaluator import outputs_of
from tests.passes.test_rows import after, told
from tests.sampling import check_all

FILE = Path(__file__).with_name("rows.txt")
OPSET = "# opset "
CONSTANTS: dict[str, Any] = {
    "k": np.array([30000, 20000, 25000, 2]),
    "k2": np.array([30000, 20000, 25000, 0.0001]),
    "k3": np.array([300, 200, 250, 2]),
    "w": np.full((4, 4), 900) + np.arange(16).reshape(4, 4),
    "one": np.array(1),
    "two": np.array(2),
    "ten": np.array(10),
    "third": np.array(0.3333),
    "half": np.array(0.5),
    "tiny": np.array(1e-4),
    "eps": np.array(1e-6),
    "nil": np.array(0),
    "ones": np.ones(4),
    "v": np.array([0.001, 0.001, 1, 1]),
    "axes": np.array([-1]),
    "yes": np.array(1),
    "shape": np.array([2, 4, 1]),
    "back": np.array([2, 4]),
}
INPUTS = {
    "x": np.array([[1, -2, 0.5, 3], [-1, 0.25, 2, -0.75]], np.float16),
    "z": np.array([[1, 0, 0.5, 1], [0, 0.25, 1, 0.75]], np.float16),
    "c": np.array([[1, 0, 1, 1], [0, 0, 1, 1]], bool),
}


def model_of(opset: int, body: str) -> onnx_ir.Model:
    """Return the model of a line; its graph has the constants that the line names."""
    main, _, function = body.partition(" | ")
    nodes, _, outputs = main.partition(" ; ")
    ports = ", ".join(f"float16[N, M] {name}" for name in (outputs or "y").split())
    text = (
        f'<ir_version: 8, opset_import: ["": {opset}, "com.microsoft": 1, "own": 1]> g (float16[2,4] x, float16[2,4] z,'
        f" bool[2,4] c) => ({ports}) {{ {nodes} }}"
    )
    text += f'<domain: "own", opset_import: ["": {opset}]> {function}' if function else ""
    proto = onnx.parser.parse_model(text)
    words = set(body.replace(",", " ").replace("(", " ").replace(")", " ").split())
    for name, array in CONSTANTS.items():
        if name in words:
            dtype = {"axes": np.int64, "shape": np.int64, "back": np.int64, "yes": bool}.get(name, np.float16)
            proto.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(dtype), name))
    return from_proto(proto)


@cache
def rescaled(opset: int, body: str) -> tuple[Reference, RescaleResult]:
    """Return what the model computes in float, and what it becomes; neither is to be changed."""
    model = model_of(opset, body)
    reference = reference_of(model, INPUTS)
    result = Rescale(reference)(model)
    assert isinstance(result, RescaleResult)
    return reference, result


def results(opset: int, body: str) -> Iterator[str]:
    """Yield the lines that are written below a model."""
    _, result = rescaled(opset, body)
    if result.modified:
        yield from after(result.model)
    yield from told(result.records)
    if result.factors:
        yield f"factors {result.factors}"
    if result.unsolved:
        yield f"unsolved {result.unsolved}"
    if not result.modified and not result.unsolved:
        yield "nothing"


def written() -> str:
    lines, opset = list[str](), 17
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith(OPSET):
            opset = int(line.removeprefix(OPSET))
        if line.startswith(" "):
            continue
        lines.append(line)
        if not line.startswith("#"):
            lines += [f"    {text}" for text in results(opset, line)]
    return "\n".join(lines) + "\n"


def test_gives_what_the_line_below_says() -> None:
    assert written().splitlines() == FILE.read_text(encoding="utf-8").splitlines()


def rows() -> Iterator[tuple[int, str]]:
    opset = 17
    for line in FILE.read_text(encoding="utf-8").splitlines():
        opset = int(line.removeprefix(OPSET)) if line.startswith(OPSET) else opset
        if not line.startswith((" ", "#")):
            yield opset, line


def require_the_same(opset: int, body: str) -> None:
    """Run the result in float16 and compare it with the model in float, as far as a scale was found for all values.

    In ONNX Runtime: the reference implementation of ONNX takes a Softmax of opset 12 for one of opset 13.
    """
    reference, result = rescaled(opset, body)
    onnx.checker.check_model(onnx_ir.to_proto(result.model), full_check=True)
    prepared = Evaluator(result.model, PromotionRules(), Engine("onnxruntime"))
    ((_, _, expected),) = reference.runs
    for value, output in zip(result.model.graph.outputs, outputs_of(prepared, INPUTS), strict=True):
        if not result.unsolved:
            wide = expected[(), value.name or ""].astype(np.float64)
            assert np.abs(output.astype(np.float64) - wide).max() <= 4e-3 * np.abs(wide).max()


def test_the_result_is_that_of_the_model_in_float() -> None:
    check_all(require_the_same, rows())


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
