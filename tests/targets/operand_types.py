"""Print the types of operands with which a runtime loads an operator though the standard does not allow them.

    nice python -m tests.targets.operand_types openvino-cpu [OPERATOR ...]

One backend test of ONNX of each operator is loaded with each operand of each type; operands of one type variable change
together. What is printed goes into `unchecked_types` of the target's file.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from onnx import ModelProto
from onnx_ir import DataType

from castsmith.ir.ops.schemas import OpKey, actual_inputs, op_formals
from castsmith.numerics.types import type_name
from tests.graphs.backend import node_cases
from tests.soak.agreement import ENGINES, Engine, raises

_TYPES = (
    *(DataType.FLOAT, DataType.FLOAT16, DataType.DOUBLE, DataType.BFLOAT16, DataType.BOOL, DataType.STRING),
    *(DataType.UINT8, DataType.INT8, DataType.UINT16, DataType.INT16),
    *(DataType.INT32, DataType.INT64, DataType.UINT32, DataType.UINT64),
)


def _variants(model: ModelProto, key: OpKey) -> Iterator[tuple[int, DataType, ModelProto]]:
    """Yield the index of an operand, a type that its operator does not allow, and the model with that type."""
    operands = model.graph.node[0].input
    formals = actual_inputs(key, len(operands))
    for index, (name, formal) in enumerate(zip(operands, formals, strict=True)):
        if not name or formal is None or (formal.variadic and index):
            continue
        alike = [
            other
            for other, own in zip(operands, formals, strict=True)
            if own is not None and own.variable == formal.variable
        ]
        for dtype in _TYPES:
            if dtype not in formal.allowed:
                changed = ModelProto.FromString(model.SerializeToString())
                for value in changed.graph.input:
                    if value.name in alike:
                        value.type.tensor_type.elem_type = dtype
                yield index, dtype, changed


def main(target: str, operators: list[str]) -> None:
    engine, path = Engine(target, raises(ENGINES[target]), cached=False), Path(tempfile.mkdtemp(), "model.onnx")

    def loads(model: ModelProto) -> bool:
        path.write_bytes(model.SerializeToString())
        return not engine.ask(path)

    done, rows = set[str](), defaultdict[tuple[str, ...], list[str]](list)
    for case in node_cases("").values():
        model = case.model
        if model is None or len(model.graph.node) != 1 or model.functions or model.graph.node[0].domain:
            continue
        op_type = model.graph.node[0].op_type
        key = "", op_type, next(row.version for row in model.opset_import if not row.domain)
        tensors = all(value.type.HasField("tensor_type") for value in model.graph.input)
        if op_type in done or (operators and op_type not in operators) or not tensors or op_formals(*key) is None:
            continue
        if not loads(model):
            continue
        done.add(op_type)
        taken = defaultdict[int, list[str]](list)
        for index, dtype, changed in _variants(model, key):
            if loads(changed):
                taken[index].append(type_name(dtype))
        for index, types in taken.items():
            rows[tuple(types)].append(f"{op_type}.{index}")
    for types, names in rows.items():
        print({"types": [*types], "operators": dict.fromkeys(names, 1)})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
