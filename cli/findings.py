"""What `check` looks for in a model. It asks inference and the passes, and changes nothing that it is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import onnx_ir

from castsmith.cli.findings_target import target_findings
from castsmith.cli.outcome import with_command_options
from castsmith.ir.constants import constant_tensor
from castsmith.ir.errors import ModelError
from castsmith.ir.inference import Disagreement, Inference, infer_element_types
from castsmith.ir.qonnx import is_trunc, read_trunc
from castsmith.ir.records import Diagnostic, Refusal, Severity, Site
from castsmith.ir.rewriting import all_nodes
from castsmith.ir.scopes import imports_by_scope
from castsmith.ir.text import site_of
from castsmith.lowering.targets import Target
from castsmith.numerics.errors import CastsmithError, PromotionError
from castsmith.numerics.promotion import PromotionRules, common_type
from castsmith.numerics.types import type_name
from castsmith.passes.fold_constants import FoldConstants

_ANY_SIZE = 2**62
_OPTION_HINT = " (`promote_unsafe` allows it)"


def findings(model: onnx_ir.Model, rules: PromotionRules, target: Target | None) -> Iterator[Diagnostic]:
    """Everything found in the model, by kind and then in the order of the graph."""
    try:
        # Past a promotion that the rules refuse, types are followed as if it were allowed: one cause, one finding.
        inference = infer_element_types(model, replace(rules, promote_unsafe=True))
    except PromotionError as error:  # string or complex where branches or states join: no one node is at fault
        text = with_command_options(str(error).rstrip("."))
        yield Diagnostic("mixed-operand-types", Severity.ERROR, Site(model.graph.name or ""), text)
        inference = None
    if inference is not None:
        yield from _operand_findings(model, inference, rules)
        yield from _declared_findings(model, inference)
    yield from _constant_findings(model)
    yield from _trunc_findings(model)
    if target is not None:
        yield from target_findings(model, inference, target)


def _operand_findings(model: onnx_ir.Model, inference: Inference, rules: PromotionRules) -> Iterator[Diagnostic]:
    for node in all_nodes(model):
        for disagreement in inference.disagreements.get(node, ()):
            yield _mixed(disagreement, rules)
    for (node, index), dtype in inference.conversions.items():
        value = node.inputs[index]
        message = (
            f"the state {value.name if value else index} is widened by the body and has to enter as {_name(dtype)}"
        )
        yield Diagnostic("mixed-operand-types", Severity.ERROR, site_of(node), message, "optimize casts it")
    for (graph, index), dtype in inference.output_conversions.items():
        message = f"the output {graph.outputs[index].name} has to leave as {_name(dtype)}, as what it meets elsewhere"
        yield Diagnostic("mixed-operand-types", Severity.ERROR, Site(graph.name or ""), message, "optimize casts it")


def _mixed(disagreement: Disagreement, rules: PromotionRules) -> Diagnostic:
    node = disagreement.node
    pairs = zip(disagreement.indexes, disagreement.types, strict=True)
    operands = " and ".join(f"{value.name if (value := node.inputs[i]) else i} ({_name(dtype)})" for i, dtype in pairs)
    asked = "is declared to give their common type" if disagreement.as_declared else "needs operands of one type"
    message = f"{node.op_type} {asked}, but has {operands}"
    return Diagnostic("mixed-operand-types", Severity.ERROR, site_of(node), message, _way_out(disagreement, rules))


def _way_out(disagreement: Disagreement, rules: PromotionRules) -> str:
    if disagreement.common is None:
        reason = disagreement.error or "their ranks are unknown, and the rule needs to know which are scalars"
        return with_command_options(str(reason).rstrip("."))
    makes = f"makes them {_name(disagreement.common)}"
    operands = [
        (dtype, _rank(disagreement.node.inputs[index]))
        for index, dtype in zip(disagreement.indexes, disagreement.types, strict=True)
    ]
    try:
        common_type(operands, rules)
    except PromotionError as error:
        return f"optimize --promote-unsafe {makes}; {str(error).rstrip('.').removesuffix(_OPTION_HINT)}"
    return f"optimize {makes}"


def _declared_findings(model: onnx_ir.Model, inference: Inference) -> Iterator[Diagnostic]:
    """Types that the model declares and its nodes do not give; a function called with several types declares none."""
    several = {function for function, calls in inference.signatures.items() if len(calls) > 1}
    for scope in (model.graph, *(f for f in model.functions.values() if f not in several)):
        for node in scope.all_nodes():
            for value in node.outputs:
                found = inference.types.get(value)
                if found is None or value.dtype in (None, onnx_ir.DataType.UNDEFINED, found):
                    continue
                what, code = "value", "value-type-mismatch"
                if value.is_graph_output():
                    what, code = "output", "output-type-mismatch"
                message = f"the {what} {value.name} is declared {_name(value.dtype)} but is {_name(found)}"
                yield Diagnostic(code, Severity.ERROR, site_of(node), message, "optimize corrects what is declared")


def _constant_findings(model: onnx_ir.Model) -> Iterator[Diagnostic]:
    """Casts of constants that the standard does not fix: refusals which folding disputed ones lifts are disputed."""
    try:
        refused = _fold_refusals(model, disputed=False)
        undefined = Counter(_fold_refusals(model, disputed=True))
    except ModelError:
        return  # a Trunc that cannot be read, which is a finding of its own
    except CastsmithError as error:
        yield Diagnostic("constant-malformed", Severity.ERROR, Site(model.graph.name or ""), str(error).rstrip("."))
        return
    for refusal in refused:
        kind = "undefined" if undefined[refusal] else "disputed"
        undefined[refusal] -= 1
        message = f"what this cast gives is {kind}: {refusal.reason}"
        way_out = {"undefined": "change the constant", "disputed": "--fold-disputed takes the schema's own table"}[kind]
        yield Diagnostic(f"{kind}-constant-cast", Severity.WARNING, refusal.site, message, way_out)


def _fold_refusals(model: onnx_ir.Model, *, disputed: bool) -> list[Refusal]:
    records = FoldConstants(max_growth=_ANY_SIZE, fold_disputed=disputed).call(model.clone()).records
    sites = Counter((diagnostic.site, diagnostic.code) for diagnostic in records.diagnostics)
    return [refusal for refusal in records.refusals if sites[refusal.site, "undefined-constant-cast"]]


def _trunc_findings(model: onnx_ir.Model) -> Iterator[Diagnostic]:
    imports = imports_by_scope(model)
    for node in all_nodes(model):
        if not is_trunc(node) or node.graph is None:
            continue
        try:
            meaning = read_trunc(node, imports[node.graph])
        except ModelError as error:
            text = str(error).removeprefix(f"{site_of(node)}: ").rstrip(".")
            yield Diagnostic("trunc-malformed", Severity.ERROR, site_of(node), text)
            continue
        if meaning.guessed:
            message = f"{node.domain} is not imported, so Trunc is taken for version {meaning.version} by its inputs"
            yield Diagnostic("trunc-version-guessed", Severity.WARNING, site_of(node), message, "import the domain")


def _name(dtype: onnx_ir.DataType | None) -> str:
    return "?" if dtype is None else type_name(dtype)


def _rank(value: onnx_ir.Value | None) -> int | None:
    tensor = constant_tensor(value)
    if tensor is not None:
        return tensor.shape.rank()
    return None if value is None or value.shape is None else value.shape.rank()
