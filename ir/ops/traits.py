"""What a row of the table of operators (`castsmith.ir.ops.table`) says: the traits, and the words for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import onnx_ir
from onnx_ir import DataType


class Moves(Enum):
    """How an operator moves elements, whatever their type, without computing with them."""

    KEEP = "all elements in the same order; done in place or removed by a runtime"
    PERMUTE = "all elements in another order"
    SELECT = "some of the elements, and reads no others"
    SPLIT = "all elements, dealt out to the outputs"
    REPEAT = "elements, some of them several times"
    JOIN = "the elements of all operands, one after the other"
    CHOOSE = "for each place the element of one of the operands"
    FILL = "elements, with zeros or a given number beside them"
    WRITE = "elements, some of them replaced by those of another operand"
    MAKE = "elements that the node itself names"
    PACK = "values into a sequence or an optional value"
    UNPACK = "values out of a sequence or an optional value"
    FLOW = "values into and out of subgraphs"
    SHAPE = "none: the result depends on the shape alone"
    CONTENT = "none: the result says how much a sequence or an optional value holds"


class Rounding(Enum):
    """What becomes of exact numbers: how many roundings the operator's definition has."""

    NONE = "the result is an operand or its negative, a whole number next to it, or no number"
    ONCE = "the result is one exact number, rounded once"


class Conversion(Enum):
    """How an operator converts elements to another type."""

    CAST = "to the same numbers, as Cast rounds them"
    BITS = "to the same bits"
    QUANTIZE = "by a scale and a zero point"
    DEQUANTIZE = "back by a scale and a zero point"


class Answer(Enum):
    """What an operator asks of elements, where its result is no number made of them."""

    COMPARISON = "how two elements compare"
    QUESTION = "one question of each element"
    LOGIC = "of answers: an answer"
    PLACES = "where the elements are that are not zero"
    EXTREME = "where the greatest or least element is"


class Indices(Enum):
    """What the elements of input 1 are."""

    ALONG_AXIS = "places along the attribute axis, of either integer type"
    TUPLES = "rows, each a place along the first axes"


class Size(Enum):
    """By what an operator whose result may be larger than its operands says how large."""

    SHAPE = "the product of the inputs' elements"
    TIMES = "the size of input 0 times the product of the input's elements"
    RANGE = "start, limit and step"
    PAD = "the shape of input 0 and the padding"
    RESIZE = "scales or sizes"
    FRAMES = "step and length of a frame"


class Role(Enum):
    """What the type that an attribute names is the type of."""

    RESULT = "an output of the node"
    COMPUTE = "steps inside the node, and outputs that are by-products of them"


class Input(Enum):
    """What an input is to its operator. Only an operand may count as a scalar, which takes the type of the tensors
    beside it: a zero point, a scale or a filling would wrap or round by that."""

    OPERAND = "a number to compute with"
    STORED = "elements that are kept as they are: a filling, an element of a sequence"
    QUANTIZATION = "a scale or a zero point, whose type says how to compute"


@dataclass(frozen=True)
class Restriction:
    """From opset `since` to `until`, where `applies`, input 0 and what shares its type variable are of `allowed`."""

    since: int
    until: int
    applies: Callable[[onnx_ir.Node], bool]
    allowed: frozenset[DataType]
    because: str


EVERY = None
"""All inputs, however many there are."""

Inputs = tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The row of an operator. elements: the inputs whose elements it moves or picks; others hold conditions, shapes,
    indices or parameters.

    when: True for a node whose attributes and outputs leave it what the row says; None: every node.
    computes: without `when` it computes with the elements, and is not among the operators that only move.
    cast_passes: place-casts takes a cast of its elements from before it to after it.
    carries: fold-constants follows a constant through it.
    ordered: it picks by the order of the elements.
    elementwise: an element of a result depends on the elements in its place alone.
    modular: on integers the result is the exact one, in every type that holds it.
    never_scalar: neither operands (but Unsqueeze's) nor results have rank 0.
    on_bool: the operator of logic that the arithmetic is on bool.
    size: by what it says how much it makes, and in which inputs.
    types: the attributes that name an element type, by number; 0 is none. (Cast-1 and CastMap name them by text.)
    stored, scaling: the inputs that are parameters, by `Input`.
    """

    moves: Moves | None = None
    elements: Inputs = EVERY
    indices: Indices | None = None
    when: Callable[[onnx_ir.Node], bool] | None = None
    computes: bool = False
    cast_passes: bool = False
    carries: bool = False
    ordered: bool = False
    rounding: Rounding | None = None
    conversion: Conversion | None = None
    answer: Answer | None = None
    elementwise: bool = False
    modular: bool = False
    never_scalar: bool = False
    random: bool = False
    on_bool: str | None = None
    size: tuple[Size, tuple[int, ...]] | None = None
    types: Mapping[str, Role] | None = None
    restrictions: tuple[Restriction, ...] = ()
    stored: Inputs = ()
    scaling: tuple[int, ...] = ()

    def holds(self, node: onnx_ir.Node) -> bool:
        """True if the attributes and outputs of the node leave it what the row says."""
        return self.when is None or self.when(node)

    def moved(self, inputs: Sequence[onnx_ir.Value | None]) -> list[onnx_ir.Value | None]:
        """Those of the inputs that hold elements."""
        wanted = range(len(inputs)) if self.elements is None else self.elements
        return [inputs[index] for index in wanted if index < len(inputs)]
