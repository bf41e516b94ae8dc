"""Operators on integers and bool in a wider type, where the result is the same for every input."""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import Rule
from castsmith.ir.ops.schemas import actual_inputs, actual_outputs, op_key
from castsmith.ir.ops.table import MOVERS, operators
from castsmith.ir.ops.traits import Answer, Moves, Rounding
from castsmith.lowering.builder import ReplacementBuilder, as_replacement, computed_in
from castsmith.lowering.operators.scene import Scene
from castsmith.numerics.exactness import is_exact
from castsmith.numerics.types import Kind, element_type, type_name
from castsmith.passes.core.rewriting import Replacement
from castsmith.targets.kernels import takes_type, varied_input

_WIDER = (DataType.INT32, DataType.FLOAT, DataType.FLOAT16, DataType.INT64)
_NOT_ELEMENTS = (Moves.FLOW, Moves.MAKE, Moves.PACK, Moves.UNPACK, Moves.CONTENT)
_MOVING = MOVERS - operators(lambda row: row.moves in _NOT_ELEMENTS)
_COMPARING = operators(lambda row: row.answer in (Answer.COMPARISON, Answer.EXTREME))
_PICKING = operators(lambda row: row.rounding is Rounding.NONE and row.elementwise and row.answer is None)
OPERATORS = (_MOVING | _COMPARING | _PICKING | {"NonZero"}) - {"Abs", "Neg"}
"""Operators that give elements of their operands, compare them, or say where they are.

Not those that may give the opposite of the least integer, which only the wider type has.
"""


RUN_IN_WIDER_TYPE = Rule(
    "run-in-wider-type",
    "An operator that moves, compares or counts integers or bools runs in a wider type.",
    why="The target has a kernel for the wider type only.",
    example="- n = NonZero (mask)\n+ wide = Cast <to = int32> (mask)\n+ n = NonZero (wide)",
    advice="Operators whose result may exceed the type, such as Add, are left alone.",
)


def in_wider_type(node: onnx_ir.Node, dtype: DataType, scene: Scene) -> Replacement | None:
    """Return the node in the narrowest type that holds all elements and for which the target has a kernel."""
    key = op_key(node, scene.imports)
    if node.op_type not in OPERATORS or key is None or element_type(dtype).kind is Kind.FLOATING:
        return None
    inputs = actual_inputs(key, max(len(node.inputs), varied_input(node.op_type) + 1))
    outputs = actual_outputs(key, len(node.outputs))
    varied = inputs[varied_input(node.op_type)]
    if varied is None or any(value is not None and not _is_tensor(value) for value in node.inputs):
        return None
    back = {
        value
        for value, formal in zip(node.outputs, outputs, strict=True)
        if formal is not None and formal.variable == varied.variable
    }
    wider = next((to for to in _WIDER if _takes(node, dtype, to, scene, returns=bool(back))), None)
    if wider is None:
        return None
    moved = {index for index, formal in enumerate(inputs) if formal is not None and formal.variable == varied.variable}
    build = ReplacementBuilder(node)
    results = computed_in(
        build,
        wider,
        list(node.attributes.values()),
        lambda index, value: build.cast(value, wider) if index in moved else value,
        lambda old: dtype if old in back else None,
    )
    reason = f"{scene.lacks(node, dtype)}: in {type_name(wider)}, which holds every {type_name(dtype)}"
    return as_replacement(build, RUN_IN_WIDER_TYPE.code, reason, *results)


def _takes(node: onnx_ir.Node, dtype: DataType, to: DataType, scene: Scene, *, returns: bool) -> bool:
    """True if the target runs the node in the other type, with casts around it."""
    exact = is_exact(dtype, to) and scene.casts(dtype, to)
    if not exact or (returns and not scene.casts(to, dtype)):
        return False
    index = varied_input(node.op_type)
    return takes_type(node, index, to, scene.imports, scene.target)


def _is_tensor(value: onnx_ir.Value) -> bool:
    return value.type is None or isinstance(value.type, onnx_ir.TensorType)
