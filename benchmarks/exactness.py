"""How often each optimizer repairs, folds and removes casts, and how often wrongly: one table for all tools, one run.

    python -m benchmarks.exactness

Needs onnxruntime, onnxsim, onnxslim and onnxscript. Each tool works on each model in a process of its own:

- 48 models in which an operator has operands of two types. Counted are results that the full check of onnx accepts.
- 336 models with one Cast of a constant: all pairs of the standard's types from 8 bits on, without strings and complex
  numbers, those to float8 with and without saturation. The constants have only elements for which the standard defines
  the result. Counted are results without a Cast, "right" with the expected type and bits.
- 1,100 models with two casts in a row between 11 types. Counted are results with fewer casts, "right" if the remaining
  casts compute the same bits for every tested value whose result the standard defines.

The tools are the peers of one another. The counts are the same in every run, so that nothing is repeated. The
expected bits come from `tests/numerics/oracle.py`: exact rational arithmetic that shares no code with Castsmith.
"""

# The tools compared are not installed where types are checked.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.casts_left import OPTIMIZERS, OURS, in_a_process
from tests.numerics import oracle
from tests.numerics.samples import samples

_OPERATORS = ("Add", "Sub", "Mul", "Div", "Max", "Concat", "Equal", "Where")
_MIXED = (
    ("float16", "float"),
    ("bfloat16", "float"),
    ("float", "double"),
    ("int32", "int64"),
    ("uint8", "int32"),
    ("int32", "double"),
)
_TYPES = (
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float", "double", *oracle.FLOAT8_TYPES),
)
_CHAIN_TYPES = (
    *("bool", "int8", "uint8", "int32", "int64"),
    *("float16", "bfloat16", "float", "double", "float8e4m3fn", "float8e5m2"),
)
_OPSET, _IR, _SAMPLES = 21, 10, 120
"""An opset that every tool compared takes; values tested of a type of more than 8 bits."""


class Case(NamedTuple):
    """A model, and the types that its casts go through."""

    model: onnx.ModelProto
    types: tuple[str, ...] = ()
    codes: Sequence[int] = ()
    saturate: bool = True


def _number(name: str) -> int:
    return TensorProto.DataType.Value(name.upper())


def _model(
    nodes: list[onnx.NodeProto], inputs: dict[str, str], output: str, constant: TensorProto | None = None
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info(name, _number(dtype), ["n"]) for name, dtype in inputs.items()],
        [helper.make_tensor_value_info("y", _number(output), ["m"])],
        [] if constant is None else [constant],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)


def mixed() -> Iterator[Case]:
    """Yield the models with operands of two types."""
    for op_type, (narrow, wide) in itertools.product(_OPERATORS, _MIXED):
        inputs = {"a": narrow, "b": wide}
        operands = ["c", "a", "b"] if op_type == "Where" else ["a", "b"]
        extra = {"c": "bool"} if op_type == "Where" else {}
        node = helper.make_node(op_type, operands, ["y"])
        if op_type == "Concat":
            node.attribute.append(helper.make_attribute("axis", 0))
        yield Case(_model([node], extra | inputs, "bool" if op_type == "Equal" else wide))


def constants() -> Iterator[Case]:
    """Yield the models with a Cast of a constant."""
    for source, target in itertools.permutations(_TYPES, 2):
        for saturate in (True, False) if target in oracle.FLOAT8_TYPES else (True,):
            codes = _defined((source, target), saturate)
            array = oracle.array_of(source, codes)
            tensor = helper.make_tensor("w", _number(source), array.shape, array.tobytes(), raw=True)
            nodes = [_cast("w", "b", target, saturate), _reshape()]
            model = _model(nodes, {"shape": "int64"}, target, tensor)
            yield Case(model, (source, target), codes, saturate)


def chains() -> Iterator[Case]:
    """Yield the models with two casts in a row."""
    for first, second, third in itertools.product(_CHAIN_TYPES, repeat=3):
        if second not in (first, third):
            nodes = [_cast("x", "a", second), _cast("a", "b", third), _reshape()]
            types = (first, second, third)
            yield Case(_model(nodes, {"x": first, "shape": "int64"}, third), types, _defined(types, saturate=True))


def _cast(operand: str, result: str, to: str, saturate: bool = True) -> onnx.NodeProto:
    node = helper.make_node("Cast", [operand], [result], to=_number(to))
    if not saturate:
        node.attribute.append(helper.make_attribute("saturate", 0))
    return node


def _reshape() -> onnx.NodeProto:
    """Return the node behind the casts: some tools leave casts whose result is an output."""
    return helper.make_node("Reshape", ["b", "shape"], ["y"])


