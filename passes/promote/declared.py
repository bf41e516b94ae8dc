"""Declared types of values, corrected to the types that their nodes give after promotion."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import FindingCode, Outcome, Rule
from castsmith.ir.naming import Namer
from castsmith.ir.ops.casts import conversion
from castsmith.ir.ops.value_types import set_element_type
from castsmith.ir.records import Diagnostic, Effect, Records, Rewrite, Severity, Site, ValueItem
from castsmith.ir.text import Types, node_item, site_of, type_text, value_item
from castsmith.numerics.errors import present
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import name_node

OUTPUT_TYPE_FOLLOWS = FindingCode(
    "output-type-follows",
    "The declared type of a model output was changed to that of its value.",
    why="The promotion of operands widened the output.",
    example="the graph output z is declared int64[N] but is float",
    advice="Accept it, or use --keep-output-types, which adds a cast back.",
    outcomes=(Outcome.UNCERTAIN,),
    fix="none",
    silence="If callers take the new type.",
)
WIDEN_JOINED_OUTPUT = Rule(
    "widen-joined-output",
    "An output of a branch or body is cast to the common type of the branches or states.",
    why="Both branches of an If must return the same type.",
    example="then: float, else: double; both are cast to double",
    safety=(Effect.REPAIR,),
)
KEEP_OUTPUT_TYPE = Rule(
    "keep-output-type",
    "A model output is cast back to its declared type, because of --keep-output-types.",
    why="Callers of the model rely on the declared type.",
    example="+ z = Cast <to = int64> (z_float)",
    advice="Without the option the declaration follows the value.",
    safety=(Effect.REPAIR,),
    silence="Leave out --keep-output-types.",
)
DECLARE_TYPES = Rule(
    "declare-types",
    "The declared types of values are corrected to those that their nodes give.",
    why="A declaration of another type makes the model invalid.",
    example="float a  becomes  double a",
    advice="For an output of the model, --keep-output-types casts back to the declared type.",
    safety=(Effect.REPAIR,),
)


NAME = "insert-promote-types"


def follow_types(
    model: onnx_ir.Model,
    inference: Inference,
    namer: Namer,
    records: Records,
    *,
    keep_output_types: bool,
) -> None:
    """Correct the declared types to those that the nodes give."""
    graph = model.graph
    for index, output in enumerate(graph.outputs):
        inferred = inference.types.get(output)
        if inferred is None or output.dtype in (None, inferred):
            continue
        if keep_output_types:
            records.rewrites.append(_keep_declared(graph, index, inferred, namer, inference.types))
        else:
            message = f"the graph output {output.name} is declared {type_text(output)} but is {type_name(inferred)}"
            site = Site(graph.name or "", output.name or "", "output")
            way_out = "`keep_output_types` casts it back to the declared type"
            records.diagnostics.append(Diagnostic(OUTPUT_TYPE_FOLLOWS.code, Severity.WARNING, site, message, way_out))
    ambiguous = {
        value for function, calls in inference.signatures.items() if len(calls) > 1 for value in _values_of(function)
    }
    retyped: dict[str, list[tuple[ValueItem, ValueItem]]] = {}
    for value, dtype in inference.types.items():
        # A shape without a type is not saved, and the promotion rule may need the rank.
        declared, home = value.dtype is not None or value.shape is not None, value.graph
        # What a node gave that was replaced is in no graph any more.
        if home is not None and declared and value.dtype != dtype and value not in ambiguous:
            before = value_item(value)
            set_element_type(value, dtype)
            retyped.setdefault(home.name or "", []).append((before, value_item(value)))
    for name, pairs in retyped.items():
        before, after = zip(*pairs, strict=True)
        reason = "the declared types are corrected to those that the nodes give"
        records.rewrites.append(Rewrite(NAME, DECLARE_TYPES.code, Site(name), before, after, reason, Effect.REPAIR))


def convert_joined_output(
    graph: onnx_ir.Graph,
    index: int,
    dtype: DataType,
    namer: Namer,
    imports: Mapping[str, int],
    types: Types,
) -> Rewrite:
    """Cast an output of a subgraph to the common type of the branches, or of a loop's state."""
    cast = conversion(graph.outputs[index], dtype, imports)
    return _convert_output(graph, index, cast, namer, WIDEN_JOINED_OUTPUT, types)


def _keep_declared(graph: onnx_ir.Graph, index: int, dtype: DataType, namer: Namer, types: Types) -> Rewrite:
    output = graph.outputs[index]
    declared, name = present(output.dtype, "the declared type"), output.name
    set_element_type(output, dtype)
    output.name = namer.fresh(f"{name}_{type_name(dtype)}")
    cast = conversion(output, declared, graph.opset_imports)
    rewrite = _convert_output(graph, index, cast, namer, KEEP_OUTPUT_TYPE, types)
    graph.outputs[index].name = name
    return rewrite


def _convert_output(
    graph: onnx_ir.Graph,
    index: int,
    cast: onnx_ir.Node,
    namer: Namer,
    rule: Rule,
    types: Types,
) -> Rewrite:
    old, new = graph.outputs[index], cast.outputs[0]
    name_node(cast, namer)
    graph.append(cast)
    graph.outputs[index] = new
    kept = rule is KEEP_OUTPUT_TYPE
    must = "the graph output keeps its declared type" if kept else "the joined values must have one type"
    reason = f"{must} {type_name(new.dtype or DataType.UNDEFINED)}"
    before, after = ValueItem(old.name or "", role="return"), node_item(cast, types)
    return Rewrite(NAME, rule.code, site_of(cast), before, after, reason, Effect.REPAIR)


def _values_of(function: onnx_ir.Function) -> set[onnx_ir.Value]:
    inputs = {value for graph in (function.graph, *function.subgraphs()) for value in graph.inputs}
    return inputs | {value for node in function.all_nodes() for value in node.outputs}
