"""Operators and kernels that a runtime does not register, by what the runtime lists itself.

ONNX Runtime finds an operator by its domain and opset, and then a kernel by the types of all operands and results. An
operator of a domain that it does not know is refused unless the application registers a library that has it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx.defs
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.ops.contrib import CONTRIB_DOMAIN, ContribSchema, contrib_schema
from castsmith.ir.ops.qonnx import is_quantizer
from castsmith.ir.ops.schemas import (
    DEFAULT_DOMAINS,
    Formal,
    OpKey,
    actual_inputs,
    actual_outputs,
    is_function,
    op_formals,
    since_version,
    where_defined,
    with_formals,
)
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.ir.text import site_of
from castsmith.ir.validation import nonconformity, requires_input
from castsmith.ir.walks import nodes_of
from castsmith.lowering.check.attributes import attribute_fault
from castsmith.lowering.check.pairs import TARGET_LACKS_KERNEL
from castsmith.lowering.check.scene import Scene, once, unused_nodes
from castsmith.numerics.types import type_name
from castsmith.targets.registry import Registry, read_registry
from castsmith.targets.target import Target

UNREGISTERED_OPERATOR = FindingCode(
    "unregistered-operator",
    "The target does not have an operator of the model's opset or domain.",
    why="The target refuses to load the model, unless the application registers a library that has the operator.",
    example="onnxruntime-cpu has no operator StringJoin of ai.onnx.contrib",
    advice=(
        "Register the library, in ONNX Runtime by SessionOptions.register_custom_ops_library(path); export the model"
        " without the operator; or define it as a function in the model."
    ),
    outcomes=(Outcome.REFUSED,),
    fix="manual",
    silence="If your application registers the operator.",
)
MALFORMED_OPERATOR = FindingCode(
    "malformed-operator",
    "A node does not fit the runtime's own schema of its operator.",
    why="The target rejects the model.",
    example="com.microsoft.BiasGelu with one input",
    advice="Export the model again, or correct the node.",
    outcomes=(Outcome.REFUSED,),
    fix="manual",
    silence="Never for this target: it refuses the model.",
)
_INTERNAL = ("com.microsoft.nchwc", "com.ms.internal.nhwc")
"""Domains of the operators that ONNX Runtime's optimizer makes."""

Typed = tuple[str, str]
"""The name of a type variable, or of a parameter, and the type that it has."""


def registered_findings(scene: Scene, reported: Collection[Site]) -> Iterator[Diagnostic]:
    """Yield the domains, operators and kernels that the target does not list; nothing if it lists none.

    reported: Places of which something else is already reported.
    """
    target = scene.target
    if not target.registry:
        yield from _unconverted(scene)
        return
    yield from _bodies_at_other_opsets(scene)
    registry, implied = read_registry(target.registry), {"": target.newest_opset, **target.opsets}
    bodies = {function.graph for function in scene.model.functions.values()}
    for domain, version in scene.model.opset_imports.items():
        newest = target.opsets.get(domain, version)
        if version > newest:
            message = f"the model is of version {version} of {domain} and {target} accepts at most {newest}"
            way_out = f"import version {newest} of {domain}"
            yield Diagnostic(UNREGISTERED_OPERATOR.code, Severity.ERROR, scene.site, message, way_out, domain)
    for node in scene.nodes:
        # A Constant of the main graph becomes a weight, whatever its domain is.
        is_constant = node.op_type == "Constant"
        if node.domain in _INTERNAL or (is_constant and node.graph is scene.model.graph) or site_of(node) in reported:
            continue
        domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
        if (function := scene.model.functions.get(node.op_identifier())) is not None:
            if domain and scene.opset(node, domain) is None:
                yield _unregistered(node, None, target)
            if missing := _missing_argument(node, function):
                message = f"{target} does not load this call of {node.op_type}: it lacks the input {missing}"
                yield Diagnostic(MALFORMED_OPERATOR.code, Severity.ERROR, site_of(node), message, "pass the input")
            continue
        opset = scene.opset(node, domain) or implied.get(domain)
        since = None if opset is None else _since(domain, node.op_type, opset, registry)
        if since is None or opset is None:
            if not is_quantizer(node):  # which has a finding of its own
                yield _unregistered(node, opset, target)
        elif (fault := _fault(node, domain, opset, scene)) and not (is_constant and node.graph in bodies):
            yield _malformed(node, domain, fault, target)
        elif not is_constant and not _has_kernel(node, since, opset, scene, registry):
            types = dict.fromkeys(_name(scene.type_of(value)) for value in (*node.inputs, *node.outputs) if value)
            message = f"{target} has no kernel for {node.op_type} of {', '.join(types)} at opset {opset}"
            way_out = "choose types that it has a kernel for, or keep the node out of the model"
            yield once(TARGET_LACKS_KERNEL, Severity.ERROR, node, message, way_out)


