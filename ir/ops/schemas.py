"""Facts about operators, read from the ONNX schemas that the installed onnx registers.

Each is computed once for each operator, opset and number of operands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import onnx.defs
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.contrib import CONTRIB_DOMAIN, contrib_schema
from castsmith.ir.ops.formals import Formal
from castsmith.numerics.errors import present
from castsmith.numerics.types import parse_type

DEFAULT_DOMAINS = ("", "ai.onnx")

OpKey = tuple[str, str, int]
"""Domain, operator and opset: the key under which a schema is registered."""

_ELEMENTS = re.compile(r"(?:(?:seq|optional)\()*tensor\((\w+)\)+")


@dataclass(frozen=True, slots=True)
class TypeGroup:
    """Inputs that one type variable binds, and the element types that it allows."""

    variable: str
    indexes: tuple[int, ...]
    allowed: frozenset[DataType]


@cache
def op_formals(domain: str, op_type: str, opset: int) -> tuple[tuple[Formal, ...], tuple[Formal, ...]] | None:
    """Return the inputs and outputs of the operator at that opset of its domain; None if no schema is known."""
    domain = "" if domain in DEFAULT_DOMAINS else domain
    if domain == CONTRIB_DOMAIN:
        schema = contrib_schema(op_type)
        return None if schema is None else (schema.inputs, schema.outputs)
    if not onnx.defs.has(op_type, opset, domain):
        return None
    schema = onnx.defs.get_schema(op_type, opset, domain)
    variables = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
    option = onnx.defs.OpSchema.FormalParameterOption

    def formal(parameter: onnx.defs.OpSchema.FormalParameter) -> Formal:
        types = variables.get(parameter.type_str, (parameter.type_str,))
        allowed = frozenset(parse_type(match[1]) for text in types if (match := _ELEMENTS.fullmatch(text)))
        fixed = len(types) == 1
        name = f"{parameter.type_str} of {parameter.name}" if fixed else parameter.type_str
        sequence = all(text.startswith("seq(") for text in types)
        tensor = all(text.startswith("tensor(") for text in types)
        how_often = parameter.option == option.Variadic, parameter.option == option.Optional
        return Formal(name, allowed, parameter.is_homogeneous, *how_often, sequence, tensor)

    return tuple(map(formal, schema.inputs)), tuple(map(formal, schema.outputs))


@cache
def since_version(op_type: str, opset: int) -> int | None:
    """Return the opset since which the operator is unchanged at that opset; None if it does not exist."""
    return onnx.defs.get_schema(op_type, opset, "").since_version if onnx.defs.has(op_type, opset, "") else None


def where_defined(op_type: str, opset: int) -> str:
    """Return which opset, or other domain, has an operator that the standard domain has not at this opset."""
    homes = {schema.domain for schema in onnx.defs.get_all_schemas() if schema.name == op_type}
    if contrib_schema(op_type) is not None:
        homes.add(CONTRIB_DOMAIN)
    later = next(_later_schemas(op_type, opset), None)
    if later is not None:
        return f"import opset {later.since_version}, which has it"
    if "" in homes:
        return "it was removed from ONNX: export with the operators that replace it"
    if homes:
        return f"set the domain of the node to {min(homes)}, which has it"
    return "correct its name or its domain, or define it as a function in the model"


def first_opset_with(op_type: str, opset: int, output: int, dtype: DataType) -> int | None:
    """Return the next opset at which the operator of the standard domain gives the type; None if there is none."""
    for schema in _later_schemas(op_type, opset):
        formal = actual_outputs(("", op_type, schema.since_version), output + 1)[output]
        if formal is not None and dtype in formal.allowed:
            return schema.since_version
    return None


def _later_schemas(op_type: str, opset: int) -> Iterator[onnx.defs.OpSchema]:
    """Yield the versions of an operator of the standard domain after the opset, from the first on."""
    for version in range(opset + 1, onnx.defs.onnx_opset_version() + 1):
        if onnx.defs.has(op_type, version, ""):
            schema = onnx.defs.get_schema(op_type, version, "")
            if schema.since_version == version and not schema.deprecated:
                yield schema


def is_function(domain: str, op_type: str, opset: int) -> bool:
    """True if the standard of the opset defines the operator by a function of others."""
    if not onnx.defs.has(op_type, opset, domain):
        return False
    schema = onnx.defs.get_schema(op_type, opset, domain)
    return any(getattr(schema, name) for name in ("has_function", "has_context_dependent_function"))


def opset_of(imports: Mapping[str, int], domain: str) -> int | None:
    """Return the version that `imports` gives for the domain; None if the domain is not imported."""
    if domain in DEFAULT_DOMAINS:
        return imports.get("", imports.get("ai.onnx"))
    return imports.get(domain)


def op_key(node: onnx_ir.Node, imports: Mapping[str, int]) -> OpKey | None:
    """Return the key of the schema of the node's operator; None for an operator without one."""
    opset = opset_of(imports, node.domain)
    if opset is None or op_formals(node.domain, node.op_type, opset) is None:
        return None
    return node.domain, node.op_type, opset


