"""Different computations of two models that the inputs did not cover: reasons why they cannot be called equal.

Only expressions of one model that the other lacks count (`castsmith.verification.prove`), and among them branches that
were never taken, comparisons with a single result, rows of tables that were not read, operands that Where never
chose, bounds that never applied, and different numbers without effect on an output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx_ir

from castsmith.ir.ops.table import CONVERSIONS, GIVES_BOOL, LINEAR, RUNS_GRAPHS, operators
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes
from castsmith.numerics.types import Kind, element_type
from castsmith.verification.evaluate.coverage import held_nodes
from castsmith.verification.evaluate.evaluator import Evaluator
from castsmith.verification.evaluate.indices import depends_on_inputs
from castsmith.verification.prove.proof import Proof
from castsmith.verification.prove.values import Book

_BY_ELEMENT = operators(lambda row: row.elementwise)

_OF_THE_SHAPE = {"axis", "keepdims", "start", "end", "to", "dtype", "auto_pad", "noop_with_empty_axes"}
"""Attributes that may differ between equivalent models; their effect shows in shapes, types or positions."""


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
        tables = {table for number in shared if (table := _table(proof.book, number)) is not None}
        for node in own_nodes:
            rows = evaluator.coverage.rows.get(node)
            same = all(_table(proof.book, number) in tables for number in own_expressions.of(node))
            if rows is not None and not rows.all() and not same:
                count = int(rows.sum())
                texts.append(f"{count} of the {rows.size} rows of {site_of(node)} in the {title} model were read")
    return [*texts, *(_numbers_apart(proof, (first.model, second.model)) if exact else ())]


def _table(book: Book, number: int) -> tuple[object, ...] | None:
    """Return the operator and the constant from which a Gather or GatherElements takes elements; None for others."""
    key = book.keys[number]
    gathers = key[0] == "operator" and key[1][1] in ("Gather", "GatherElements") and key[3][0] in book.constants
    return (*key[1:3], key[3][0]) if gathers else None


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
    book, sides = proof.book, (proof.ours, proof.theirs)
    reached = [_reached(book, side.outputs.values()) for side in sides]
    nodes = [
        Counter(_place(book, n) for node in all_nodes(model) for n in side.of(node))
        for side, model in zip(sides, models, strict=True)
    ]
    for side_index, (own_numbers, other_numbers) in enumerate((reached, reached[::-1])):
        places: dict[object, list[int]] = {}
        for number in sorted(other_numbers):
            places.setdefault(_place(book, number), []).append(number)
        for number in sorted(own_numbers - other_numbers):
            place = _place(book, number)
            as_often = nodes[0][place] == nodes[1][place]
            candidates = [n for n in places.get(place, ()) if place and (as_often or n not in own_numbers)]
            text = next((text for candidate in candidates if (text := _apart(book, number, candidate))), "")
            node = next(
                (node for node in all_nodes(models[side_index]) if text and number in sides[side_index].of(node)), None
            )
            if text:
                location = f" at {site_of(node)}" if node is not None else ""
                yield f"the models differ in {text}{location}, but no output changed"


def _reached(book: Book, numbers: object) -> set[int]:
    """Return the expressions of which these are made, including those in graphs within nodes."""
    stack: list[int] = [*numbers]  # type: ignore[misc]
    visited: set[int] = set()
    while stack:
        number = stack.pop()
        if number not in visited:
            visited.add(number)
            stack += book.parts(number)
    return visited


def _place(book: Book, number: int) -> tuple[object, ...]:
    """Return the operator with its operands, constants only by type and shape; empty for no operator."""
    if book.keys[number][0] != "operator":
        return ()
    _, op, _, inputs, index, count = book.keys[number]
    operands: tuple[int | None, ...] = inputs
    operand_keys: list[object] = [book.keys[i][:3] if i is not None and i in book.constants else i for i in operands]
    return (*op[:2], *operand_keys, index, count)


def _apart(book: Book, number: int, other: int) -> str:
    """Return the attribute or operand in which two corresponding operators differ; empty if without effect."""
    _, op, attributes, inputs, _, _ = book.keys[number]
    _, _, other_attributes, other_inputs, _, _ = book.keys[other]
    if op != book.keys[other][1] and op[1] not in CONVERSIONS | LINEAR:
        return f"version of {op[1]}"
    own_values, other_values = dict(attributes), dict(other_attributes)
    for name in sorted(own_values.keys() | other_values.keys()):
        kind = str((own_values.get(name) or other_values[name])[0])
        matters = kind.startswith(("FLOAT", "STRING")) or (kind == "INT" and name not in _OF_THE_SHAPE)
        if matters and own_values.get(name) != other_values.get(name):
            return f"{name} of {op[1]}"
    for place, (left, right) in enumerate(zip(inputs, other_inputs, strict=True)):
        if left == right or left not in book.constants:
            continue
        row = element_type(book.constants[left].dtype)
        if row.kind is not Kind.INTEGER or op[1] in _BY_ELEMENT:
            return f"constant as operand {place + 1} of {op[1]}"
    return ""
