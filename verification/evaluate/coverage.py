"""Coverage of one model by the inputs: branches and iterations, results that varied, rows of tables that were read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.table import RUNS_GRAPHS
from castsmith.ir.text import site_of
from castsmith.ir.walks import graphs_in, nodes_of
from castsmith.numerics.types import Kind, element_type
from castsmith.verification.evaluate.conversions import Tensor, bits_of
from castsmith.verification.evaluate.promotion import Array, dtype_of

Calls = tuple[onnx_ir.Node, ...]
"""The calls of functions around a node, outermost first."""

_WAYS = {
    **dict.fromkeys(RUNS_GRAPHS, ("1", "2")),
    "If": ("then_branch", "else_branch"),
    "Loop": ("0", "1", "2"),
}
_BOUNDING = ("Min", "Max", "Clip")
_TURNS = {"0": "0 iterations", "1": "1 iteration", "2": "several iterations"}


@dataclass
class Seen:
    """Values of one result. whole: the value of all its elements so far; None once they varied."""

    whole: object | None = None
    varied: bool = False
    finite: bool = False


@dataclass
class Coverage:
    """Coverage of a model; `ways` has the branches of each If and the iterations of each loop, by outer calls."""

    ways: dict[tuple[Calls, onnx_ir.Node], set[str]] = field(default_factory=dict[tuple[Calls, onnx_ir.Node], set[str]])
    seen: dict[tuple[onnx_ir.Node, int], Seen] = field(default_factory=dict[tuple[onnx_ir.Node, int], Seen])
    output_types: dict[str, DataType] = field(default_factory=dict[str, DataType])
    output_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    rows: dict[onnx_ir.Node, NDArray[np.bool_]] = field(default_factory=dict[onnx_ir.Node, NDArray[np.bool_]])
    watched: dict[tuple[onnx_ir.Node, int], list[Callable[[Array], None]]] = field(
        default_factory=dict[tuple[onnx_ir.Node, int], list[Callable[[Array], None]]]
    )
    """Functions that are called with each array that an operator gets as the operand of a node."""

    def fed(self, node: onnx_ir.Node, operands: Sequence[Array | None]) -> None:
        """Note the operands of the node."""
        for place, array in enumerate(operands):
            if array is not None:
                for note in self.watched.get((node, place), ()):
                    note(array)

    def took(self, calls: Calls, node: onnx_ir.Node, way: str) -> None:
        """Note a branch or a number of iterations."""
        self.ways.setdefault((calls, node), set()).add(way)

    def saw(self, node: onnx_ir.Node, place: int, tensor: Tensor) -> None:
        """Note a result of the node."""
        summary = self.seen.setdefault((node, place), Seen())
        if (summary.varied and summary.finite) or not tensor.array.size:
            return
        kind = element_type(dtype_of(tensor.array)).kind
        if not summary.finite:
            summary.finite = kind not in (Kind.FLOATING, Kind.COMPLEX) or bool(np.isfinite(tensor.array).any())
        if not summary.varied:
            bits = bits_of(tensor.array).reshape(tensor.array.size, -1)
            first = bits[0] if summary.whole is None else summary.whole
            summary.whole, summary.varied = first, bool(np.any(bits != first))

    def read(self, node: onnx_ir.Node, size: int, indices: Array) -> None:
        """Note the rows that a Gather reads of a table."""
        rows = self.rows.setdefault(node, np.zeros(size, np.bool_))
        rows[np.unique(indices)] = True

    def chose(self, calls: Calls, node: onnx_ir.Node, operands: Sequence[Array | None], result: Array) -> None:
        """Note the operands of a Where, and those of Min, Max and Clip, from which elements came."""
        if node.op_type == "Where" and operands[0] is not None:
            flags = np.asarray(operands[0], np.bool_)
            ways = {"1": bool(flags.any()), "2": not bool(flags.all())}
        elif node.op_type in _BOUNDING:
            ways = {
                str(place): bool(np.any(np.broadcast_to(result == operand, result.shape)))
                for place, operand in enumerate(operands)
                if operand is not None and constant_tensor(node.inputs[place]) is not None
            }
        else:
            return
        for way in (way for way, met in ways.items() if met and result.size):
            self.took(calls, node, way)

    def unchosen(self, nodes: list[onnx_ir.Node]) -> Iterator[tuple[onnx_ir.Node, int, str]]:
        """Yield those of the nodes with an operand from which no element came, its position and a sentence."""
        ways_taken: dict[onnx_ir.Node, set[str]] = {}
        for (_, node), ways in self.ways.items():
            ways_taken.setdefault(node, set()).update(ways)
        for node in nodes:
            places = (1, 2) if node.op_type == "Where" else range(len(node.inputs)) if node.op_type in _BOUNDING else ()
            for place in places if (node, 0) in self.seen else ():
                bound = node.op_type == "Where" or constant_tensor(node.inputs[place]) is not None
                if bound and str(place) not in ways_taken.get(node, ()):
                    yield node, place, f"operand {place + 1} of {site_of(node)} contributed no element to its result"

    def untaken(self, nodes: list[onnx_ir.Node]) -> Iterator[tuple[onnx_ir.Node, str, str]]:
        """Yield those of the nodes with code that never ran, as a word and as a sentence.

        A node within a branch that never ran is not reported by itself.
        """
        for node in nodes:
            ways_taken = {way for (_, owner), ways in self.ways.items() if owner is node for way in ways}
            lacking = [way for way in _WAYS.get(node.op_type, ()) if way not in ways_taken]
            if node.op_type == "If" and ways_taken:
                for way in {
                    w for (_, owner), ways in self.ways.items() if owner is node for w in _WAYS["If"] if w not in ways
                }:
                    yield node, way, f"the {way} of {site_of(node)} was never taken"
            elif ways_taken and node.op_type != "If":
                if ways_taken == {"0"}:
                    yield node, "1", f"the body of {site_of(node)} never ran"
                elif lacking:
                    yield node, "", f"{site_of(node)} never ran with {_TURNS[lacking[0]]}"

    def flat(self, nodes: list[onnx_ir.Node]) -> Iterator[tuple[onnx_ir.Node, str]]:
        """Yield those of the nodes whose result was constant, or never finite, with a sentence."""
        for node in nodes:
            summary = self.seen.get((node, 0))
            if summary is None or summary.whole is None:
                continue
            if not summary.finite:
                yield node, f"the result of {site_of(node)} was never finite"
            elif not summary.varied:
                yield node, f"the result of {site_of(node)} was always the same"


def held_nodes(node: onnx_ir.Node, name: str) -> list[onnx_ir.Node]:
    """Yield the nodes of a graph that the node holds, at any depth."""
    return [inner for graph in graphs_in(node.attributes[name]) for inner in nodes_of(graph)]
