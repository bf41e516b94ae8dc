"""No operator is passed over: each that the installed onnx defines, in every domain, is one that somebody looked at.

`operators.txt` says of each what Castsmith knows beyond its schema: whether a cast may pass, and whether results are
bounded or reported as unknown. `python -m tests.ir.ops.test_schemas` writes it again: read what it adds.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.defs
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.analysis.bounds.analysis import FOREIGN, RULES
from castsmith.ir.ops.schemas import (
    OpKey,
    actual_inputs,
    first_opset_with,
    groups_for,
    input_types,
    is_function,
    op_formals,
    op_key,
    opset_of,
    since_version,
    where_defined,
)
from castsmith.ir.ops.table import GIVES_BOOL, RUNS_GRAPHS, traits_of
from castsmith.lowering.check.types import MIXED_OPERAND_TYPES
from castsmith.numerics.types import type_name
from tests.ir.ops.models import schemas_by_operator
from tests.sampling import check_all

FILE = Path(__file__).with_name("operators.txt")


def _operators() -> dict[tuple[str, str], list[int]]:
    """Return the versions of each operator, by its domain and name."""
    schemas = schemas_by_operator()
    return {key: sorted(schema.since_version for schema in schemas[key]) for key in sorted(schemas)}


def _what_is_known(domain: str, op_type: str) -> str:
    row = traits_of(domain, op_type)
    bounded = (domain, op_type) in FOREIGN
    if not domain:
        bounded = op_type in RULES or op_type in GIVES_BOOL | RUNS_GRAPHS or row.moves is not None
    return f"{'passes casts, ' if row.cast_passes else ''}{'bounded' if bounded else 'bounds unknown'}"


def _lines() -> dict[str, str]:
    return {
        f"{domain or 'ai.onnx'} {op_type} {' '.join(map(str, versions))}": _what_is_known(domain, op_type)
        for (domain, op_type), versions in _operators().items()
    }


def test_every_operator_and_version_was_looked_at() -> None:
    written = dict[str, tuple[set[str], str]]()
    for line in FILE.read_text(encoding="utf-8").splitlines():
        name, known = line.split(": ")
        domain, op_type, *versions = name.split()
        written[f"{domain} {op_type}"] = set(versions), known
    for name, known in _lines().items():
        domain, op_type, *versions = name.split()
        seen, said = written.get(f"{domain} {op_type}", (set(), ""))
        assert set(versions) <= seen, f"new: {name}; what do inference, bounds and casts make of it?"
        assert known == said, name


def test_the_next_opset_that_has_an_operator_or_a_type() -> None:
    """The advice never leads back, nor past the first version that helps."""
    for (domain, op_type), versions in _operators().items():
        for since in versions if not domain else ():
            later = [version for version in versions if version > since]
            kept = [each for each in later if not onnx.defs.get_schema(op_type, each).deprecated]
            if since == versions[0]:
                where = where_defined(op_type, since)
                assert where.startswith(f"import opset {kept[0]}," if kept else "it was removed"), op_type
            for dtype in (DataType.BFLOAT16, DataType.INT4) if onnx.defs.get_schema(op_type, since).outputs else ():
                name = f"tensor({type_name(dtype)})"
                types = {each: str(onnx.defs.get_schema(op_type, each).outputs[0].types) for each in kept}
                holds = next((each for each in kept if name in types[each]), None)
                assert first_opset_with(op_type, since, 0, dtype) == holds, (op_type, since, dtype)
    assert first_opset_with("Relu", 6, 1, DataType.FLOAT) is None
    for op_type, where in (
        ("QLinearAdd", "set the domain of the node to com.microsoft, which has it"),
        ("DictVectorizer", "set the domain of the node to ai.onnx.ml, which has it"),
        ("Relus", "correct its name or its domain, or define it as a function in the model"),
    ):
        assert where_defined(op_type, 21) == where


# What is in subgraphs.

_BODY = "h = Add (x, i) r = Cast <to = 1> (h)"
_MODELS: dict[tuple[str, str], str] = {
    ("", "If"): f"y = If (c) <then_branch = t () => (float r) {{ {_BODY} }},"
    " else_branch = e () => (float s) { s = Neg (x) }>",
    ("", "Loop"): f"y = Loop (, c) <body = b (int64 n, bool d) => (bool k, float r) {{ k = Not (d) {_BODY} }}>",
    ("", "Scan"): f"y = Scan <num_scan_inputs = 1, body = b (float u) => (float r) {{ {_BODY} }}> (v)",
    ("", "SequenceMap"): "w = SequenceConstruct (x)"
    f" z = SequenceMap <body = b (float u) => (float r) {{ {_BODY} }}> (w) y = SequenceAt (z, n)",
    ("ai.onnx.preview", "FlexAttention"): "y = ai.onnx.preview.FlexAttention"
    f" <score_mod = b (float[1,1,2,2] u) => (float[1,1,2,2] r) {{ {_BODY} }}> (q, q, q)",
}
"""An operator that runs a subgraph, in which operands disagree."""


def _check_subgraph(domain: str, op_type: str) -> None:
    text = (
        '<ir_version: 10, opset_import: ["": 20, "ai.onnx.preview": 1]>'
        f" g (float x, int16 i, bool c, float[2] v, int64 n, float[1,1,2,4] q) => (y) {{ {_MODELS[domain, op_type]} }}"
    )
    model = onnx.parser.parse_model(text)
    (found,) = (each for each in castsmith.check(model) if each.code == MIXED_OPERAND_TYPES.code)
    assert found.site.op == "Add"
    repaired = castsmith.optimize(model)
    assert not any(each.code == MIXED_OPERAND_TYPES.code for each in castsmith.check(repaired.model))
    assert {"h", "r"} <= castsmith.bounds(model).keys()
    assert "r" in castsmith.convert(repaired.model, to="float16").precisions


_FLOAT = DataType.FLOAT


@pytest.mark.parametrize(
    ("key", "types", "expected"),
    [
        (("", "Add", 13), [_FLOAT, _FLOAT], {"T": (0, 1)}),
        (("", "Clip", 13), [_FLOAT, None, _FLOAT], {"T": (0, 2)}),
        # An operator whose fourth input has a variable of its own, though it may be of the first one's type.
        (("", "BatchNormalization", 15), [_FLOAT] * 5, {"T": (0,), "T1": (1, 2), "T2": (3, 4)}),
        (("", "Attention", 23), [_FLOAT] * 3, {"T1": (0, 1), "T2": (2,)}),
        (("", "Attention", 23), [_FLOAT] * 4, {"T1": (0, 1, 3), "T2": (2,)}),
        (("", "Attention", 23), [_FLOAT] * 3 + [DataType.BOOL], {"T1": (0, 1), "T2": (2,), "U": (3,)}),
        # The mask index of ONNX Runtime's operator of this name is int32 alone, in its own group.
        (("com.microsoft", "Attention", 1), [_FLOAT] * 4, {"T": (0, 1, 2), "M of 3": (3,)}),
        # The state of a loop is bound by nothing, nor is a map, which is no tensor.
        (("", "Loop", 21), [DataType.INT64, DataType.BOOL, _FLOAT, _FLOAT], {"I of M": (0,), "B of cond": (1,)}),
        (("ai.onnx.ml", "DictVectorizer", 1), [None], {}),
        (("", "SequenceInsert", 11), [_FLOAT, _FLOAT, DataType.INT64], {"S": (0, 1), "I": (2,)}),
    ],
)
def test_the_inputs_that_share_a_type(
    key: OpKey, types: list[DataType | None], expected: dict[str, tuple[int, ...]]
) -> None:
    inputs = tuple(dtype is not None or key[1] == "DictVectorizer" for dtype in types)
    assert {group.variable: group.indexes for group in groups_for(key, types, inputs)} == expected


def test_an_input_beyond_those_of_the_operator_has_no_parameter() -> None:
    assert [formal and formal.variable for formal in actual_inputs(("", "Add", 13), 3)] == ["T", "T", None]
    assert [formal and formal.variable for formal in actual_inputs(("", "Sum", 13), 3)] == ["T", "T", "T"]


def test_operators_of_both_names_of_the_standard_domain_and_of_others() -> None:
    for domain, op_type, opset, inputs in (
        ("", "Add", 13, 2), ("ai.onnx", "Add", 13, 2), ("ai.onnx", "Clip", 10, 1), ("ai.onnx", "Clip", 11, 3),
        ("com.microsoft", "QuickGelu", 1, 1), ("com.microsoft", "Add", 1, None), ("ai.onnx.ml", "Scaler", 1, 1),
        ("ai.onnx.ml", "Add", 1, None), ("", "QuickGelu", 21, None), ("", "Gelu", 19, None), ("", "Gelu", 20, 1),
    ):  # fmt: skip
        found = op_formals(domain, op_type, opset)
        assert (None if found is None else len(found[0])) == inputs, (domain, op_type, opset)
        key = op_key(onnx_ir.Node(domain, op_type, []), {domain: opset})
        assert key == (None if inputs is None else (domain.removesuffix("ai.onnx"), op_type, opset))
        assert op_key(onnx_ir.Node(domain, op_type, []), {"other": opset}) is None
    assert [opset_of(imports, domain) for imports in ({"": 3}, {"ai.onnx": 4}, {"": 3, "ai.onnx": 4}, {"d": 5})
            for domain in ("", "ai.onnx", "d")] == [3, 3, None, 4, 4, None, 3, 3, None, None, None, 5]  # fmt: skip
    assert [since_version("Clip", opset) for opset in (5, 6, 10, 11, 12)] == [1, 6, 6, 11, 12]
    assert [since_version("Gelu", opset) for opset in (19, 20, 21)] == [None, 20, 20]
    assert [is_function("", name, opset) for name, opset in (("Gelu", 19), ("Gelu", 20), ("Add", 20))] == [
        *(False, True, False)
    ]
    assert is_function("", "SoftmaxCrossEntropyLoss", 13)  # by its attributes and inputs


def test_the_types_of_an_input_are_those_of_its_parameter() -> None:
    nodes = {
        text: onnx_ir.from_proto(onnx.parser.parse_node(text))
        for text in ("y = Gather (x, i)", "y = Sum (a, b, c)", "y = Relu (x)", "y = d.F (x)")
    }

    def types(text: str, index: int, opset: int) -> set[str]:
        return {type_name(dtype) for dtype in input_types(nodes[text], index, {"": opset, "d": 1})}

    assert types("y = Gather (x, i)", 1, 13) == {"int32", "int64"}
    assert {"string", "bfloat16", "int8"} < types("y = Gather (x, i)", 0, 13)
    assert "bfloat16" not in types("y = Gather (x, i)", 0, 12)
    for index in range(3):
        assert types("y = Sum (a, b, c)", index, 8) == {"float16", "float", "double"}
    assert types("y = Relu (x)", 1, 14) == set()
    assert types("y = d.F (x)", 0, 14) == set()


def test_what_is_in_a_subgraph_is_not_passed_over() -> None:
    runs = [
        (schema.domain, schema.name)
        for schema in onnx.defs.get_all_schemas()
        if any(attribute.type == onnx.defs.OpSchema.AttrType.GRAPH for attribute in schema.attributes.values())
    ]
    check_all(_check_subgraph, sorted(runs))


if __name__ == "__main__":
    FILE.write_text("".join(f"{name}: {known}\n" for name, known in _lines().items()), encoding="utf-8")
