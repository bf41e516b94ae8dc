"""The traits in a row of the table of operators (`castsmith.ir.ops.table`), and the words for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import onnx_ir
from onnx_ir import DataType


class Moves(Enum):
    """Kind of movement: elements of any type are moved without computing with them."""

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


WHOLE = frozenset({Moves.KEEP, Moves.PERMUTE, Moves.REPEAT})
"""Moves of one operand that leave no element out."""
OF_ONE = WHOLE | {Moves.SELECT, Moves.SPLIT}
"""Moves that give elements of one operand only."""
OF_OPERANDS = OF_ONE | {Moves.JOIN, Moves.CHOOSE}
"""Moves that give elements of operands only."""


class Rounding(Enum):
    """Effect on exact numbers: the number of roundings in the operator's definition."""

    NONE = "the result is an operand or its negative, an adjacent integer, or not a number"
    ONCE = "the result is one exact number, rounded once"


class Conversion(Enum):
    """Kind of conversion of elements to another type."""

    CAST = "to the same numbers, as Cast rounds them"
    BITS = "to the same bits"
    QUANTIZE = "by a scale and a zero point"
    DEQUANTIZE = "back by a scale and a zero point"


class Answer(Enum):
    """Property of elements that an operator tests, if its result is not a number made of them."""

    COMPARISON = "how two elements compare"
    QUESTION = "a predicate of each element"
    LOGIC = "a logical combination of answers"
    PLACES = "the positions of nonzero elements"
    EXTREME = "the position of the greatest or least element"


class Indices(Enum):
    """Meaning of the elements of input 1."""

    ALONG_AXIS = "places along the attribute axis, of either integer type"
    TUPLES = "rows, each a place along the first axes"


class Size(Enum):
    """Source of the size of a result that may be larger than its operands."""

    SHAPE = "the product of the inputs' elements"
    TIMES = "the size of input 0 times the product of the input's elements"
    RANGE = "start, limit and step"
    PAD = "the shape of input 0 and the padding"
    RESIZE = "scales or sizes"
    FRAMES = "step and length of a frame"


class Role(Enum):
    """Owner of the type that an attribute names."""

    RESULT = "an output of the node"
    COMPUTE = "steps inside the node, and outputs that are by-products of them"


class Input(Enum):
    """Kind of an input. Only an operand may count as a scalar, which takes the type of the tensors beside it.

    A zero point, a scale or a filling would wrap or round by that.
    """

    OPERAND = "a number to compute with"
    STORED = "elements that are kept as they are: a filling, an element of a sequence"
    QUANTIZATION = "a scale or a zero point, whose type says how to compute"


@dataclass(frozen=True)
class Restriction:
    """From opset `since` to `until`, if `applies`, input 0 and what shares its type variable are of `allowed`."""

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
    """The row of an operator.

    Attributes:
        elements: The inputs whose elements it moves or picks; others hold conditions, shapes, indices or parameters.
        when: True for a node to whose attributes and outputs the row applies; None if it applies to every node.
        computes: If `when` does not hold it computes with the elements, and does not only move them.
        cast_passes: place-casts moves a cast of its elements from before it to after it.
        carries: fold-constants follows a constant through it.
        ordered: It selects by the order of the elements.
        elementwise: An element of a result depends only on the elements in the same position.
        modular: On integers the result is the exact one, in every type that holds it.
        keeps_shape: Its first output has the shape of its first input, whatever the others are.
        products: It multiplies matrices.
        on_bits: It computes with the bits of its operands.
        reduces: It makes one element of all those along the axes that it is given.
        runs_graphs: It runs the subgraphs that are its attributes.
        never_scalar: Neither operands (except Unsqueeze's) nor results have rank 0.
        on_bool: The logical operator that its arithmetic is on bool.
        in_pairs: The operator of two operands of which it is a chain.
        size: What determines the size of its result, and the inputs that hold it.
        types: The attributes that name an element type, by number; 0 means none. (Cast-1 and CastMap name them by
            text.)
        stored: The inputs that are stored values, by `Input`.
        scaling: The inputs that are scales and zero points, by `Input`.
        typed_by_input: Without the attribute that names a type, the type is that of an input.
        revised: Its versions may compute different results from the same parameters.
        later: The attributes that a later opset added and that by default change nothing.
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
    keeps_shape: bool = False
    products: bool = False
    on_bits: bool = False
    reduces: bool = False
    runs_graphs: bool = False
    never_scalar: bool = False
    random: bool = False
    on_bool: str | None = None
    in_pairs: str | None = None
    size: tuple[Size, tuple[int, ...]] | None = None
    types: Mapping[str, Role] | None = None
    restrictions: tuple[Restriction, ...] = ()
    stored: Inputs = ()
    scaling: tuple[int, ...] = ()
    typed_by_input: bool = False
    revised: bool = False
    later: tuple[str, ...] = ()

    def holds(self, node: onnx_ir.Node) -> bool:
        """True if the row applies to the attributes and outputs of the node."""
        return self.when is None or self.when(node)

    def moved(self, inputs: Sequence[onnx_ir.Value | None]) -> list[onnx_ir.Value | None]:
        """Return those of the inputs that hold elements."""
        wanted = range(len(inputs)) if self.elements is None else self.elements
        return [inputs[index] for index in wanted if index < len(inputs)]
