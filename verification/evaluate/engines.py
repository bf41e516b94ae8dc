"""One operator run by itself, by ONNX Runtime, OpenVINO or the reference implementation of ONNX, in another process.

By itself, because ONNX Runtime merges chains of casts even with its optimization off, and so changes values: the result
of the whole model in it differs from the meaning of the model. In another process, because an engine that
crashes or does not end must not end verify too.
"""

from __future__ import annotations

import atexit
import itertools
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import onnx.helper
import onnx_ir

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.qonnx import QONNX_DOMAINS
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import traits_of, type_attributes
from castsmith.ir.ops.traits import Role
from castsmith.verification.evaluate.names import EngineName
from castsmith.verification.evaluate.process import LONGEST_REQUEST, CrashError, EngineError, Process
from castsmith.verification.evaluate.promotion import Array, dtype_of

ENGINES = get_args(EngineName)

OURSELVES = "castsmith"
"""The name under which conversions, promotions and QONNX's quantizers are recorded: exact arithmetic, not an engine."""

TITLES = {
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "reference": "the reference implementation of ONNX",
    "qonnx": "the package qonnx",
}

_BY_OPENVINO = ("float32", "float16", "int32", "int8", "uint8", "bool")
_INT32 = np.iinfo(np.int32)
_SHORTEST_START = 10.0
"""Seconds to load a model, also where a call may take less: the first one imports the engine."""

_MOST_GONE = 64
"""Models that are forgotten with one request, which takes as long as running a small one."""

_OF_TYPES = "not support"
"""In an error of a kernel of ONNX Runtime that loads, and refuses its types when it runs."""
_OF_MEMORY = ("bad_alloc", "bad allocation", "Failed to allocate", "Unable to allocate", "MemoryError")


class LimitError(EngineError):
    """A comparison exceeded its limits of time or memory."""


_PROCESS = Process(Path(__file__).with_name("worker.py"))
atexit.register(_PROCESS.close)


def process() -> Process:
    """Return the one process of this program, shared by all threads: starting one takes as long as many comparisons."""
    return _PROCESS


_KEYS = itertools.count()
_GONE: deque[int] = deque()
"""The keys of models that are no longer used."""


@dataclass
class Prepared:
    """A model in the other process; `turn` is the number of the start."""

    kind: str
    model: bytes
    fixed: Mapping[str, Array] = field(default_factory=dict[str, Array])
    key: int = field(default_factory=_KEYS.__next__)
    turn: int = 0

    def __post_init__(self) -> None:
        weakref.finalize(self, _GONE.append, self.key)

    def ready(self, seconds: float = LONGEST_REQUEST) -> None:
        """Load the model if necessary. Raises EngineError if the engine refuses it."""
        worker = process()
        with worker.lock:
            if len(_GONE) > _MOST_GONE and worker.is_alive:
                worker.ask("forget", [_GONE.popleft() for _ in range(len(_GONE))])
            if self.turn != worker.turn or not worker.is_alive:
                worker.ask("prepare", self.key, self.kind, self.model, self.fixed, seconds=seconds)
                self.turn = worker.turn

    def run(self, feeds: Mapping[str, Array], seconds: float = LONGEST_REQUEST) -> list[Any]:
        """Return the outputs for the inputs by name."""
        with process().lock:
            self.ready(max(seconds, _SHORTEST_START))
            return process().ask("run", self.key, dict(feeds), seconds=min(seconds, LONGEST_REQUEST))