def input_types(node: onnx_ir.Node, index: int, imports: Mapping[str, int]) -> frozenset[DataType]:
    """Return the element types that input `index` of the node may have; empty for an operator without schema."""
    key = op_key(node, imports)
    formals = () if key is None else _formals(key)[0]
    if index >= len(formals) and not (formals and formals[-1].variadic):
        return frozenset()
    return formals[min(index, len(formals) - 1)].allowed


@cache
def type_groups(key: OpKey, present: tuple[bool, ...]) -> tuple[TypeGroup, ...]:
    """Return the type variables of the operator with the inputs that each binds, of those that are `present`.

    A heterogeneous variadic parameter (Loop's state, for example) binds no input.
    """
    opsets: dict[str, list[int]] = {}
    allowed: dict[str, frozenset[DataType]] = {}
    for index, formal in enumerate(_spread(_formals(key)[0], len(present))):
        if present[index] and formal.homogeneous and formal.allowed:
            opsets.setdefault(formal.variable, []).append(index)
            allowed[formal.variable] = formal.allowed
    if key[1] == "SequenceInsert":
        # An element of a sequence has the sequence's element type, which the schema states in words only.
        opsets["S"] += opsets.pop("T")
    return tuple(TypeGroup(variable, tuple(indexes), allowed[variable]) for variable, indexes in opsets.items())


def groups_for(key: OpKey, inputs: Sequence[DataType | None], present: tuple[bool, ...]) -> tuple[TypeGroup, ...]:
    """Return the groups of `type_groups`, and those that the actual types bind.

    A float mask of Attention has the type of the query, which the schema states in words only.
    """
    groups = type_groups(key, present)
    mask = inputs[3] if key[1] == "Attention" and key[0] in DEFAULT_DOMAINS and len(inputs) > 3 else None
    if mask is None or mask not in groups[0].allowed:
        return groups
    first, *others = groups
    others = [group for group in others if group.indexes != (3,)]
    return (TypeGroup(first.variable, tuple(sorted((*first.indexes, 3))), first.allowed), *others)


@cache
def actual_inputs(key: OpKey, count: int) -> tuple[Formal | None, ...]:
    """Return the formal parameter of each of `count` inputs; None beyond those that the operator has."""
    formals = tuple(_spread(_formals(key)[0], count))
    return formals + (None,) * (count - len(formals))


@cache
def actual_outputs(key: OpKey, count: int) -> tuple[Formal | None, ...]:
    """Return the formal parameter of each of `count` outputs; None beyond those that the operator has."""
    formals = tuple(_spread(_formals(key)[1], count))
    return formals + (None,) * (count - len(formals))


def with_formals(node: onnx_ir.Node, key: OpKey) -> list[tuple[onnx_ir.Value | None, Formal | None]]:
    """Return the inputs and outputs of the node, each with its formal parameter."""
    formals = (*actual_inputs(key, len(node.inputs)), *actual_outputs(key, len(node.outputs)))
    return list(zip((*node.inputs, *node.outputs), formals, strict=True))


def _formals(key: OpKey) -> tuple[tuple[Formal, ...], tuple[Formal, ...]]:
    return present(op_formals(*key), "the schema of the operator")


def _spread(formals: Sequence[Formal], count: int) -> Iterator[Formal]:
    """Return the formal parameter of each of `count` actual ones; a variadic parameter covers all that remain."""
    for index in range(count):
        if index < len(formals):
            yield formals[index]
        elif formals and formals[-1].variadic:
            yield formals[-1]
