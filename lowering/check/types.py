"""Wrong types: operands that disagree, types that an operator does not support, declarations that are false."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx_ir

from castsmith.analysis.inference.disagreement import Disagreement, rank_of
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.ops.qonnx import QONNX_DOMAINS, is_trunc
from castsmith.ir.ops.schemas import (
    DEFAULT_DOMAINS,
    actual_outputs,
    first_opset_with,
    op_formals,
    op_key,
    opset_of,
    where_defined,
)
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.ir.text import operands_text, site_of
from castsmith.ir.walks import Scope, all_nodes, graph_of, imports_by_scope
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.common import common_type
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import type_name
from castsmith.passes.promote.operands import TYPE_NOT_ALLOWED

# Nodes of undefined operators: their results are unknown, and runtimes refuse the model.


MIXED_OPERAND_TYPES = FindingCode(
    "mixed-operand-types",
    "The operands of a node have different types, and ONNX requires one.",
    why="ONNX's checker accepts the model by default. Every runtime rejects it.",
    example="z = Add (x, y)  # (float[N], int64[N]) -> float[N]",
    advice=(
        "Run optimize. If the common type cannot hold every value, pass --promote-unsafe or name a "
        "library's rules with --promotion."
    ),
    outcomes=(Outcome.REFUSED,),
    fix="promoted",
    silence="Never: no runtime loads the model.",
)
UNKNOWN_OPERATOR = FindingCode(
    "unknown-operator",
    "The model's opset does not have this operator, or the model does not import its domain.",
    why=(
        "Its result types are unknown, and runtimes reject the model. ONNX Runtime saves some of its own "
        "operators in the standard domain; other runtimes do not support them."
    ),
    example="y = Gelu (x)  # at opset 19; Gelu needs opset 20",
    advice=(
        "Import the opset that has the operator, or set the node's domain to the one that defines it and import that."
    ),
    outcomes=(Outcome.REFUSED, Outcome.UNCERTAIN, Outcome.NEITHER),
    fix="manual",
    silence="If your runtime registers it as a custom operator.",
)
VALUE_TYPE_MISMATCH = FindingCode(
    "value-type-mismatch",
    "An intermediate value is declared with the wrong type.",
    why="Some runtimes trust the declaration and read the wrong bits. Others reject the model.",
    example="float[N] a declared; a = Cast <to = int32> (x)",
    advice="Run optimize, which corrects the declaration.",
    outcomes=(Outcome.REFUSED, Outcome.OTHERWISE),
    fix="automatic",
    silence="Never: the correction costs nothing.",
)
OUTPUT_TYPE_MISMATCH = FindingCode(
    "output-type-mismatch",
    "A model output is declared with the wrong type.",
    why="Callers of the model rely on the declared type.",
    example="(int32[N] y) declared; y = Add (x, x)  # float[N]",
    advice=("Run optimize, which corrects the declaration. With --keep-output-types it casts the value instead."),
    outcomes=(Outcome.REFUSED,),
    fix="automatic",
    silence="If no caller reads the declared type.",
)


def operator_findings(model: onnx_ir.Model, *, targeted: bool) -> Iterator[Diagnostic]:
    """Yield standard operators that the opset lacks, and domains that are unknown or not imported.

    targeted: There is a target, which has a say about the operators of other domains.
    """
    imports, severity = imports_by_scope(model), Severity.WARNING if targeted else Severity.ERROR
    unknown = dict[str, list[onnx_ir.Node]]()
    for node in all_nodes(model):
        opset = opset_of(imports[graph_of(node)], node.domain)
        if node.op_identifier() in model.functions or is_trunc(node):
            continue  # the version of a Trunc may be guessed, which is a separate finding
        is_standard = node.domain in DEFAULT_DOMAINS
        if opset is None and not is_standard:
            message, way_out = f"the domain {node.domain} of {node.op_type} is not imported", "import it"
        elif node.domain in QONNX_DOMAINS or op_formals(node.domain, node.op_type, opset or 0) is not None:
            continue
        elif is_standard:
            message = f"opset {opset or 0} of ONNX has no operator {node.op_type}"
            way_out = where_defined(node.op_type, opset or 0)
        else:
            unknown.setdefault(node.domain, []).append(node)
            continue
        yield Diagnostic(UNKNOWN_OPERATOR.code, severity, site_of(node), message, way_out)
    for domain, nodes in () if targeted else unknown.items():
        more = "" if len(nodes) == 1 else f", in {len(nodes)} nodes; this is the first"
        message = f"the operators of the domain {domain} are not checked{more}"
        way_out = "name the runtime: `check(target=...)` says whether it has them"
        yield Diagnostic(UNKNOWN_OPERATOR.code, Severity.NOTE, site_of(nodes[0]), message, way_out, domain)


_OPTION_HINT = " (`promote_unsafe` allows it)"
UNSAFE = "`optimize(promote_unsafe=True)`"


def operand_findings(model: onnx_ir.Model, inference: Inference, rules: PromotionRules) -> Iterator[Diagnostic]:
    """Yield operands of several types, and operands of a type that the operator does not support."""
    torch = PromotionRules.preset(TORCH) if rules == PromotionRules() and _of_pytorch(model) else None
    for node in all_nodes(model):
        for disagreement in inference.disagreements.get(node, ()):
            yield _mixed(disagreement, rules, torch)
        for disagreement in inference.illegal.get(node, ()):
            yield _not_taken(disagreement)
    for (node, index), dtype in inference.conversions.items():
        value = node.inputs[index]
        state = value.name if value else index
        message = f"the state {state} is widened by the body, so its initial value must be cast to {type_name(dtype)}"
        yield Diagnostic(MIXED_OPERAND_TYPES.code, Severity.ERROR, site_of(node), message, "optimize casts it")
    for (graph, index), dtype in inference.output_conversions.items():
        name = graph.outputs[index].name
        message = f"the output {name} must be cast to {type_name(dtype)}, which the node around it needs"
        site, subject = Site(graph.name or ""), f"output {name}"
        yield Diagnostic(MIXED_OPERAND_TYPES.code, Severity.ERROR, site, message, "optimize casts it", subject)


def undecided_findings(inference: Inference, rules: PromotionRules) -> Iterator[Diagnostic]:
    """Yield operands of several types that have no common type until their ranks are known."""
    for disagreements in inference.disagreements.values():
        for disagreement in disagreements:
            if disagreement.common is None and disagreement.error is None:
                yield _mixed(disagreement, rules, None)


def result_findings(
    nodes: Iterable[onnx_ir.Node], imports: Mapping[Scope, Mapping[str, int]], inference: Inference
) -> Iterator[Diagnostic]:
    """Yield types that the attributes of an operator request and the opset of the model does not support.

    Args:
        nodes: All nodes of the model.
        imports: The opset imports of each graph.
    """
    types, sound = inference.types, set[tuple[object, ...]]()
    for node in nodes:
        # Most nodes are repetitions of others that are sound.
        kind = (node.domain, node.op_type, node.graph, *map(types.get, node.outputs))
        if kind in sound:
            continue
        key = op_key(node, imports[graph_of(node)])
        if key is None or node in inference.illegal or node in inference.disagreements:
            continue
        sound.add(kind)
        for index, (value, formal) in enumerate(zip(node.outputs, actual_outputs(key, len(node.outputs)), strict=True)):
            dtype = inference.types.get(value)
            if dtype is not None and formal is not None and formal.allowed and dtype not in formal.allowed:
                sound.discard(kind)
                where = f"opset {key[2]}" if key[0] in DEFAULT_DOMAINS else f"version {key[2]} of {key[0]}"
                message = f"{node.op_type} of {where} does not support {type_name(dtype)}, the type of {value.name}"
                first = first_opset_with(key[1], key[2], index, dtype) if key[0] in DEFAULT_DOMAINS else None
                way_out = "choose another type in the model" if first is None else f"raise the opset to {first}"
                yield Diagnostic(TYPE_NOT_ALLOWED.code, Severity.ERROR, site_of(node), message, way_out)


def declared_findings(model: onnx_ir.Model, inference: Inference) -> Iterator[Diagnostic]:
    """Yield declared types that differ from those of the nodes; a function called with several types declares none."""
    several = {function for function, calls in inference.signatures.items() if len(calls) > 1}
    for scope in (model.graph, *(f for f in model.functions.values() if f not in several)):
        for node in scope.all_nodes():
            for value in node.outputs:
                dtype = inference.types.get(value)
                if dtype is None or value.dtype in (None, onnx_ir.DataType.UNDEFINED, dtype):
                    continue
                what, code = "value", VALUE_TYPE_MISMATCH.code
                if value.is_graph_output():
                    what, code = "output", OUTPUT_TYPE_MISMATCH.code
                message = f"the {what} {value.name} is declared {type_name(value.dtype)} but is {type_name(dtype)}"
                yield Diagnostic(code, Severity.ERROR, site_of(node), message, "optimize corrects the declaration")


TORCH = "torch"


def _of_pytorch(model: onnx_ir.Model) -> bool:
    """True if PyTorch exported the model: its own rules are those that the model was made with."""
    return (model.producer_name or "").lower() in ("pytorch", "torch")


def _mixed(disagreement: Disagreement, rules: PromotionRules, torch: PromotionRules | None) -> Diagnostic:
    node = disagreement.node
    pairs = zip(disagreement.indexes, disagreement.types, strict=True)
    operands = " and ".join(
        f"{value.name if (value := node.inputs[i]) else i} ({type_name(dtype)})" for i, dtype in pairs
    )
    requirement = "is declared with their common type" if disagreement.as_declared else "needs operands of one type"
    message = f"{node.op_type} {requirement}, but has {operands}"
    return Diagnostic(
        MIXED_OPERAND_TYPES.code, Severity.ERROR, site_of(node), message, _way_out(disagreement, rules, torch)
    )


def _not_taken(disagreement: Disagreement) -> Diagnostic:
    """Return the finding for an unsupported type, which optimize widens if there is a type to widen it to."""
    node, site = disagreement.node, site_of(disagreement.node)
    # A value that an operator with subgraphs passes on is not always one of its own inputs.
    value = node.inputs[disagreement.indexes[0]] if disagreement.indexes else None
    operand = operands_text([(value, disagreement.types[0])])
    if disagreement.common is None:
        message = f"{operand}: {str(disagreement.error).rstrip('.')}"
        return Diagnostic(TYPE_NOT_ALLOWED.code, Severity.ERROR, site, message, "cast the operand in the model")
    as_what = (
        f"makes it {disagreement.pairwise}"
        if disagreement.pairwise
        else f"computes it in {type_name(disagreement.common)}"
    )
    message = f"{node.op_type} does not support {operand} at this opset"
    return Diagnostic(TYPE_NOT_ALLOWED.code, Severity.ERROR, site, message, f"optimize {as_what}")


def _way_out(disagreement: Disagreement, rules: PromotionRules, torch: PromotionRules | None) -> str:
    """Return the fix: by the rules, or by those of PyTorch where `torch` gives them and they allow it."""
    if torch is not None and _allows(torch, disagreement):
        return f"`optimize(promotion={TORCH!r})` promotes them as PyTorch does"
    if disagreement.common is None:
        reason = (
            disagreement.error
            or "their ranks are unknown, and the result depends on which of them are scalars: declare their shapes"
        )
        return str(reason).rstrip(".")
    makes = f"makes them {type_name(disagreement.common)}"
    try:
        common_type(_operands(disagreement), rules)
    except PromotionError as error:
        return f"{UNSAFE} {makes}; {str(error).rstrip('.').removesuffix(_OPTION_HINT)}"
    return f"optimize {makes}"


def _allows(rules: PromotionRules, disagreement: Disagreement) -> bool:
    try:
        return common_type(_operands(disagreement), rules) is not None
    except PromotionError:
        return False


def _operands(disagreement: Disagreement) -> list[tuple[onnx_ir.DataType, int | None]]:
    pairs = zip(disagreement.indexes, disagreement.types, strict=True)
    return [(dtype, rank_of(disagreement.node.inputs[index], {})) for index, dtype in pairs]