@dataclass
class Engine:
    """Runs operators; caches each by its node and input types.

    Attributes:
        ran: The operators by the engine that ran them, or `castsmith` for its own arithmetic.
        half_inside: Says which nodes add up elements of float16 in float16, as the reference implementation does:
            ONNX Runtime's CPU does so in float, which other kernels do not.
        stood_in: Those which the engine refused, so that the reference implementation ran them.
        crashes: Descriptions of crashes of the process.
    """

    name: str
    half_inside: Callable[[onnx_ir.Node], bool] = lambda _: False
    ran: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    stood_in: set[str] = field(default_factory=set[str])
    crashes: list[str] = field(default_factory=list[str])
    _runs: dict[tuple[object, ...], tuple[str, Prepared]] = field(
        default_factory=dict[tuple[object, ...], tuple[str, Prepared]]
    )

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            choices = f"{', '.join(ENGINES[:-1])} and {ENGINES[-1]}"
            raise EngineError(f"unknown engine {self.name!r}; expected {choices}.")
        require_installed(self.name)

    def note(self, engine: str, op_type: str) -> None:
        """Note which engine ran an operator of the type."""
        self.ran.setdefault(engine, set()).add(op_type)

    def run(
        self,
        node: onnx_ir.Node,
        operands: Sequence[Array | None],
        imports: Mapping[str, int],
        *,
        seconds: float = LONGEST_REQUEST,
        fresh: bool = False,
        extra: Mapping[str, float] | None = None,
        again: bool = False,
    ) -> list[Array]:
        """Return the outputs of the node for the operands, which have supported types.

        Args:
            fresh: Use a new session, since an operator with a seed continues its random sequence.
            extra: Additional attributes of the node.
            again: True for the second attempt, in a new process: one that held many models may have lacked memory.
        """
        feeds = {f"i{index}": array for index, array in enumerate(operands) if array is not None}
        constant = {f"i{i}" for i, value in enumerate(node.inputs) if constant_tensor(value) is not None}
        key = (node, *((name, dtype_of(array), array.ndim) for name, array in feeds.items()))
        if fresh or key not in self._runs:
            self._runs[key] = self._prepared(node, operands, imports, feeds, constant, extra)
        engine, prepared = self._runs[key]
        self.note(engine, node.op_type)
        gathered = _gathered(node, operands) if engine == "reference" else None
        if gathered is not None:
            return [gathered]
        variable_feeds = {name: array for name, array in feeds.items() if name not in prepared.fixed}
        try:
            return _placed(node, prepared.run(variable_feeds, seconds))
        except CrashError as error:
            if not again and not error.late:
                return self.run(node, operands, imports, seconds=seconds, fresh=fresh, extra=extra, again=True)
            self.crashes.append(f"{TITLES.get(engine, engine)} {error} in {node.op_type} on {_types_text(feeds)}")
            if error.late:
                raise LimitError(f"{node.op_type} {error} on {_types_text(feeds)} (`seconds=` allows more).") from None
            if engine == "reference":
                raise EngineError(f"{node.op_type} {error} on {_types_text(feeds)}.") from None
            self._stand_in(node, key, prepared)
            return self.run(node, operands, imports, seconds=seconds, extra=extra)
        except EngineError as error:
            if engine == "onnxruntime" and _OF_TYPES in str(error):
                self._stand_in(node, key, prepared)
                return self.run(node, operands, imports, seconds=seconds, extra=extra)
            kind = LimitError if any(word in str(error) for word in _OF_MEMORY) else EngineError
            raise kind(f"{node.op_type} does not run on {_types_text(feeds)}: {error}.", error.unsupported) from None

    def _stand_in(self, node: onnx_ir.Node, key: tuple[object, ...], prepared: Prepared) -> None:
        """Let the reference implementation run the node from now on."""
        self._runs[key] = ("reference", Prepared("reference", prepared.model, prepared.fixed))
        self.stood_in.add(node.op_type)

    def _prepared(
        self,
        node: onnx_ir.Node,
        operands: Sequence[Array | None],
        imports: Mapping[str, int],
        feeds: Mapping[str, Array],
        constant: set[str],
        extra: Mapping[str, float] | None,
    ) -> tuple[str, Prepared]:
        """Return the engine that runs the node, prepared: the selected one if it supports the node for any numbers.

        If ONNX Runtime supports the node but refuses numbers, such as an index out of range, and not types, no other
        engine replaces it: the reference implementation's result would not be better, and it may not end.
        """
        model = alone(node, operands, imports, extra).SerializeToString()
        fixed = {name: array for name, array in feeds.items() if name in constant}
        if node.domain in QONNX_DOMAINS and find_spec("qonnx") is not None:
            return "qonnx", Prepared("qonnx", model, fixed)
        if is_half(operands) and adds_up(node) and self.half_inside(node):
            prepared = Prepared("reference", model, fixed)
            if self._runs_on(prepared, feeds):
                return "reference", prepared
        if self._takes(operands):
            prepared = Prepared(self.name, model, fixed)
            trial = {name: array for name, array in feeds.items() if name not in fixed}
            if self._reads(node, prepared, trial):
                return self.name, prepared
        last = Prepared("reference", model, fixed)
        try:
            last.ready()
        except CrashError:
            raise
        except EngineError as error:
            text = f"no engine supports {node.op_type} of {node.domain or 'ai.onnx'} ({error})."
            raise EngineError(text, unsupported=True) from None
        if self.name != "reference":
            self.stood_in.add(node.op_type)
        return "reference", last

    def _reads(self, node: onnx_ir.Node, prepared: Prepared, feeds: Mapping[str, Array]) -> bool:
        """True if the engine loads the node, tried in a new process after a crash; OpenVINO must run it too."""
        for again in (False, True):
            try:
                prepared.ready()
                if self.name == "openvino":
                    prepared.run(feeds)
                return True
            except CrashError as error:
                if again or error.late:
                    self.crashes.append(f"{TITLES[self.name]} {error} when it reads {node.op_type}")
                    return False
            except EngineError:
                return False
        return False

    def _runs_on(self, prepared: Prepared, feeds: Mapping[str, Array]) -> bool:
        """True if the node runs on the operands."""
        try:
            prepared.run({name: array for name, array in feeds.items() if name not in prepared.fixed})
        except EngineError:
            return False
        return True

    def _takes(self, operands: Sequence[Array | None]) -> bool:
        """True if the engine is tried at all: only numpy's own types can be inputs of a session."""
        if self.name == "reference" or any(array is not None and array.dtype.isbuiltin == 2 for array in operands):
            return False
        return self.name != "openvino" or all(array is None or _kept_by_openvino(array) for array in operands)


