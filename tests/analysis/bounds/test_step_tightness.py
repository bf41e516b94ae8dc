"""What is said of the values of a case of each rule: a mistake that only loosens a bound fails no test of soundness.

Each line of `said.txt` is a case of `operators`, with what is said of its values: the least and the greatest element,
the mean size of the ends where there are several entries, what may be besides, the dimensions, and what is known of
parts of a whole and of norms. `python -m tests.analysis.bounds.test_step_tightness` writes it again, to be read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir

from castsmith.analysis.bounds.interval import MINUS, NAN, PLUS, Interval
from tests.analysis.bounds import operators
from tests.analysis.bounds.containment import intervals
from tests.sampling import check_all

FILE = Path(__file__).with_name("said.txt")
_NEWEST = 24
_SEEDS = 4
_TYPES = (onnx_ir.DataType.FLOAT, onnx_ir.DataType.INT32, onnx_ir.DataType.BFLOAT16)


def said(x: Interval) -> str:
    """Return what an interval says, with digits that no machine computes differently."""
    with np.errstate(all="ignore"):
        means = f" ({np.abs(x.low).mean():.3g}, {np.abs(x.high).mean():.3g})" if x.low.size > 1 else ""
    special = "".join(f" {name}" for name, bit in (("NaN", NAN), ("+", PLUS), ("-", MINUS)) if x.bits & bit)
    more = f"{' shares' if x.shares else ''}{'' if x.ball is None else f' ball {x.ball.radius:.3g}'}"
    dims = "?" if x.dims is None else ",".join("?" if dim is None else str(dim) for dim in x.dims)
    return f"[{x.least:.4g}, {x.greatest:.4g}]{means}{special} ({dims}){more}{' if finite' if x.assumes else ''}"


def line(domain: str, op_type: str, opset: int, dtype: int, seed: int) -> str:
    """Return the case and what is said of the results of its nodes."""
    case = operators.case_of(domain, op_type, opset, dtype, seed)
    model = case.model()
    seen = intervals(model, case.ranges)
    values = [name for node in model.graph.node for name in node.output if name in seen]
    name = f"{domain}.{op_type}".lstrip(".")
    return " | ".join((f"{name} {opset} {onnx_ir.DataType(dtype).name} {seed}", *(said(seen[name]) for name in values)))


def lines() -> list[str]:
    newest = {case[:2]: case for case in operators.every() if case[2] <= _NEWEST}
    cases = [case for case in operators.every() if case[2] == newest[case[:2]][2] and case[3] in _TYPES]
    return [line(*case, seed) for case in cases for seed in range(_SEEDS if case[3] == _TYPES[0] else 1)]


def require(text: str) -> None:
    name, opset, dtype, seed = text.partition(" | ")[0].split()
    domain, _, op_type = name.rpartition(".")
    assert line(domain, op_type, int(opset), int(onnx_ir.DataType[dtype]), int(seed)) == text


def test_as_much_is_said_as_before() -> None:
    written = FILE.read_text(encoding="utf-8").splitlines()
    assert {text.partition(" ")[0].rpartition(".")[2] for text in written} == {
        name for _, name, *_ in operators.every()
    }
    check_all(require, written)


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
