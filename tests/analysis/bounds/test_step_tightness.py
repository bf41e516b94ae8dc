"""What is said of the values of a case of each rule: a mistake that only loosens a bound fails no test of soundness.

Each line of `said.txt` is a case of `operators` or a random graph, with what is said of its values: the least and the
greatest element, the mean size of the ends where there are several entries, what may be besides, the dimensions, and
what is known of parts of a whole and of norms, what that assumes, and the inputs that leave it unbounded. The inputs
of an `open` case have dimensions without a size, those of a `bare` one no shape. The lines of `limits.txt` are written
by hand: opset, inputs with their ranges, nodes, and what is said. `python -m tests.analysis.bounds.test_step_tightness`
writes both again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx.defs
import onnx.parser
import onnx_ir
import pytest

from castsmith.analysis.bounds.interval import MINUS, NAN, PLUS, Interval
from castsmith.analysis.bounds.rules.normalization import TWO_PASSES
from castsmith.analysis.bounds.step import DEFAULTS, LENGTHS, NO_OVERFLOW
from tests.analysis.bounds import operators
from tests.analysis.bounds.containment import intervals
from tests.analysis.bounds.graphs import Graph
from tests.sampling import check_all

FILE, LIMITS = (Path(__file__).with_name(name) for name in ("said.txt", "limits.txt"))
_NEWEST = 24
_SEEDS, _GRAPHS = 4, 60
_WITHOUT_SIZES = ("open", "bare")
_ASSUMED = {NO_OVERFLOW: "finite", LENGTHS: "short", DEFAULTS: "default", TWO_PASSES: "centered"}
_TYPES = (onnx_ir.DataType.FLOAT, onnx_ir.DataType.INT32, onnx_ir.DataType.BFLOAT16)


def said(x: Interval) -> str:
    """Return what an interval says, with digits that no machine computes differently."""
    with np.errstate(all="ignore"):
        means = f" ({np.abs(x.low).mean():.3g}, {np.abs(x.high).mean():.3g})" if x.low.size > 1 else ""
    special = "".join(f" {name}" for name, bit in (("NaN", NAN), ("+", PLUS), ("-", MINUS)) if x.bits & bit)
    more = f"{' shares' if x.shares else ''}{'' if x.ball is None else f' ball {x.ball.radius:.3g}'}"
    dims = "?" if x.dims is None else ",".join("?" if dim is None else str(dim) for dim in x.dims)
    ends = f"[{x.least + 0.0:.8g}, {x.greatest + 0.0:.8g}]"
    assumed = " and".join(f" if {_ASSUMED[text]}" for text in sorted(x.assumes))
    blamed = f" by {' '.join(sorted(x.blame))}" if x.blame else ""
    return f"{ends}{means}{special} ({dims}){more}{assumed}{blamed}"


def line(domain: str, op_type: str, opset: int, dtype: int, seed: int, sizes: str = "") -> str:
    """Return the case and what is said of the results of its nodes."""
    case = operators.case_of(domain, op_type, opset, dtype, seed)
    head = f"{f'{domain}.{op_type}'.lstrip('.')} {opset} {onnx_ir.DataType(dtype).name} {seed} {sizes}".rstrip()
    return " | ".join((head, *of_nodes(without_sizes(case.model(), sizes), case.ranges)))


def without_sizes(model: onnx.ModelProto, sizes: str) -> onnx.ModelProto:
    for value in model.graph.input if sizes else ():
        if sizes == "bare":
            value.type.tensor_type.ClearField("shape")
        for index, dim in enumerate(value.type.tensor_type.shape.dim if sizes == "open" else ()):
            dim.dim_param = f"{value.name}_{index}"
    return model


def graph_line(seed: int) -> str:
    """Return the same of a random graph."""
    graph = Graph(seed)
    return " | ".join((f"graph {seed}", *of_nodes(graph.model(), graph.ranges)))


SPECIALS = """a = Log (m)
    b = Exp (w)
    c = Neg (b)
    d = Sqrt (m)
    zero = Constant <value_float = 0.0> ()
    e = Div (m, zero)
    k = Constant <value_floats = [0.0, -inf, nan]> ()"""
SPECIAL_INPUTS = "float[3] p = 1 : 2, float[3] m = -1 : 2, float[3] n = -3 : 0, float[3] w = 0 : 1000"
"""Numbers, and values that may be NaN and minus infinity, infinity, minus infinity, NaN, or all of them."""


def limit_model(opset: str, inputs: str, nodes: str) -> tuple[onnx.ModelProto, dict[str, tuple[float, float]]]:
    """Return the model of a line, whose inputs are written as `float[N, 2] x = -1 : 3`, and their ranges."""
    found = re.findall(r"(\w+) = (\S+) : ([^,]+)", inputs)
    declared = re.sub(r" = \S+ : [^,]+", "", inputs)
    imports = f'["" : {opset}, "com.microsoft" : 1, "foreign" : 1, "castsmith" : 1]'
    model = onnx.parser.parse_model(f"<ir_version: 10, opset_import: {imports}> g ({declared}) => () {{ {nodes} }}")
    return model, {name: (float(low), float(high)) for name, low, high in found}


def limit_line(opset: str, inputs: str, nodes: str) -> str:
    """Return what is said of nodes."""
    if inputs == "specials":
        results = limit_line(opset, SPECIAL_INPUTS, f"{SPECIALS} {nodes}").split(" | ")
        return " | ".join((opset, inputs, nodes, *results[3 + len(SPECIALS.splitlines()) :]))
    return " | ".join((opset, inputs, nodes, *of_nodes(*limit_model(opset, inputs, nodes))))


def limits() -> list[str]:
    """Return the lines of `limits.txt`."""
    written = LIMITS.read_text(encoding="utf-8").splitlines()
    return [text if text.startswith("#") else limit_line(*text.split(" | ")[:3]) for text in written]


def of_nodes(model: onnx.ModelProto, ranges: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    seen = intervals(model, ranges)
    return (said(seen[name]) for node in model.graph.node for name in node.output if name in seen)


def lines() -> list[str]:
    newest = {case[:2]: case for case in operators.every() if case[2] <= _NEWEST}
    cases = [case for case in operators.every() if case[2] == newest[case[:2]][2] and case[3] in _TYPES]
    floats = [case for case in cases if case[3] == _TYPES[0]]
    of_cases = (line(*case, seed) for case in cases for seed in range(_SEEDS if case in floats else 1))
    sizeless = (line(*case, 0, sizes) for case in floats for sizes in _WITHOUT_SIZES)
    return [*of_cases, *sizeless, *map(graph_line, range(_GRAPHS))]


def require(text: str) -> None:
    name, *words = text.partition(" | ")[0].split()
    if name == "graph":
        assert graph_line(int(words[0])) == text
        return
    opset, dtype, seed, *sizes = words
    domain, _, op_type = name.rpartition(".")
    assert line(domain, op_type, int(opset), int(onnx_ir.DataType[dtype]), int(seed), *sizes) == text


def test_as_much_is_said_as_before() -> None:
    written = FILE.read_text(encoding="utf-8").splitlines()
    named = {text.partition(" ")[0].rpartition(".")[2] for text in written}
    assert named == {"graph", *(name for _, name, *_ in operators.every())}
    check_all(require, written)


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 28, reason="onnx 1.21 ends the process at nodes that do not fit")
def test_limits_are_those_that_are_written() -> None:
    assert limits() == LIMITS.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
    LIMITS.write_text("\n".join(limits()) + "\n", encoding="utf-8")