def _defined(types: Sequence[str], saturate: bool) -> list[int]:
    """Codes of finite values of the first type for which every cast is defined: a fixed sample of the critical ones."""
    source = types[0]
    codes = list(oracle.all_codes(source)) if oracle.unsigned(source).itemsize == 1 else _sampled(types)
    return [code for code in codes if _is_defined(code, types, saturate)]


def _sampled(types: Sequence[str]) -> list[int]:
    found = sorted({code for target in types[1:] for code in samples(types[0], target)})
    return sorted(random.Random(" ".join(types)).sample(found, min(_SAMPLES, len(found))))


def _is_defined(code: int, types: Sequence[str], saturate: bool) -> bool:
    """True if the value is finite and no cast on the way is of a float beyond the range of an integer type."""
    if oracle.decode(types[0], code).kind != "number":
        return False
    for source, target in itertools.pairwise(types):
        value = oracle.decode(source, code)
        if source in oracle.FLOATS and target in oracle.INTS and target != "bool":
            row, whole = oracle.INTS[target], int(value.size) * (-1 if value.negative else 1)
            if value.kind != "number" or not row.low <= whole <= row.high:
                return False
        code = oracle.cast_codes(source, target, [value], oracle.Settings(saturate, opset=_OPSET))[0]
    return True


def _through(codes: Sequence[int], types: Sequence[str], saturate: bool) -> list[int]:
    """Return what casts through the types make of codes of the first."""
    found = list(codes)
    for source, target in itertools.pairwise(types):
        numbers = [oracle.decode(source, code) for code in found]
        found = oracle.cast_codes(source, target, numbers, oracle.Settings(saturate, opset=_OPSET))
    return found


def judge_mixed(result: onnx.ModelProto, _: Case) -> str:
    """Return "right" for a result that the full check of onnx accepts."""
    try:
        onnx.checker.check_model(result, full_check=True)
    except Exception:  # the checker and the inference of onnx raise several kinds
        return "wrong"
    return "right"


def judge_constant(result: onnx.ModelProto, case: Case) -> str:
    """Return "kept" where a Cast is left, else "right" or "wrong" by the type and bits of the constant."""
    producers = {node.output[0]: node for node in result.graph.node}
    value = "y"
    while value in producers and producers[value].op_type in ("Reshape", "Identity"):
        value = producers[value].input[0]
    if value in producers and producers[value].op_type == "Cast":
        return "kept"
    held = {tensor.name: tensor for tensor in result.graph.initializer}
    tensor = held[value] if value in held else producers[value].attribute[0].t
    expected = oracle.array_of(case.types[1], _through(case.codes, case.types, case.saturate))
    if tensor.data_type != _number(case.types[1]):
        return "wrong"
    return "right" if numpy_helper.to_array(tensor).tobytes() == expected.tobytes() else "wrong"


def judge_chain(result: onnx.ModelProto, case: Case) -> str:
    """Return "kept" where two casts are left, else "right" or "wrong" by what the rest computes."""
    types = [case.types[0]]
    for node in result.graph.node:
        if node.op_type == "Cast":
            to = helper.get_node_attr_value(node, "to")
            types.append(TensorProto.DataType.Name(to).lower())
        elif node.op_type not in ("Identity", "Reshape"):
            return "wrong"
    if len(types) == 3:
        return "kept"
    left = _through(case.codes, types, saturate=True) if types[-1] == case.types[-1] else None
    return "right" if left == _through(case.codes, case.types, saturate=True) else "wrong"


def main() -> None:
    """Print the table."""
    for optimize in OPTIMIZERS.values():
        optimize(next(constants()).model)  # imports once what each process would import
    print("| tool | operands of two types: valid | constant casts: folded | wrong | chains: shortened | wrong |")
    print("|---|---|---|---|---|---|")
    sets = {judge_mixed: [*mixed()], judge_constant: [*constants()], judge_chain: [*chains()]}
    for tool in (OURS, *(name for name in OPTIMIZERS if name != OURS)):
        repaired, folded, shortened = (_verdicts(tool, cases, judge) for judge, cases in sets.items())
        cells = [f"{repaired['right']} of {repaired.total()}"]
        for found in (folded, shortened):
            cells += [f"{found['right'] + found['wrong']} of {found.total()}", str(found["wrong"])]
        print(f"| {tool} | {' | '.join(cells)} |", flush=True)


def _verdicts(tool: str, cases: Sequence[Case], judge: Callable[[onnx.ModelProto, Case], str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for case in cases:
        result = in_a_process(lambda case=case: judge(OPTIMIZERS[tool](case.model), case))
        found["failed" if result is None else result] += 1
    return found


if __name__ == "__main__":
    main()
