"""Normalized expressions: functions of one element by their tables, and moved below moves of elements.

- An operator on each element of one source, with scalars and tables beside it, is one function of that source. If
  the function is known for every element (`castsmith.verification.prove.tables`) its expression is its digest.
- A function of moved, concatenated or chosen elements is the move, concatenation or choice of its results.
- An operator on each element of constants is a constant.
- Two Reshapes in a row are one, and a Reshape to the present shape is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.table import CASTS, operators, traits_of
from castsmith.ir.ops.traits import OF_OPERANDS
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.common import common_type
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import ELEMENT_TYPES
from castsmith.verification.prove.programs import ELEMENTWISE, SOURCE, Program, constant, evaluated, step
from castsmith.verification.prove.tables import digest
from castsmith.verification.prove.types import bound_together, cast_to, has_schema, result_type
from castsmith.verification.prove.values import Attributes, Book

Op = tuple[str, str, int]
Inputs = tuple[int | None, ...]

_MOST_STEPS, _MOST_SOURCES, _DEEPEST = 40, 24, 64
_LARGEST_FOLDED = 1 << 20

_MOVED = {
    op_type: traits_of("", op_type).elements
    for op_type in operators(lambda row: row.moves in OF_OPERANDS and not row.computes)
}
"""Operators that only move elements, and the operands whose elements they move; None: all of them."""


@dataclass
class Normal(Book):
    """A book in which each expression is normalized before it is written."""

    strict: bool = False
    """True if the payload of a NaN counts."""
    rules: PromotionRules | None = None
    """The promotion rules for operands that disagree in type."""
    pause: Callable[[], None] | None = None
    """Called after each expression; it may raise an error to end the work."""
    views: dict[int, dict[int, Program]] = field(default_factory=dict[int, dict[int, Program]])
    """Each expression as a function of the elements of others, earlier ones first; also of itself."""
    _made: dict[Any, int] = field(default_factory=dict[Any, int])
    _roots: dict[int, int] = field(default_factory=dict[int, int])
    _depth: int = 0
    _programs: dict[Any, Program] = field(default_factory=dict[Any, Program])
    _digests: dict[tuple[Program, DataType], Any] = field(default_factory=dict[tuple[Program, DataType], Any])

    def input(self, name: str, dtype: DataType | None, default: tuple[int, ...]) -> int:
        """Return the number of a graph input, whose type is part of it."""
        number = super().input(name, dtype, default)
        if dtype is not None and dtype in ELEMENT_TYPES:
            self.types[number] = dtype
        return number

    def constant(self, tensor: onnx_ir.TensorProtocol) -> int:
        number = super().constant(tensor)
        self.types[number] = tensor.dtype
        return number

    def operator(self, op: Op, attributes: Attributes, inputs: Inputs, index: int, count: int) -> int:
        key = op, attributes, inputs, index, count
        if key not in self._made:
            self._depth += 1
            self._made[key] = self._operator(*key)
            self._depth -= 1
            if self.pause is not None:
                self.pause()
        return self._made[key]

    def _operator(self, op: Op, attributes: Attributes, inputs: Inputs, index: int, count: int) -> int:
        domain, kind, _ = op
        first = inputs[0] if inputs else None
        if domain or first is None or not has_schema(op):
            return self._recorded(op, attributes, inputs, index, count)
        settings = dict(attributes)
        promoted = self._promoted(op, inputs)
        if promoted is None:
            return self.unique()
        inputs = promoted
        if kind == "Identity" or (kind == "Dropout" and op[2] >= 7 and len(inputs) < 3 and index == 0):
            return first
        if kind in CASTS and cast_to(kind, settings, inputs, self.types) == self.types.get(first, 0):
            return first
        if kind == "Shape":
            inputs = (self._root(first),)
            ends = {name: int(settings[name][1]) for name in ("start", "end") if name in settings}
            sizes = self.sizes.get(inputs[0] or 0)
            part = [None] if sizes is None else sizes[ends.get("start", 0) : ends.get("end")]
            if None not in part:
                return self.constant(onnx_ir.tensor(np.array(part, np.int64)))
        if kind == "Reshape" and len(inputs) == 2:
            once = self._reshaped_once(settings, inputs)
            if once != inputs:
                return self.operator(op, attributes, once, index, count)
            if self._has_shape(first, once[1]):
                return first
            if once[1] in self.constants and 0 not in self.constants[once[1]].numpy():
                attributes = tuple(attribute for attribute in attributes if attribute[0] != "allowzero")
        program = self.step_of(op, attributes, inputs)
        if program is not None:
            return self._applied(program, op, attributes, inputs, index, count)
        return self._recorded(op, attributes, inputs, index, count)

    def _promoted(self, op: Op, inputs: Inputs) -> Inputs | None:
        """Return the operands that one type variable binds in their common type, if they differ and it exists.

        None if it may depend on whether an operand is written as a constant, which expressions do not tell.
        """
        dtypes = {self.types.get(number) for number in inputs if number is not None}
        if self.rules is None or len(dtypes) < 2:
            return inputs
        moved, rules = list(inputs), self.rules
        for places in bound_together(op, len(inputs)):
            types = [self.types.get(number) for at in places if (number := inputs[at]) is not None]
            if None in types or len(set(types)) < 2:
                continue
            if (rules.weak_scalars or rules.half_constants) and any(inputs[at] in self.constants for at in places):
                return None
            if rules.pytorch_scalar_promotion:
                continue
            try:
                common = common_type([(dtype, 1) for dtype in types if dtype is not None], rules)
            except PromotionError:
                continue
            cast = (("to", ("INT", str(int(common or 0)))),)
            for at in places if common is not None else ():
                number = inputs[at]
                moved[at] = (
                    self.operator(("", "Cast", NEWEST_OPSET), cast, (number,), 0, 1) if number is not None else None
                )
        return tuple(moved)

    # ---- functions of one element

    def step_of(self, op: Op, attributes: Attributes, inputs: Inputs) -> tuple[str, tuple[Any, ...]] | None:
        """Return the operator with its settings, as a step of programs; None if it is unsupported."""
        kind, settings = op[1], dict(attributes)
        if kind not in ELEMENTWISE and kind != "CastLike":
            return None
        if kind in CASTS:
            to = cast_to(kind, settings, inputs, self.types)
            if to is None:
                return None
            saturate = settings.get("saturate", ("INT", "1"))[1] == "1"
            mode = settings.get("round_mode", ("STRING", "'up'"))[1].strip("b'\"")
            return "Cast", (int(to), saturate, mode, op[2])
        if kind == "BitCast":
            to = result_type(op, attributes, inputs, 0, self.types)
            return None if to is None else (kind, (int(to),))
        if kind == "BitShift":
            return kind, (settings["direction"][1].strip("b'\""),)
        if kind in ("Gather", "GatherElements"):
            data = next(iter(inputs))
            table = self.constants.get(data) if data is not None else None
            is_vector = (
                table is not None and len(table.shape) == 1 and settings.get("axis", ("INT", "0"))[1] in ("0", "-1")
            )
            return (kind, ()) if is_vector else None
        return None if settings else (kind, ())  # before opset 7 some align their operands by an axis

    def _applied(self, program: Any, op: Op, attributes: Attributes, inputs: Inputs, index: int, count: int) -> int:
        """Return the operator on these inputs: moved below moves, or as a function."""
        name, settings = program
        operands = inputs[:1] if name == "Cast" else inputs
        values = [number for number in operands if number is not None]
        varying = list(dict.fromkeys(number for number in values if number not in self.constants))
        if len(values) == len(operands) and not varying and count == 1:
            result = evaluated(step(name, settings, [self._constant(number) for number in values]))
            if result is not None and result.size <= _LARGEST_FOLDED and result.dtype.kind not in "OSU":
                return self.constant(onnx_ir.tensor(result))
        if len(values) < len(operands) or not varying or not self._scalars(name, values):
            return self._recorded(op, attributes, inputs, index, count)
        pushed = self._pushed(op, attributes, inputs, varying, index, count)
        if pushed is not None:
            return pushed
        common = set(self._views(varying[0])).intersection(*(self._views(number) for number in varying[1:]))
        programs: dict[int, Program] = {}
        for source in sorted(common)[:_MOST_SOURCES]:
            parts = [self._constant(n) if n in self.constants else self._views(n)[source] for n in values]
            interned = self._interned(name, settings, parts)
            if interned.size > _MOST_STEPS:
                continue
            programs[source] = interned
        for source, interned in programs.items():
            digest = self._digest(interned, source)
            if digest is None:
                continue
            text, dtype = digest
            if text == "same":
                return source
            number = self.number(("function", source, text))
            self.types[number] = dtype
            return self._viewed(number, programs)
        number = self._recorded(op, attributes, inputs, index, count)
        return self._viewed(number, programs)

    def _scalars(self, name: str, values: list[int]) -> bool:
        """True if constants among the operands are scalars, so that the result has the shape of the others."""
        constants = [self.constants[number] for number in values if number in self.constants]
        if name in ("Gather", "GatherElements"):
            return True
        return all(len(tensor.shape) == 0 for tensor in constants)

    def _views(self, number: int) -> dict[int, Program]:
        return self.views.get(number) or {number: SOURCE}

    def _viewed(self, number: int, programs: dict[int, Program]) -> int:
        """Return the number, which also gets these functions. Earlier functions of it are equal."""
        self.views.setdefault(number, {**programs, number: SOURCE})
        return number

    def _constant(self, number: int) -> Program:
        key = ("constant", number)
        if key not in self._programs:
            tensor = self.constants[number]
            self._programs[key] = constant(tensor.numpy(), tensor.dtype)
        return self._programs[key]

    def _interned(self, name: str, settings: tuple[Any, ...], parts: list[Program]) -> Program:
        key = (name, settings, *parts)
        if key not in self._programs:
            self._programs[key] = step(name, settings, parts)
        return self._programs[key]

    def _digest(self, program: Program, source: int) -> tuple[str, DataType] | None:
        dtype = self.types.get(source)
        if dtype is None:
            return None
        key = (program, dtype)
        if key not in self._digests:
            self._digests[key] = digest(program, dtype, strict=self.strict)
        return self._digests[key]

    def _root(self, number: int, depth: int = 0) -> int:
        """Return an expression of the same shape: the earliest of which this one is an element-wise function.

        For a move of elements, the same move of such expressions.
        """
        if number not in self._roots:
            root = min(self._views(number))
            key, data = self.keys[root], self._data(root)
            if data and depth < _DEEPEST:
                inner = tuple(self._root(n, depth + 1) if at in data else n for at, n in enumerate(key[3]))
                root = root if inner == key[3] else self.number((*key[:3], inner, *key[4:]))
            self._roots[number] = root
        return self._roots[number]

    def _data(self, number: int) -> set[int]:
        """Return the positions of the operands whose elements an expression only moves; empty if it does more."""
        key = self.keys[number]
        if key[0] != "operator" or key[1][0] or key[1][1] not in _MOVED:
            return set()
        places = _MOVED[key[1][1]]
        return {at for at, operand in enumerate(key[3]) if operand is not None and (places is None or at in places)}

    # ---- moves of elements

    def _pushed(
        self, op: Op, attributes: Attributes, inputs: Inputs, varying: list[int], index: int, count: int
    ) -> int | None:
        """Return the operator below the move of its operands, if all are moved alike and fit together there."""
        keys = [self.keys[number] for number in varying]
        if self._depth > _DEEPEST or not all(map(self._data, varying)):
            return None
        if any(self._views(number).keys() - {number} for number in varying):
            return None
        _, moving, settings, operands, place, outputs = keys[0]
        data = self._data(varying[0])
        columns = list(zip(*(key[3] for key in keys), strict=False))
        alike = all(
            key[1:3] == keys[0][1:3] and key[4:] == keys[0][4:] and len(key[3]) == len(operands) for key in keys
        )
        if not alike or any(len(set(column)) > 1 for at, column in enumerate(columns) if at not in data):
            return None
        if len(varying) > 1 and not all(self._fit(columns[at]) for at in data):
            return None
        inner: list[int | None] = []
        for at, operand in enumerate(operands):
            if at not in data or operand is None:
                inner.append(operand)
                continue
            swap: dict[int | None, int | None] = dict(zip(varying, columns[at], strict=True))
            inner.append(self.operator(op, attributes, tuple(swap.get(n, n) for n in inputs), index, count))
        return self.operator(moving, settings, tuple(inner), place, outputs)

    def _fit(self, column: tuple[Any, ...]) -> bool:
        """True if the expressions are functions of one, and so of one shape."""
        return None not in column and len({self._root(number) for number in column}) == 1

    def _reshaped_once(self, settings: dict[str, Any], inputs: Inputs) -> Inputs:
        """Return the operands of a Reshape without a preceding one to a vector, which always succeeds."""
        number, shape = inputs
        before = self.keys[number] if number is not None else ()
        if not before or before[0] != "operator" or before[1][:2] != ("", "Reshape") or len(before[3]) < 2:
            return inputs
        flat, target = self.constants.get(before[3][1]), self.constants.get(shape if shape is not None else -1)
        if flat is None or flat.numpy().tolist() != [-1]:
            return inputs
        exact = settings.get("allowzero", ("INT", "0"))[1] == "1"
        if exact or (target is not None and 0 not in target.numpy()):
            return (before[3][0], shape)
        return inputs

    def _has_shape(self, number: int, shape: int | None) -> bool:
        """True if `shape` is the Shape of an expression with the same shape."""
        key = self.keys[shape] if shape is not None else ()
        if not key or key[0] != "operator" or key[1][:2] != ("", "Shape"):
            return False
        return not key[2] and key[3] == (self._root(number),)

    def _recorded(self, op: Op, attributes: Attributes, inputs: Inputs, index: int, count: int) -> int:
        number = super().operator(op, attributes, inputs, index, count)
        dtype = result_type(op, attributes, inputs, index, self.types)
        if dtype is not None:
            self.types[number] = dtype
        return number