def _malformed(node: onnx_ir.Node, domain: str, fault: str, target: Target) -> Diagnostic:
    message = f"{target} does not load {node.op_type}{domain and f' of {domain}'}: {fault}"
    way_out = "correct the node, or export the model again"
    return Diagnostic(MALFORMED_OPERATOR.code, Severity.ERROR, site_of(node), message, way_out)


def _bodies_at_other_opsets(scene: Scene) -> Iterator[Diagnostic]:
    """Yield nodes of functions that do not fit the operators of the model's opsets, by which the target reads them."""
    model, target = scene.model, scene.target
    for function in model.functions.values() if target.has_hazard("bodies-of-model-opset") else ():
        imports = {**function.opset_imports, **model.opset_imports}
        for node in function.all_nodes() if imports != {**function.opset_imports} else ():
            if (fault := nonconformity(node, imports, model.functions)) is not None:
                message = f"{target} reads {function.name} at the opsets of the model: {fault}"
                way_out = "import the same opsets in the function and the model"
                yield Diagnostic(MALFORMED_OPERATOR.code, Severity.ERROR, site_of(node), message, way_out)


def _unconverted(scene: Scene) -> Iterator[Diagnostic]:
    """Yield the operators that are not among those which the target has, if these are known."""
    target, functions = scene.target, scene.model.functions
    if not target.operators:
        return
    calls_fail, counts = "functions-unconverted" in target.hazards, "surplus-operands-unchecked" not in target.hazards
    nodes = list(nodes_of(scene.model.graph)) if calls_fail else scene.nodes
    unused = unused_nodes(scene.model) if "unused-nodes-unread" in target.hazards else ()
    for node in sorted(nodes, key=unused.__contains__):  # the first one is reported
        domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
        has, is_call = node.op_type in target.operators.get(domain, ()), node.op_identifier() in functions
        if is_call and not has and calls_fail:
            message = f"{target} does not load calls of functions of the model, as of {node.op_type}"
            yield once(UNREGISTERED_OPERATOR, Severity.ERROR, node, message, f"{scene.lowering} inlines them")
        if is_call or is_quantizer(node):
            continue
        if not has:
            message = f"{target} has no operator {node.op_type}{domain and f' of {domain}'}"
            way_out = f"register an extension that has it: `{target.extension}`"
            yield once(UNREGISTERED_OPERATOR, Severity.ERROR, node, message, way_out)
            continue
        schema = contrib_schema(node.op_type) if domain == CONTRIB_DOMAIN else None
        key = (domain, node.op_type, scene.opset(node, domain) or target.newest_opset)
        fault = (
            attribute_fault(node, target) or _gap(node, key, first=False)
            if schema is None
            else (_wrong_count(node, schema, surplus=counts))
        )
        if fault:
            yield _malformed(node, domain, fault, target)


_REMOVED = ("Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh")
"""Experimental operators that onnx has no schemas of. ONNX Runtime has its own, which end ahead of an opset."""
_REMOVED_AT = 10


def _since(domain: str, op_type: str, opset: int, registry: Registry) -> int | None:
    """Return the opset since which the operator is as it is; None if the runtime does not have it."""
    if domain == CONTRIB_DOMAIN:
        return 1 if contrib_schema(op_type) is not None or op_type in registry[domain] else None
    if domain not in registry or (not domain and op_type in _REMOVED and opset >= _REMOVED_AT):
        return None
    if onnx.defs.has(op_type, opset, domain):
        schema = onnx.defs.get_schema(op_type, opset, domain)
        return None if schema.deprecated else schema.since_version
    rows = [row for row in registry[domain].get(op_type, ()) if row.first <= opset <= (row.last or opset)]
    return max((row.first for row in rows), default=None)


