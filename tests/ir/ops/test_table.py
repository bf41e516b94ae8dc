"""Each row of the table of operators agrees with the schemas of all opsets, and with what the operator computes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import numpy as np
import onnx
import onnx.defs
import onnxruntime
from onnx_ir import DataType

from castsmith.conformance.probe_models import TEXTS
from castsmith.ir.ops.contrib import CONTRIB_DOMAIN, contrib_operators, contrib_schema
from castsmith.ir.ops.schemas import op_formals
from castsmith.ir.ops.table import GIVES_BOOL, MOVERS, TRAITS, operators
from castsmith.ir.ops.traits import Answer, Conversion, Moves, Rounding, Traits
from tests.house import texts, tree
from tests.ir.ops.contrib_schemas import FILE, installed, text_of
from tests.ir.ops.models import fed_to, model_of, run, schemas_by_operator
from tests.sampling import check_all
from tests.versions import ONNX

KEYS = sorted(key for key in TRAITS if key[0] != CONTRIB_DOMAIN)
_NEW = {("", "Range"), ("ai.onnx.preview", "FlexAttention")}


def _places(row: Traits) -> Iterator[int]:
    for each in (row.elements, row.stored, row.scaling, (1,) if row.indices else (), row.size[1] if row.size else ()):
        yield from each or ()


def _check_inputs(domain: str, op_type: str) -> None:
    schemas, row = schemas_by_operator().get((domain, op_type), []), TRAITS[domain, op_type]
    if (domain, op_type) in _NEW and ONNX < (1, 23):  # which added the operator, or the attribute that names its type
        return
    assert schemas
    most = max(schema.max_input for schema in schemas)
    assert all(index < most for index in _places(row))
    named = {name for schema in schemas for name in schema.attributes}
    assert set(row.types or ()) <= named


def test_a_row_is_about_an_operator_and_inputs_that_there_are() -> None:
    check_all(_check_inputs, KEYS)


def _check_constraints(domain: str, op_type: str) -> None:
    row, newest = TRAITS[domain, op_type], 0
    for schema in schemas_by_operator().get((domain, op_type), []):
        formals = op_formals(domain, op_type, schema.since_version)
        assert formals is not None
        newest = max(newest, schema.since_version)
        inputs, outputs = formals
        moving = row.moves not in (None, Moves.MAKE, Moves.PACK, Moves.UNPACK, Moves.FLOW, Moves.SHAPE, Moves.CONTENT)
        if moving and op_type not in ("Dropout",):
            carrying = inputs if row.elements is None else [inputs[i] for i in row.elements if i < len(inputs)]
            assert {each.variable for each in carrying} == {outputs[0].variable}, "moves elements to another type"
        if row.moves in (Moves.SHAPE, Moves.CONTENT) or row.answer is not None:
            assert len(outputs[0].allowed) == 1, "gives elements of its operands"
        assert op_type not in GIVES_BOOL or set(outputs[0].allowed) == {DataType.BOOL}
        if row.indices is not None:
            assert inputs[1].allowed <= {DataType.INT32, DataType.INT64}
        if row.conversion in (Conversion.CAST, Conversion.BITS):
            assert inputs[0].variable != outputs[0].variable


def test_the_type_constraints_agree_with_the_row() -> None:
    check_all(_check_constraints, KEYS)


def test_the_sets_agree_with_the_schemas() -> None:
    """Operators of the standard that give bool from numbers."""
    newest = onnx.defs.onnx_opset_version()
    for schema in onnx.defs.get_all_schemas():
        if schema.domain == "" and schema.outputs and schema.name not in ("OptionalHasElement", "RegexFullMatch"):
            formals = op_formals("", schema.name, newest)
            if formals is not None and set(formals[1][0].allowed) == {DataType.BOOL}:
                assert schema.name in GIVES_BOOL, schema.name


def test_the_traits_that_schemas_show_are_exactly_theirs() -> None:
    kinds = onnx.defs.OpSchema.AttrType
    newest = [schema for schema in onnx.defs.get_all_schemas() if schema.domain == "" and not schema.deprecated]
    graphs = {s.name for s in newest if any(a.type in (kinds.GRAPH, kinds.GRAPHS) for a in s.attributes.values())}
    assert operators(lambda row: row.runs_graphs) == graphs
    reductions = {s.name for s in newest if {"keepdims", "noop_with_empty_axes"} <= set(s.attributes)}
    assert operators(lambda row: row.reduces) == reductions
    single = {s.name for s in newest if s.name.startswith("Bit") and s.name != "BitCast"}
    assert operators(lambda row: row.on_bits) == single


def _check_later(domain: str, op_type: str) -> None:
    schemas = sorted(schemas_by_operator().get((domain, op_type), []), key=lambda schema: schema.since_version)
    assert set(TRAITS[domain, op_type].later).isdisjoint(schemas[0].attributes)
    assert not any(schemas[-1].attributes[name].required for name in TRAITS[domain, op_type].later)


def test_an_attribute_that_came_later_was_not_there_at_first() -> None:
    check_all(_check_later, [key for key in KEYS if TRAITS[key].later])


_MOVED = [op_type for op_type in sorted(MOVERS & TEXTS.keys()) if TRAITS["", op_type].elements != ()]
_UNEXECUTED = {"SplitToSequence", "Scatter"}
"""The reference gives sequences as lists, and has no Scatter, the older form of ScatterElements."""


def _check_what_only_moves_elements_commutes_with_any_renaming_of_them(op_type: str) -> None:
    """0 stays 0; every other number becomes another one, as a code does."""
    model = model_of(op_type, DataType.FLOAT)
    assert model is not None
    row, names = TRAITS["", op_type], [value.name for value in model.graph.input]
    carrying = names if row.elements is None else [names[i] for i in row.elements if i < len(names)]
    for seed in range(3):
        fed = fed_to(model, DataType.FLOAT, seed)
        renamed = {
            name: np.where(array, (array * 37 + 5) * np.sign(array), array).astype(array.dtype)
            if name in carrying
            else array
            for name, array in fed.items()
        }
        for before, after in zip(run(model, fed), run(model, renamed), strict=True):
            wanted = np.where(before, (before * 37 + 5) * np.sign(before), before)
            np.testing.assert_array_equal(after, wanted)


def test_what_only_moves_elements_commutes_with_any_renaming_of_them() -> None:
    check_all(_check_what_only_moves_elements_commutes_with_any_renaming_of_them, set(_MOVED) - _UNEXECUTED)


_EACH = [key[1] for key, row in TRAITS.items() if row.elementwise]


def _check_an_elementwise_operator_looks_at_one_place(op_type: str) -> None:
    """Changing the first element of every operand changes the first element of the result, and no other."""
    dtype = DataType.BOOL if TRAITS["", op_type].answer is Answer.LOGIC else DataType.FLOAT
    dtype = DataType.INT32 if op_type.startswith("Bit") else dtype
    dtype = DataType.UINT8 if op_type == "BitShift" else dtype
    model = model_of(op_type, dtype)
    assert model is not None
    fed = {name: np.abs(array) for name, array in fed_to(model, dtype, 1).items()}
    other = {name: array.copy() for name, array in fed.items()}
    for array in other.values():
        if array.ndim:
            array.reshape(-1)[0] = 3
    with np.errstate(all="ignore"):
        results = zip(run(model, fed), run(model, other), strict=True)
        for before, after in results:
            np.testing.assert_array_equal(before.reshape(-1)[1:], after.reshape(-1)[1:])


def test_an_elementwise_operator_looks_at_one_place() -> None:
    check_all(_check_an_elementwise_operator_looks_at_one_place, sorted(_EACH))


_ONCE = [key[1] for key, row in TRAITS.items() if row.rounding is not None and row.answer is None and key[1] in TEXTS]


def _check_one_rounding_is_the_same_from_float_as_from_double(op_type: str) -> None:
    """Float16 operands: what double rounds to float16 is what float does; NONE rounds nothing."""
    model, wide = model_of(op_type, DataType.FLOAT), model_of(op_type, DataType.DOUBLE)
    assert model is not None
    assert wide is not None
    for seed in range(20):
        rng, fed = np.random.default_rng(seed), fed_to(model, DataType.FLOAT, seed)
        fed = {
            name: (rng.standard_normal(array.shape) * 3).astype(np.float16).astype(np.float32)
            if array.dtype == np.float32
            else array
            for name, array in fed.items()
        }
        with np.errstate(all="ignore"):
            narrow = run(model, fed)[0]
            exact = run(wide, {name: a.astype(np.float64) if a.dtype == np.float32 else a for name, a in fed.items()})[
                0
            ]
            np.testing.assert_array_equal(narrow.astype(np.float16), exact.astype(np.float16))
            if TRAITS["", op_type].rounding is Rounding.NONE:
                np.testing.assert_array_equal(narrow, exact)
                np.testing.assert_array_equal(narrow.astype(np.float16).astype(np.float32), narrow)


def test_one_rounding_is_the_same_from_float_as_from_double() -> None:
    check_all(_check_one_rounding_is_the_same_from_float_as_from_double, sorted(set(_ONCE) - {"Cast", "CastLike"}))


def _check_integers_whose_result_fits_are_the_same_in_the_wider_type(op_type: str) -> None:
    narrow, wide = model_of(op_type, DataType.INT32), model_of(op_type, DataType.INT64)
    assert narrow is not None
    assert wide is not None
    fed = {name: np.abs(array) + 1 for name, array in fed_to(narrow, DataType.INT32, 2).items()}
    elements = TRAITS["", op_type].elements
    for index, name in enumerate(fed):
        if elements is not None and index not in elements:
            fed[name] = np.zeros_like(fed[name])  # an axis
    found = run(wide, {name: array.astype(np.int64) for name, array in fed.items()})[0]
    np.testing.assert_array_equal(run(narrow, fed)[0], found)


def test_integers_whose_result_fits_are_the_same_in_the_wider_type() -> None:
    check_all(
        _check_integers_whose_result_fits_are_the_same_in_the_wider_type,
        sorted(operators(lambda row: row.modular)),
    )


_DATA = (
    "ir/ops/",
    "conformance/probe_models.py",
    "passes/precision/operators.py",
    "lowering/opset/raising.py",
    "lowering/check/attributes.py",
    "verification/checker.py",
)
"""The table, the models that ask a runtime, what loses accuracy in 16 bits, what each opset changed,
what the kernels of ONNX Runtime ask of attributes, and the checker, which shares nothing."""
_NAMES = {schema.name for schema in onnx.defs.get_all_schemas_with_history()}
_QUOTED = re.compile(r"[\"'](\w+)[\"']")


def _listed(node: ast.AST) -> set[str]:
    """The operators that an expression lists as a fact; a table from operators to functions is an implementation."""
    match node:
        case ast.Constant(value=str(text)):
            return {text} & _NAMES
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            facts = [e for key, value in pairs for e in (key, value) if key is None or not _is_function(value)]
            return set[str]().union(*(_listed(each) for each in facts if each is not None))
        case ast.Call(func=ast.Attribute(attr="fromkeys"), args=[names, value]):
            return set() if _is_function(value) else _listed(names)
        case ast.Set() | ast.List() | ast.Tuple() | ast.Starred() | ast.Call(func=ast.Name()) | ast.BinOp():
            return set[str]().union(*(_listed(each) for each in ast.iter_child_nodes(node)))
        case _:
            return set()


def _collections(node: ast.AST) -> Iterator[set[str]]:
    """The operators that each outermost collection in the tree lists."""
    if isinstance(node, ast.Set | ast.List | ast.Tuple | ast.Dict | ast.Call | ast.BinOp):
        yield _listed(node)
    if not isinstance(node, ast.Set | ast.List | ast.Tuple | ast.Dict) and not _is_from_keys(node):
        for each in ast.iter_child_nodes(node):
            yield from _collections(each)


def _is_from_keys(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fromkeys"


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute | ast.Lambda | ast.Call)


def test_what_lists_operators_is_found() -> None:
    found = {
        'x = {"Cast", *("Shape", "Size", "If")}': 4,
        'x = {**dict.fromkeys(("Cast", "If"), (0,)), "Shape": (1,), "Size": None}': 4,
        'x = {"Cast": f, "If": lambda: 0, **dict.fromkeys(("Shape", "Size"), f)}': 0,
        'x = frozenset(["Cast", "If"]) | {"Shape", "no operator"}': 3,
    }
    for text, count in found.items():
        assert max(map(len, _collections(ast.parse(text)))) == count, text


def test_no_other_module_lists_operators() -> None:
    """A set of more than three operators is a fact about them, which belongs into their rows."""
    for name, text in texts().items():
        if not name.startswith(_DATA) and len(_NAMES.intersection(_QUOTED.findall(text))) > 3:
            for listed in _collections(tree(name)):
                assert len(listed) <= 3, f"{name} lists {sorted(listed)}"


def test_the_rows_of_com_microsoft_are_about_its_operators() -> None:
    assert {op_type for domain, op_type in TRAITS if domain == CONTRIB_DOMAIN} <= set(contrib_operators())


def test_the_schemas_of_com_microsoft_are_those_of_the_installed_onnx_runtime() -> None:
    """Of the version that they were read from: others may add operators and types, and take away none."""
    there = installed()
    if onnxruntime.__version__.startswith("1.32."):
        assert FILE.read_text(encoding="utf-8") == text_of(there)
    assert contrib_schema("FusedMatMul") is not None
    assert op_formals(CONTRIB_DOMAIN, "NoSuchOperator", 1) is None


def test_the_operators_that_move_no_elements_but_tell_of_what_holds_them() -> None:
    """By what these rows say, a pass leaves a container's type as it is, and converts no result of them."""
    assert operators(lambda row: row.moves is Moves.CONTENT) == {"SequenceLength", "OptionalHasElement"}
    assert operators(lambda row: row.moves is Moves.SHAPE) == {"Shape", "Size"}