def is_half(operands: Sequence[Array | None]) -> bool:
    """True if the first operand is of float16."""
    first = operands[0] if operands else None
    return first is not None and first.dtype == np.float16


def adds_up(node: onnx_ir.Node) -> bool:
    """True if the node makes few elements of many: a sum, a mean, a norm. A product of matrices adds up in float."""
    row = traits_of(node.domain, node.op_type)
    if node.op_type == "ReduceLogSumExp":
        return False  # kernels subtract the maximum first
    if row.reduces or node.domain not in DEFAULT_DOMAINS:
        return row.reduces and not row.ordered
    if Role.COMPUTE in type_attributes(node.domain, node.op_type).values():
        return False  # `stash_type` says that its statistics are in float
    return node.op_type.startswith(("Lp", "GlobalLp")) or (
        node.op_type.endswith("Normalization") and node.op_type != "BatchNormalization"
    )


def require_installed(engine: str) -> None:
    """Raise EngineError, with installation instructions, for an engine that is not installed."""
    if engine != "reference" and find_spec(engine) is None:
        raise EngineError(
            f"{TITLES[engine]} is not installed: `pip install {engine}`, or choose the engine `reference`."
        )


def _kept_by_openvino(array: Array) -> bool:
    """True if OpenVINO computes on the array in its own type; sizes and axes fit in int32."""
    if array.dtype != np.int64:
        return array.dtype.name in _BY_OPENVINO
    return not array.size or (int(array.min()) >= _INT32.min and int(array.max()) <= _INT32.max)


def renamed(node: onnx_ir.Node, operands: Sequence[Array | None]) -> onnx.NodeProto:
    """Return the node with its operands named by their places, `i0` on, absent ones not at all, and no results yet."""
    proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    proto.attribute.extend(onnx_ir.serde.serialize_node(node).attribute)
    proto.input.extend("" if array is None else f"i{index}" for index, array in enumerate(operands))
    return proto


def alone(
    node: onnx_ir.Node,
    operands: Sequence[Array | None],
    imports: Mapping[str, int],
    extra: Mapping[str, float] | None = None,
) -> onnx.ModelProto:
    """Return a model of this node alone, with additional attributes."""
    proto = renamed(node, operands)
    proto.output.extend(f"o{index}" if value.name else "" for index, value in enumerate(node.outputs))
    proto.attribute.extend(onnx.helper.make_attribute(name, number) for name, number in (extra or {}).items())
    inputs = [
        onnx.helper.make_tensor_value_info(f"i{index}", int(dtype_of(array)), [None] * array.ndim)
        for index, array in enumerate(operands)
        if array is not None
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in proto.output if name]
    graph = onnx.helper.make_graph([proto], "alone", inputs, outputs)
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in imports.items()]
    if node.domain not in imports and node.domain not in ("", "ai.onnx"):
        opsets.append(onnx.helper.make_opsetid(node.domain, 1))
    model = onnx.helper.make_model(graph, opset_imports=opsets)
    model.ir_version = min(model.ir_version, 10)
    return model


def _gathered(node: onnx_ir.Node, operands: Sequence[Array | None]) -> Array | None:
    """Return the result of a GatherElements; None for other operators.

    The reference implementation of ONNX refuses tables of more than 64 elements along the axis, and takes the wrong
    element, or does not end, for an index that is not valid.
    """
    if node.op_type != "GatherElements" or node.domain not in DEFAULT_DOMAINS:
        return None
    table, index = operands[:2]
    axis = node.attributes.get_int("axis", 0) or 0
    if table is None or index is None or table.ndim != index.ndim or not -table.ndim <= axis < table.ndim:
        return None
    across = [shape[:axis] + shape[axis % table.ndim + 1 :] for shape in (table.shape, index.shape)]
    if across[0] != across[1]:
        return None
    size = table.shape[axis]
    if index.dtype.kind not in "iu" or not ((index >= -size) & (index < size)).all():
        raise EngineError(f"GatherElements gets an index that is not one of the {size} elements along its axis.")
    return np.take_along_axis(table, index.astype(np.int64), axis)


def _placed(node: onnx_ir.Node, results: Sequence[Any]) -> list[Array]:
    """Return the results in the positions of the outputs; None for an absent output."""
    if any(isinstance(result, list | tuple | dict) for result in results):
        raise EngineError(
            "its result is a sequence or a map, which is supported for the sequence operators of ONNX only",
            unsupported=True,
        )
    remaining = iter(results)
    return [np.asarray(next(remaining)) if value.name else np.zeros(0) for value in node.outputs]


def _types_text(feeds: Mapping[str, Array]) -> str:
    return " and ".join(f"{dtype_of(a).name.lower()}{list(a.shape)}" for a in feeds.values()) or "no operands"