def _unregistered(node: onnx_ir.Node, opset: int | None, target: Target) -> Diagnostic:
    if node.domain in DEFAULT_DOMAINS:
        message = f"{target} has no operator {node.op_type} at opset {opset}"
        way_out = where_defined(node.op_type, opset or 1)
    elif opset is None:
        message = f"{target} does not load {node.op_type}: the model does not import its domain {node.domain}"
        way_out = f"import it, and register the library that has it: `{target.extension}`"
    else:
        message = f"{target} has no operator {node.op_type} of {node.domain}: it needs a custom operator library"
        way_out = f"register the library that has it: `{target.extension}`"
    return Diagnostic(UNREGISTERED_OPERATOR.code, Severity.ERROR, site_of(node), message, way_out, node.op_type)


def _missing_argument(node: onnx_ir.Node, function: onnx_ir.Function) -> str:
    """Return the name of an input that the call leaves out and a node of the function requires, or nothing."""
    for index, value in enumerate(function.inputs):
        if (index >= len(node.inputs) or node.inputs[index] is None) and any(
            requires_input(use.node, use.idx, function.opset_imports) for use in value.uses()
        ):
            return value.name or f"{index}"
    return ""


# Nodes that do not fit their schema: inputs, outputs and attributes of operators of com.microsoft, of which onnx has no
# schemas; of others the attributes that the operator does not have, which are read without an effect.


def _fault(node: onnx_ir.Node, domain: str, opset: int, scene: Scene) -> str | None:
    if domain != CONTRIB_DOMAIN:
        return (
            _unknown_attribute(node, domain, opset)
            or _gap(node, (domain, node.op_type, opset), first=True)
            or attribute_fault(node, scene.target)
        )
    schema = contrib_schema(node.op_type)
    return None if schema is None else _misfit(node, schema) or _ill_typed(node, scene)


_OWN_SCHEMAS = ("LayerNormalization",)
"""Standard operators that ONNX Runtime has its own schemas of, with any attributes."""


def _unknown_attribute(node: onnx_ir.Node, domain: str, opset: int) -> str | None:
    if not node.attributes or node.op_type in _OWN_SCHEMAS or not onnx.defs.has(node.op_type, opset, domain):
        return None
    declared = onnx.defs.get_schema(node.op_type, opset, domain).attributes
    unknown = (name for name in node.attributes if name not in declared and not name.startswith("__"))
    return next((f"it has no attribute {name}" for name in unknown), None)


def _gap(node: onnx_ir.Node, key: OpKey, *, first: bool) -> str | None:
    """Return which operand of a list is left out. first: Look at the first operand of the node alone."""
    if None not in node.inputs or op_formals(*key) is None:
        return None
    pairs = enumerate(zip(node.inputs, actual_inputs(key, len(node.inputs)), strict=True))
    gaps = [index for index, (value, formal) in pairs if value is None and formal is not None and formal.variadic]
    return f"it lacks the input {gaps[0]}" if gaps and not (first and gaps[0]) else None


def _misfit(node: onnx_ir.Node, schema: ContribSchema) -> str | None:
    """Return how the inputs, outputs or attributes violate the schema."""
    if wrong := _wrong_count(node, schema):
        return wrong
    for name in schema.attributes:
        if name not in node.attributes:
            return f"it lacks the required attribute {name}"
    for attribute in node.attributes.values():
        expected = schema.attributes.get(attribute.name) or schema.optional.get(attribute.name)
        if expected is None and not attribute.name.startswith("__"):
            return f"it has no attribute {attribute.name}"
        if expected is not None and attribute.type.name != expected:
            return f"its attribute {attribute.name} is {attribute.type.name}, expected {expected}"
    return None


