"""Every operator of every registered domain, at every version that opset 7 or later can mean, called with mixed types.

For each type variable that binds two or more inputs the operator is called with two types. What comes out must pass the
full check with every operand of an allowed type, or the call must be refused with a reason. Nothing is listed by hand
but the attributes and inputs that some operators cannot be checked without.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import onnx
import onnx.defs
import onnx.helper
import onnx.shape_inference
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.records import Severity
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.types import parse_type
from castsmith.passes.promote.insert import InsertPromoteTypes
from castsmith.passes.promote.resolve import ResolvePromoteTypes
from tests.sampling import sampled

OLDEST = 7
PAIRS = ("float int64", "float16 double", "int8 uint8", "bool int32", "int64 int32", "bfloat16 float16", "uint64 int8")
BY_TYPE: dict[Any, Any] = {
    onnx.defs.OpSchema.AttrType.INT: 1,
    onnx.defs.OpSchema.AttrType.INTS: [1],
    onnx.defs.OpSchema.AttrType.FLOAT: 1.0,
    onnx.defs.OpSchema.AttrType.FLOATS: [1.0],
    onnx.defs.OpSchema.AttrType.STRING: "none",
    onnx.defs.OpSchema.AttrType.STRINGS: ["none"],
}
ATTRIBUTES: dict[str, dict[str, Any]] = {"Einsum": {"equation": "i,i->i"}}
SINGLE_TYPES = [
    "bool",
    "int8",
    "uint8",
    "uint16",
    "int32",
    "int64",
    "uint64",
    "float16",
    "bfloat16",
    "double",
    "float8e4m3fn",
]
NOTHING_HOLDS_TWO = {"And", "Or", "Xor", "StringConcat", "ConvInteger", "MatMulInteger", "QLinearConv"}
SUBGRAPHS = {"If", "Loop", "Scan", "SequenceMap"}


def schemas() -> dict[tuple[str, str], list[onnx.defs.OpSchema]]:
    """The schemas that some opset from `OLDEST` on means, by domain and name, with inputs that share a variable."""
    found: dict[tuple[str, str], list[onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        at = max(schema.since_version, OLDEST) if not schema.domain else schema.since_version
        reachable = onnx.defs.get_schema(schema.name, at, schema.domain).since_version == schema.since_version
        if reachable and not schema.deprecated and shared(schema) and schema.name not in SUBGRAPHS:
            found.setdefault((schema.domain, schema.name), []).append(schema)
    return found


def formals(schema: onnx.defs.OpSchema) -> list[onnx.defs.OpSchema.FormalParameter]:
    """The formal parameter of each input of a call with all inputs, and two where there can be any number."""
    inputs = list(schema.inputs)
    if inputs and inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic:
        inputs.append(inputs[-1])
    return inputs


def shared(schema: onnx.defs.OpSchema) -> list[str]:
    """The type variables that bind two or more inputs."""
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    names = [formal.type_str for formal in formals(schema) if formal.is_homogeneous and formal.type_str in variables]
    return sorted({name for name in names if names.count(name) > 1})


def allowed(schema: onnx.defs.OpSchema, type_str: str) -> list[str]:
    constraints = {c.type_param_str: list(c.allowed_type_strs) for c in schema.type_constraints}
    return constraints.get(type_str, [type_str])


def value_info(name: str, type_str: str) -> onnx.ValueInfoProto:
    dtype = int(parse_type(re.sub(r".*tensor\((\w+)\).*", r"\1", type_str)))
    made = onnx.helper.make_tensor_type_proto(dtype, None)
    for wrapper in reversed(type_str.split("tensor")[0].split("(")[:-1]):
        make = onnx.helper.make_sequence_type_proto if wrapper == "seq" else onnx.helper.make_optional_type_proto
        made = make(made)
    return onnx.helper.make_value_info(name, made)


def call(schema: onnx.defs.OpSchema, mixed: dict[int, str]) -> onnx.ModelProto:
    """A model of one call, where the inputs `mixed` have the types given and all others one that is allowed."""
    inputs: list[onnx.ValueInfoProto] = []
    for index, formal in enumerate(formals(schema)):
        types = allowed(schema, formal.type_str)
        usual = "tensor(float)" if "tensor(float)" in types else types[0]
        inputs.append(value_info(f"i{index}", f"tensor({mixed[index]})" if index in mixed else usual))
    attributes = {
        name: BY_TYPE[attribute.type]
        for name, attribute in schema.attributes.items()
        if attribute.required and attribute.type in BY_TYPE
    }
    names = [f"o{index}" for index, _ in enumerate(schema.outputs)]
    node = onnx.helper.make_node(
        schema.name,
        [info.name for info in inputs],
        names,
        domain=schema.domain,
        **{**attributes, **ATTRIBUTES.get(schema.name, {})},
    )
    graph = onnx.helper.make_graph([node], "call", inputs, [])
    version = max(schema.since_version, OLDEST) if not schema.domain else schema.since_version
    opsets = [onnx.helper.make_opsetid(schema.domain, version)]
    opsets += [onnx.helper.make_opsetid("", 21)] if schema.domain else []
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


def full_check(model: onnx.ModelProto) -> str:
    """Return the errors of the checker and of strict type inference; empty for a valid model."""
    try:
        onnx.checker.check_model(model)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error)
    return ""


def wrong_operands(model: onnx_ir.Model, schema: onnx.defs.OpSchema) -> list[str]:
    """The operands of the repaired call that its schema does not take, or that differ within a variable."""
    (node,) = [node for node in model.graph if node.op_type == schema.name]
    bound: dict[str, DataType | None] = {}
    wrong: list[str] = []
    for index, formal in enumerate(formals(schema)):
        value = node.inputs[index]
        assert value is not None
        names = {match[1] for t in allowed(schema, formal.type_str) if (match := re.search(r"tensor\((\w+)\)", t))}
        if names and value.dtype not in {parse_type(name) for name in names}:
            wrong.append(f"input {index} is {value.dtype}")
        if formal.is_homogeneous and bound.setdefault(formal.type_str, value.dtype) != value.dtype:
            wrong.append(f"input {index} is {value.dtype}, others of {formal.type_str} {bound[formal.type_str]}")
    return wrong


def calls(schema: onnx.defs.OpSchema) -> Iterator[dict[int, str]]:
    for variable in shared(schema):
        indexes = [i for i, formal in enumerate(formals(schema)) if formal.type_str == variable]
        for pair in PAIRS:
            yield {index: pair.split()[position % 2] for position, index in enumerate(indexes)}


def repaired(model: onnx_ir.Model) -> str:
    """Nothing where the pass repaired the model, otherwise why it would not."""
    try:
        records = InsertPromoteTypes(promote_unsafe=True).call(model).records
        ResolvePromoteTypes().call(model)
    except PromotionError as error:
        return str(error)
    return " ".join(d.message for d in records.diagnostics if d.severity is Severity.ERROR)


def check_call(schema: onnx.defs.OpSchema, given: dict[int, str]) -> bool:
    """Return True if the call was repaired and accepted; otherwise the reason names the operator and the fix."""
    proto = call(schema, given)
    model = onnx_ir.from_proto(proto)
    reason, where = repaired(model), (schema.name, schema.since_version, given)
    if reason:
        assert re.search(rf"{schema.name}.*(opset \d+ allows it|no opset does)", reason), where
        return False
    if any(node.op_type == schema.name for node in model.graph):
        assert wrong_operands(model, schema) == [], where
        assert full_check(onnx_ir.to_proto(model)) == "" or full_check(homogeneous(proto, model)) != "", where
    return True


OPERATORS = [pytest.param(*key, id=".".join(filter(None, key))) for key in schemas()]


@pytest.mark.parametrize(("domain", "name"), sampled("operators to call with mixed types", OPERATORS, 20))
def test_a_mixed_call_is_repaired_or_refused(domain: str, name: str) -> None:
    outcomes = [check_call(schema, mixed) for schema in schemas()[domain, name] for mixed in calls(schema)]
    assert any(outcomes) or name in NOTHING_HOLDS_TWO


@pytest.mark.parametrize(("domain", "name"), sampled("operators to call with mixed types", OPERATORS, 20))
def test_a_call_with_a_type_it_does_not_take_is_repaired_or_refused(domain: str, name: str) -> None:
    for schema in schemas()[domain, name]:
        for variable in shared(schema):
            indexes = [i for i, formal in enumerate(formals(schema)) if formal.type_str == variable]
            for dtype in SINGLE_TYPES:
                check_call(schema, dict.fromkeys(indexes, dtype))


def homogeneous(proto: onnx.ModelProto, repaired: onnx_ir.Model) -> onnx.ModelProto:
    """The call with inputs that have the repaired types from the start."""
    same = onnx.ModelProto()
    same.CopyFrom(proto)
    (node,) = [n for n in repaired.graph if n.op_type == proto.graph.node[0].op_type]
    for index, info in enumerate(same.graph.input):
        value = node.inputs[index]
        if value is not None and value.dtype is not None and info.type.HasField("tensor_type"):
            info.type.tensor_type.elem_type = int(value.dtype)
    return same


def test_every_domain_is_covered() -> None:
    """ai.onnx.preview.training has operators too, but no type variable of theirs binds two inputs."""
    found = schemas()
    every = {schema.domain for schema in onnx.defs.get_all_schemas_with_history()}
    assert every - {domain for domain, _ in found} <= {"ai.onnx.preview.training"}
    assert len(found) >= 60
    assert sum(map(len, found.values())) >= 150
