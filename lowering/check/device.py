"""The nodes of a model that an execution provider leaves to its fallback, and the bytes that go between the two."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, op_key, since_version, with_formals
from castsmith.ir.ops.table import CASTS, operators
from castsmith.ir.ops.traits import Conversion, Moves
from castsmith.ir.records import Diagnostic, Severity
from castsmith.ir.walks import Scope
from castsmith.lowering.check.scene import Scene
from castsmith.numerics.types import element_type, type_name
from castsmith.targets.kernels import varied_input

_LISTED = 4
"""Operators that the message names, the most frequent ones first."""
OF_RESULT = operators(
    lambda row: row.conversion in (Conversion.CAST, Conversion.QUANTIZE) or row.moves in (Moves.FLOW, Moves.MAKE)
)
"""Operators that were probed with the types of their results."""

Imports = Mapping[Scope, Mapping[str, int]]


LEAVES_DEVICE = FindingCode(
    "leaves-device",
    "Nodes run on the CPU, because the device does not support their types.",
    why=(
        "ONNX Runtime runs unsupported nodes on the CPU. Each switch copies tensors while the device "
        "waits. Values that must be int64, such as the shape of a Reshape, are not counted."
    ),
    example="y = Add (x, x)  # (int64[N]) for onnxruntime-webgpu",
    advice=(
        "Pass --narrow int64, or change the type in the model. --strict-device makes it an error, as "
        "session.disable_cpu_ep_fallback does in ONNX Runtime."
    ),
    outcomes=(Outcome.ELSEWHERE,),
    fix="on-request",
    silence="If the nodes are few and their values small. The message counts both.",
)


def device_findings(scene: Scene) -> Iterator[Diagnostic]:
    """Yield one warning with the number of nodes that run on the fallback, and the bytes that go between the two."""
    target = scene.target
    if target.fallback is None:
        return
    nodes = [node for node in scene.nodes if node.op_type != "Constant"]
    away = {node: causes for node in nodes if (causes := list(_causes(node, scene)))}
    if away:
        lacking, (size, unknown) = dict.fromkeys(chain.from_iterable(away.values())), _crossing(nodes, away, scene)
        more = f", and {unknown} of unknown size" if unknown else ""
        message = (
            f"{len(away)} of {len(nodes)} nodes run on {target.fallback} and not on the device, which has no"
            f" {', '.join(lacking)}: {_listed(away)}; tensors of {size} bytes{more} go between the two"
        )
        way_out = "`strict_device` makes the types that the device lacks an error"
        yield Diagnostic(LEAVES_DEVICE.code, Severity.WARNING, scene.site, message, way_out, target.name)


def values_varied(node: onnx_ir.Node) -> list[onnx_ir.Value | None]:
    """Return the values whose types the rows of a target's `kernels` describe: those that the probe varied."""
    if node.op_type == "Cast":
        return [*node.inputs, *node.outputs]
    if node.op_type in OF_RESULT or not node.inputs:
        return list(node.outputs)
    return list(node.inputs)[varied_input(node.op_type) :][:1]


def _causes(node: onnx_ir.Node, scene: Scene) -> Iterator[str]:
    """Yield what the device lacks of the node."""
    if node.domain not in DEFAULT_DOMAINS:
        return
    target, opset = scene.target, scene.opset(node) or 1
    operands = node.inputs if node.op_type in CASTS else ()
    for dtype in map(scene.type_of, (*operands, *values_varied(node))):
        if dtype is not None and dtype in target.off_device:
            yield type_name(dtype)
        elif dtype is not None and not target.runs_itself(node.op_type, dtype, opset):
            yield f"{node.op_type} of {type_name(dtype)}"
    since = since_version(node.op_type, opset)
    if since is not None and since > target.newest_opset:
        yield f"{node.op_type} of opset {since}"


def _listed(nodes: Iterable[onnx_ir.Node]) -> str:
    counts = sorted(Counter(node.op_type for node in nodes).items(), key=lambda pair: (-pair[1], pair[0]))
    others = len(counts) - _LISTED
    more = f" and {others} other operator{'s' if others > 1 else ''}" if others > 0 else ""
    return ", ".join(f"{op_type} ({count})" for op_type, count in counts[:_LISTED]) + more


def _crossing(nodes: list[onnx_ir.Node], away: Container[onnx_ir.Node], scene: Scene) -> tuple[int, int]:
    """Return the bytes of the tensors that one side makes and the other uses, and the number of unknown size."""
    size = unknown = 0
    for node in nodes:
        for value in node.outputs:
            if all((user in away) == (node in away) for user in value.consumers()):
                continue
            dtype, shape = scene.type_of(value), value.shape
            if dtype is None or dtype == DataType.STRING or shape is None or not shape.is_static():
                unknown += 1
            else:
                size += -(-math.prod(shape.numpy()) * element_type(dtype).bits // 8)
    return size, unknown


def is_prescribed(value: onnx_ir.Value, imports: Imports) -> bool:
    """True if the standard allows no other type for the value, as for a constant shape of a Reshape.

    Runtimes keep such values on the host.
    """
    producer, users = value.producer(), value.consumers()
    if value.is_graph_output() or value.is_graph_input() or not users:
        return False
    if producer is not None and producer.op_type != "Constant" and not _is_fixed(producer, value, imports):
        return False
    return all(_is_fixed(user, value, imports) for user in users)


def _is_fixed(node: onnx_ir.Node, value: onnx_ir.Value, imports: Imports) -> bool:
    """True if the schema allows one type for each place of the node at which the value stands."""
    key = None if node.graph is None else op_key(node, imports[node.graph])
    return key is not None and all(
        formal is not None and len(formal.allowed) == 1
        for operand, formal in with_formals(node, key)
        if operand is value
    )