def _wrong_count(node: onnx_ir.Node, schema: ContribSchema, *, surplus: bool = True) -> str | None:
    """Return which inputs or outputs are missing, or with `surplus` too many."""
    for what, values, formals in (("input", node.inputs, schema.inputs), ("output", node.outputs, schema.outputs)):
        needed = (at + 1 for at, formal in enumerate(formals) if not formal.optional and not formal.variadic)
        least = max(needed, default=0)
        if len(values) < least or (surplus and len(values) > len(formals) and not formals[-1].variadic):
            return f"it has {len(values)} {what}s, expected {least} to {len(formals)}"
    for index, formal in enumerate(schema.inputs[: len(node.inputs)]):
        if node.inputs[index] is None and not formal.optional and not formal.variadic:
            return f"it lacks the required input {index}"
    return None


def _ill_typed(node: onnx_ir.Node, scene: Scene) -> str | None:
    """Return how the types of the operands violate the schema."""
    formals, bound = op_formals(CONTRIB_DOMAIN, node.op_type, 1), dict[str, DataType]()
    if formals is None:
        return None
    key = (CONTRIB_DOMAIN, node.op_type, 1)
    for value, formal in zip(node.inputs, actual_inputs(key, len(node.inputs)), strict=True):
        dtype = scene.type_of(value)
        if dtype is None or formal is None or not formal.allowed:
            continue
        if dtype not in formal.allowed:
            return f"it does not support {_name(dtype)} as {value.name if value else 'an operand'}"
        if formal.homogeneous and bound.setdefault(formal.variable, dtype) != dtype:
            return f"it needs operands of one type, but has {_name(bound[formal.variable])} and {_name(dtype)}"
    for value, formal in zip(node.outputs, actual_outputs(key, len(node.outputs)), strict=True):
        dtype = None if formal is None or not formal.homogeneous else bound.get(formal.variable)
        if dtype is not None and value.is_graph_output() and value.dtype not in (None, dtype):
            return f"its result {value.name} is declared {_name(value.dtype)} but is {_name(dtype)}"
    return None


# Kernels.


_LISTS_MORE = ("ConstantOfShape", "GRU", "LSTM")
"""Operators whose kernel refuses some of the types that ONNX Runtime lists for it: GRU and LSTM when they run."""


def lists_kernel(node: onnx_ir.Node, opset: int, scene: Scene) -> bool:
    """True if the runtime itself lists a kernel of the standard's operator for these types; False if it lists none."""
    registry = scene.target.registry
    since = since_version(node.op_type, opset) if registry and node.op_type not in _LISTS_MORE else None
    if since is None or None in (scene.type_of(value) for value in (*node.inputs, *node.outputs) if value):
        return False
    types = list(_types(node, opset, scene))
    return any(row.is_for(since) and row.takes(types) for row in read_registry(registry)[""].get(node.op_type, ()))


def _has_kernel(node: onnx_ir.Node, since: int, opset: int, scene: Scene, registry: Registry) -> bool:
    """True if the runtime lists a kernel for the types, or expands the operator as a function.

    Operands of float16 without a kernel are cast to float by ONNX Runtime.
    """
    domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
    if f"{domain}.{node.op_type}" in scene.target.probed or is_function(domain, node.op_type, opset):
        return True
    rows = [row for row in registry[domain].get(node.op_type, ()) if row.is_for(since)]
    types = list(_types(node, opset, scene))
    cast = [(variable, "float" if dtype == "float16" else dtype) for variable, dtype in types]
    return any(row.takes(types) or row.takes(cast) for row in rows)


def _types(node: onnx_ir.Node, opset: int, scene: Scene) -> Iterator[Typed]:
    """Yield the types of operands and results, by the names with which a kernel may constrain them."""
    key = (node.domain, node.op_type, opset)
    for value, formal in with_formals(node, key) if op_formals(*key) is not None else ():
        dtype = scene.type_of(value)
        if value is not None and dtype is not None and formal is not None:
            # A kernel may name its type variable, or the parameter itself.
            yield from ((name, _text(value, dtype, formal)) for name in formal.variable.split(" of "))


def _text(value: onnx_ir.Value, dtype: DataType, formal: Formal) -> str:
    name = type_name(dtype)
    if formal.sequence or isinstance(value.type, onnx_ir.SequenceType):
        return f"seq(tensor({name}))"
    return f"optional(tensor({name}))" if isinstance(value.type, onnx_ir.OptionalType) else name


def _name(dtype: DataType | None) -> str:
    return "?" if dtype is None else type_name(dtype)
