"""Different computations of two models that the inputs did not cover: reasons why they cannot be called equal.

Only expressions of one model that the other lacks count (`castsmith.verification.prove`), and among them branches that
were never taken, comparisons with a single result, rows of tables that were not read, operands that Where never
chose, bounds that never applied, and different numbers without effect on an output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.table import CONVERSIONS, GIVES_BOOL, LINEAR, RUNS_GRAPHS, operators
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes
from castsmith.numerics.types import Kind, element_type
from castsmith.verification.checker import Term
from castsmith.verification.evaluate.coverage import held_nodes
from castsmith.verification.evaluate.evaluator import Evaluator
from castsmith.verification.evaluate.indices import depends_on_inputs
from castsmith.verification.prove.proof import Proof

_BY_ELEMENT = operators(lambda row: row.elementwise)

_OF_THE_SHAPE = {"axis", "keepdims", "start", "end", "to", "dtype", "auto_pad", "noop_with_empty_axes"}
"""Attributes that may differ between equivalent models; their effect shows in shapes, types or positions."""

_OF_THE_TERM = {"@", "how", "table", "shape", "outputs"}
"""What terms have that nodes do not."""


def open_ends(proof: Proof, first: Evaluator, second: Evaluator, *, exact: bool = True) -> list[str]:
    """Return computations that differ between the models and that the inputs did not cover.

    Args:
        exact: Models of other numbers differ everywhere: only branches count that were not taken.
    """
    texts: list[str] = []
    for title, own_expressions, other_expressions, evaluator in (
        ("first", proof.ours, proof.theirs, first),
        ("second", proof.theirs, proof.ours, second),
    ):
        shared = other_expressions.all
        own_nodes = [node for node in all_nodes(evaluator.model) if not own_expressions.of(node) <= shared]
        texts += [f"{text} in the {title} model" for text in _untaken(own_nodes, evaluator, exact=exact)]
        if not exact:
            continue
        tables = {table for term in shared if (table := _table(term)) is not None}
        for node in own_nodes:
            rows = evaluator.coverage.rows.get(node)
            same = all(_table(term) in tables for term in own_expressions.of(node))
            if rows is not None and not rows.all() and not same:
                count = int(rows.sum())
                texts.append(f"{count} of the {rows.size} rows of {site_of(node)} in the {title} model were read")
    return [*texts, *(_numbers_apart(proof, (first.model, second.model)) if exact else ())]


def _table(term: Term) -> Term | None:
    """Return the constant from which a Gather or GatherElements takes elements; None for others."""
    table = term.args[0] if term.op in ("Gather", "GatherElements") else None
    return table if table is not None and table.is_constant else None


def _untaken(own_nodes: list[onnx_ir.Node], evaluator: Evaluator, *, exact: bool) -> Iterator[str]:
    inner, coverage = set(own_nodes), evaluator.coverage
    for node, way, text in coverage.untaken(own_nodes):
        inner_nodes = ("body",) if node.op_type != "If" else (way,)
        decided = node.op_type == "If" and node.inputs[0] is not None and node.inputs[0].producer() in inner
        if way and (
            decided or any(set(held_nodes(node, name)) & inner or not held_nodes(node, name) for name in inner_nodes)
        ):
            yield text
    if not exact:
        return
    for node, text in coverage.flat([node for node in own_nodes if node.op_type in GIVES_BOOL]):
        if depends_on_inputs(node.outputs[0]):
            yield text
    for node in own_nodes:
        inner_nodes = [inside for name in node.attributes for inside in held_nodes(node, name)]
        if node.op_type not in RUNS_GRAPHS and set(inner_nodes) & inner:
            yield f"the engine runs the graphs of {site_of(node)} as a whole, and they differ"
    for node, place, text in coverage.unchosen(own_nodes):
        operand = node.inputs[place]
        if node.op_type != "Where" or (operand is not None and operand.producer() in inner):
            yield text


# ---- numbers that differ in the same place


def _numbers_apart(proof: Proof, models: tuple[onnx_ir.Model, onnx_ir.Model]) -> Iterator[str]:
    """Yield operators that are alike except for a number: an attribute, or a constant among their operands."""
    sides = proof.ours, proof.theirs
    reached = [_reached(side.outputs.values()) for side in sides]
    nodes = [
        Counter(_place(term) for node in all_nodes(model) for term in side.of(node))
        for side, model in zip(sides, models, strict=True)
    ]
    for side_index, (own_terms, other_terms) in enumerate((reached, reached[::-1])):
        places: dict[object, list[Term]] = {}
        for term in other_terms:
            places.setdefault(_place(term), []).append(term)
        for term in (term for term in own_terms if term not in other_terms):
            place = _place(term)
            as_often = nodes[0][place] == nodes[1][place]
            candidates = [other for other in places.get(place, ()) if place and (as_often or other not in own_terms)]
            text = next((text for candidate in candidates if (text := _apart(term, candidate))), "")
            node = next(
                (node for node in all_nodes(models[side_index]) if text and term in sides[side_index].of(node)), None
            )
            if text:
                location = f" at {site_of(node)}" if node is not None else ""
                yield f"the models differ in {text}{location}, but no output changed"


def _reached(outputs: Iterable[Term]) -> dict[Term, None]:
    """Return the terms of which these are made, including those in graphs within nodes."""
    stack, visited = [*outputs], dict[Term, None]()
    while stack:
        term = stack.pop()
        if term not in visited:
            visited[term] = None
            stack += (arg for arg in term.args if arg is not None)
    return visited


def _place(term: Term) -> tuple[object, ...]:
    """Return the operator with its operands, constants only by type and shape; empty for no operator."""
    if not term.args:
        return ()
    operands = [(arg.dtype, arg.shape) if arg is not None and arg.is_constant else arg for arg in term.args]
    return term.op, *operands, term.out


def _apart(term: Term, other: Term) -> str:
    """Return the attribute or operand in which two corresponding operators differ; empty if without effect."""
    if term.attrs.get("@") != other.attrs.get("@") and term.op not in CONVERSIONS | LINEAR:
        return f"version of {term.op}"
    for name in sorted((term.attrs.keys() | other.attrs.keys()) - _OF_THE_TERM):
        values = term.attrs.get(name), other.attrs.get(name)
        is_text, is_number = (any(isinstance(value, kind) for value in values) for kind in (bytes, int))
        if values[0] != values[1] and (is_text or (is_number and name not in _OF_THE_SHAPE)):
            return f"{name} of {term.op}"
    for place, (left, right) in enumerate(zip(term.args, other.args, strict=True)):
        if left is right or left is None or not left.is_constant:
            continue
        row = element_type(DataType(left.dtype))
        if row.kind is not Kind.INTEGER or term.op in _BY_ELEMENT:
            return f"constant as operand {place + 1} of {term.op}"
    return ""
