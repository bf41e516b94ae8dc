"""What operators do to powers of two: a value v that is stored as v * 2^-s has the exponent s, linear in some unknowns.

Addition demands one exponent of all operands, a product adds them up, a root halves them; a weight takes any exponent,
which is exact as long as its elements stay normal numbers. A normalization is the same for any scale, if its epsilon
moves too. Exp and Log make a term of a power and a power of a term. What is none of those, such as Tanh, demands 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.handed_on import Border, borders, value_at
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import traits_of
from castsmith.ir.ops.traits import Answer, Moves
from castsmith.ir.walks import all_nodes
from castsmith.numerics.errors import present

Form = Mapping[int, Fraction]
"""A linear form: the coefficient of each unknown."""
Edge = Border
"""An operand of a node, or an output of the model, a subgraph or a function."""
Place = Edge | onnx_ir.Value
"""Where an adapter is put: before one operand, or behind a value, for all nodes that read it."""
NOTHING: Form = {}


def plus(first: Form, second: Form, factor: Fraction | int = 1) -> Form:
    """Return the first form plus a multiple of the second."""
    total = dict(first)
    for unknown, coefficient in second.items():
        total[unknown] = total.get(unknown, Fraction(0)) + factor * coefficient
    return {unknown: coefficient for unknown, coefficient in total.items() if coefficient}


def times(form: Form, factor: Fraction | int) -> Form:
    """Return a multiple of the form."""
    return plus(NOTHING, form, factor)


@dataclass
class Exponents:
    """The exponents of all values, and the equations between them.

    Attributes:
        inference: The element types.
        adapters: The places at which a multiplication by a power of two is put.
        of: The exponent of each value.
        constants: The exponent of each constant operand.
        equations: The forms that must be 0, each with the operands at which an adapter would take it away.
        attributes: The exponent of each number that a node has as an attribute, as an epsilon.
        inner: The exponent of what a node computes on the way, where its result has another.
        repairs: The exponent that a node does not hand on by itself: what makes up for it is put beside the node.
        inexact: The unknowns that are not 0 only with a repair.
        adapted: The exponent by which each adapter divides.
    """

    inference: Inference
    adapters: frozenset[Place]
    of: dict[onnx_ir.Value, Form] = field(default_factory=dict[onnx_ir.Value, Form])
    constants: dict[Edge, Form] = field(default_factory=dict[Edge, Form])
    equations: list[tuple[Form, tuple[Edge, ...]]] = field(default_factory=list[tuple[Form, tuple[Edge, ...]]])
    attributes: dict[tuple[onnx_ir.Node, str], Form] = field(default_factory=dict[tuple[onnx_ir.Node, str], Form])
    inner: dict[onnx_ir.Node, Form] = field(default_factory=dict[onnx_ir.Node, Form])
    repairs: dict[onnx_ir.Node, Form] = field(default_factory=dict[onnx_ir.Node, Form])
    inexact: set[int] = field(default_factory=set[int])
    adapted: dict[Place, Form] = field(default_factory=dict[Place, Form])
    _count: int = 0

    def state(self, model: onnx_ir.Model) -> None:
        """State the exponents of all nodes, that what is handed on keeps its own, and that outputs have none."""
        crossings = [(node, border) for node in all_nodes(model) for border in borders(model, node)]
        for node, (_, receiver) in crossings:
            if self.is_scaled(receiver):
                self.of[receiver] = NOTHING if node.op_type == "SequenceMap" else self.fresh()
        holding = {node for node, _ in crossings}
        for node in (node for node in all_nodes(model) if node not in holding):
            self._node(node)
        for _, (edge, receiver) in crossings:
            source, form = value_at(edge), self.of.get(receiver, NOTHING)
            if not self.is_scaled(source):
                continue
            if isinstance(edge[0], onnx_ir.Node) and constant_tensor(source) is not None:
                self.constants[edge] = form
            else:
                self.demand(plus(form, self._through(present(source, "what is handed on"), edge), -1), edge)
        for index, value in enumerate(model.graph.outputs):
            self.demand(self._through(value, (model.graph, index)), (model.graph, index))

    def _node(self, node: onnx_ir.Node) -> None:
        default = node.domain in DEFAULT_DOMAINS
        row = traits_of(node.domain, node.op_type)
        rule = RULES.get(node.op_type if default else f"{node.domain}.{node.op_type}")
        if rule is not None:
            rule(self, node)
        elif row.moves in _MOVING:
            of_elements = [i for i in range(len(node.inputs)) if row.elements is None or i in row.elements]
            alike(self, node, of_elements)
        elif row.moves is Moves.SHAPE or row.answer is Answer.EXTREME:
            self.result(node, NOTHING)
        elif row.answer is Answer.COMPARISON:
            alike(self, node)
        else:
            rigid(self, node)

    def is_scaled(self, value: onnx_ir.Value | None) -> bool:
        """True if the value is of float16, or of float beside it."""
        return self.inference.type_of(value) in (DataType.FLOAT16, DataType.FLOAT)

    def is_constant(self, node: onnx_ir.Node, index: int) -> bool:
        """True if the operand is a constant."""
        return constant_tensor(node.inputs[index]) is not None

    def at(self, node: onnx_ir.Node, index: int) -> Form:
        """Return the exponent with which the node reads an operand."""
        value = node.inputs[index]
        return NOTHING if value is None else self._through(value, (node, index))

    def _through(self, value: onnx_ir.Value, edge: Edge) -> Form:
        form = self.of.get(value, NOTHING)
        for place in (edge, value):
            if place in self.adapters and (place is edge or isinstance(edge[0], onnx_ir.Node)):
                self.adapted[place] = self.adapted.get(place) or self.fresh()
                form = plus(form, self.adapted[place])
        return form

    def fresh(self) -> Form:
        """Return a new unknown."""
        self._count += 1
        return {self._count: Fraction(1)}

    def result(self, node: onnx_ir.Node, form: Form) -> None:
        """Note the exponent of all results of float16."""
        self.of.update((value, form) for value in node.outputs if value.name and self.is_scaled(value))

    def demand(self, form: Form, *edges: Edge) -> None:
        """Demand that the form be 0."""
        self.equations.append((form, edges))


Rule = Callable[[Exponents, onnx_ir.Node], None]
_BIAS = 2
"""The operand that a Gemm adds."""
_LARGEST_DENOMINATOR = 4
"""Of the fractions that stand for powers: the exponent of an operand of Pow is a multiple of it."""
_MOVING = frozenset(Moves) - {Moves.FLOW, Moves.SHAPE, Moves.CONTENT, Moves.MAKE, Moves.PACK, Moves.UNPACK}


def alike(exponents: Exponents, node: onnx_ir.Node, operands: Iterable[int] | None = None) -> None:
    """All operands and the results have one exponent."""
    places = range(len(node.inputs)) if operands is None else operands
    scaled = [index for index in places if index < len(node.inputs) and exponents.is_scaled(node.inputs[index])]
    computed = [index for index in scaled if not exponents.is_constant(node, index)]
    form = exponents.at(node, computed[0]) if computed else exponents.fresh()
    for index in computed[1:]:
        exponents.demand(plus(form, exponents.at(node, index), -1), (node, computed[0]), (node, index))
    for index in scaled:
        if exponents.is_constant(node, index):
            exponents.constants[node, index] = form
    exponents.result(node, form)


def with_numbers(exponents: Exponents, node: onnx_ir.Node, operands: Iterable[int] | None = None) -> None:
    """As `alike`; before opset 11 bounds and what is padded with are attributes."""
    alike(exponents, node, operands)
    form = exponents.of.get(node.outputs[0], NOTHING)
    exponents.attributes |= {(node, name): form for name in ("min", "max", "value") if name in node.attributes}


def rigid(exponents: Exponents, node: onnx_ir.Node) -> None:
    """No operand and no result has an exponent."""
    for index, value in enumerate(node.inputs):
        if exponents.is_scaled(value) and not exponents.is_constant(node, index):
            exponents.demand(exponents.at(node, index), (node, index))
    exponents.result(node, NOTHING)


def first_only(exponents: Exponents, node: onnx_ir.Node) -> None:
    """The first operand and the results have one exponent; the others are no numbers of its scale."""
    alike(exponents, node, (0,))


def product(exponents: Exponents, node: onnx_ir.Node, *, weight: int = 1, bias: int = 2) -> None:
    """The exponents add up; a constant factor takes what is left, and a bias has that of the result."""
    first, second = exponents.at(node, 0), exponents.at(node, weight)
    if exponents.is_constant(node, 0) or exponents.is_constant(node, weight):
        form = exponents.fresh()
        place, exponent = (0, second) if exponents.is_constant(node, 0) else (weight, first)
        exponents.constants[node, place] = plus(form, exponent, -1)
    else:
        form = plus(first, second)
    exponents.result(node, form)
    if len(node.inputs) > bias and exponents.is_scaled(node.inputs[bias]):
        if exponents.is_constant(node, bias):
            exponents.constants[node, bias] = form
        else:
            exponents.demand(plus(form, exponents.at(node, bias), -1), (node, bias), (node, 0))


def gemm(exponents: Exponents, node: onnx_ir.Node) -> None:
    """A product of matrices, with a factor behind it, and one for its bias."""
    product(exponents, node, bias=3)
    form = exponents.of[node.outputs[0]]
    if node.attributes.get_float("alpha", 1.0) != 1.0:
        exponents.inner[node], form = form, exponents.fresh()
        exponents.attributes[node, "alpha"] = plus(form, exponents.inner[node], -1)
        exponents.result(node, form)
    if len(node.inputs) > _BIAS and exponents.is_scaled(node.inputs[_BIAS]):
        if exponents.is_constant(node, _BIAS):
            exponents.constants[node, _BIAS] = form
        else:
            exponents.attributes[node, "beta"] = plus(form, exponents.at(node, _BIAS), -1)


def einsum(exponents: Exponents, node: onnx_ir.Node) -> None:
    """A sum of products of two operands, or of the elements of one."""
    rules = {1: alike, 2: product}
    rules.get(len(node.inputs), rigid)(exponents, node)


def quotient(exponents: Exponents, node: onnx_ir.Node) -> None:
    """The exponent of the divisor is taken away."""
    if exponents.is_constant(node, 0):
        form = exponents.fresh()
        exponents.constants[node, 0] = plus(form, exponents.at(node, 1))
    elif exponents.is_constant(node, 1):
        form = exponents.fresh()
        exponents.constants[node, 1] = plus(exponents.at(node, 0), form, -1)
    else:
        form = plus(exponents.at(node, 0), exponents.at(node, 1), -1)
    exponents.result(node, form)


def multiple(factor: Fraction | int) -> Rule:
    """Return the rule of an operator that multiplies the exponent."""
    return lambda exponents, node: exponents.result(node, times(exponents.at(node, 0), factor))


def power(exponents: Exponents, node: onnx_ir.Node) -> None:
    """A constant power multiplies the exponent, as a fraction of a small denominator; what is left is a factor."""
    degree = degree_of(node)
    if degree is None:
        rigid(exponents, node)
        return
    exponents.result(node, times(exponents.at(node, 0), degree[0]))
    if degree[1]:
        exponents.repairs[node] = exponents.at(node, 0)


def degree_of(node: onnx_ir.Node) -> tuple[Fraction, float] | None:
    """Return a constant power as a fraction of a small denominator, as 1/3 rounded to float16 is, and the rest."""
    tensor = constant_tensor(node.inputs[1])
    if tensor is None or tensor.size != 1 or not math.isfinite(exponent := float(tensor.numpy().item())):
        return None
    degree = Fraction(exponent).limit_denominator(_LARGEST_DENOMINATOR)
    return degree, exponent - float(degree)


def exponential(exponents: Exponents, node: onnx_ir.Node) -> None:
    """The result has any exponent, if its logarithm is subtracted from the operand."""
    if exponents.is_constant(node, 0):
        rigid(exponents, node)
        return
    exponents.demand(exponents.at(node, 0), (node, 0))
    exponents.repairs[node] = form = exponents.fresh()
    exponents.inexact |= form.keys()
    exponents.result(node, form)


def logarithm(exponents: Exponents, node: onnx_ir.Node) -> None:
    """The operand has any exponent, if its logarithm is added to the result."""
    exponents.repairs[node] = exponents.at(node, 0)
    exponents.result(node, NOTHING)


def normalization(exponents: Exponents, node: onnx_ir.Node) -> None:
    """The operand has any exponent, the epsilon twice that, and scale and bias that of the result."""
    _normalized(exponents, node, exponents.at(node, 0), range(1, len(node.inputs)))


def skip_normalization(exponents: Exponents, node: onnx_ir.Node) -> None:
    """As `normalization`, of a sum of two operands and perhaps a bias, which is a result too."""
    bias = 3 if node.op_type == "SkipSimplifiedLayerNormalization" else 4
    alike(exponents, node, (0, 1, bias))
    _normalized(exponents, node, exponents.at(node, 0), range(2, min(bias, len(node.inputs))))


def _normalized(exponents: Exponents, node: onnx_ir.Node, operand: Form, others: Iterable[int]) -> None:
    indices = [index for index in others if node.inputs[index] is not None]
    form = exponents.fresh() if all(exponents.is_constant(node, index) for index in indices) else NOTHING
    if any(value.name for value in node.outputs[1:3]):  # the mean and the deviation are of the operand as it is
        exponents.demand(operand, (node, 0))
    exponents.attributes[node, "epsilon"] = times(operand, 2)
    for index in indices:
        if exponents.is_constant(node, index):
            exponents.constants[node, index] = form
        else:
            exponents.demand(exponents.at(node, index), (node, index))
    exponents.of[node.outputs[0]] = form


def batch_normalization(exponents: Exponents, node: onnx_ir.Node) -> None:
    """The mean has the exponent of the operand; scale and deviation share the difference to that of the result."""
    if not all(exponents.is_constant(node, index) for index in range(1, 5)) or len(node.outputs) > 1:
        rigid(exponents, node)
        return
    operand, form, deviation = exponents.at(node, 0), exponents.fresh(), exponents.fresh()
    exponents.inner[node], variance = plus(form, deviation), times(deviation, 2)
    exponents.constants |= {(node, 1): plus(exponents.inner[node], operand, -1), (node, 2): form, (node, 3): operand}
    exponents.constants[node, 4] = exponents.attributes[node, "epsilon"] = variance
    exponents.result(node, form)


def scale_free(exponents: Exponents, node: onnx_ir.Node) -> None:
    """The result is the same for an operand of any scale."""
    exponents.at(node, 0)
    exponents.result(node, NOTHING)


def dequantized(exponents: Exponents, node: onnx_ir.Node) -> None:
    """The scale takes any exponent."""
    if not exponents.is_constant(node, 1):
        rigid(exponents, node)
        return
    form = exponents.fresh()
    exponents.constants[node, 1] = form
    exponents.result(node, form)


def cast(exponents: Exponents, node: onnx_ir.Node) -> None:
    """A cast between floating-point types keeps the exponent."""
    (alike if exponents.is_scaled(node.inputs[0]) and exponents.is_scaled(node.outputs[0]) else rigid)(exponents, node)


def four_bits(exponents: Exponents, node: onnx_ir.Node) -> None:
    """The scales of the weights take any exponent."""
    product(exponents, node, weight=2, bias=5)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("Add", "Sub", "Sum", "Mean", "Max", "Min"), alike),
    **dict.fromkeys(("Relu", "LeakyRelu", "PRelu", "Abs", "Neg", "CumSum", "TopK"), first_only),
    **dict.fromkeys(
        ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "LpPool", "GlobalLpPool"), first_only
    ),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2"), first_only),
    **dict.fromkeys(("RotaryEmbedding", "com.microsoft.RotaryEmbedding"), first_only),
    **dict.fromkeys(("Mul", "MatMul", "Conv", "ConvTranspose"), product),
    **dict.fromkeys(("Gemm", "com.microsoft.FusedMatMul"), gemm),
    "Einsum": einsum,
    "com.microsoft.MatMulNBits": four_bits,
    "Div": quotient,
    "Pow": power,
    "Exp": exponential,
    **dict.fromkeys(("Log", "ReduceLogSum"), logarithm),
    "Sqrt": multiple(Fraction(1, 2)),
    "Reciprocal": multiple(-1),
    "ReduceSumSquare": multiple(2),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"), normalization),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization"), normalization),
    "BatchNormalization": batch_normalization,
    "com.microsoft.SkipLayerNormalization": skip_normalization,
    "com.microsoft.SkipSimplifiedLayerNormalization": skip_normalization,
    **dict.fromkeys(("LpNormalization", "MeanVarianceNormalization", "Sign"), scale_free),
    "DequantizeLinear": dequantized,
    "QuantizeLinear": lambda exponents, node: alike(exponents, node, (0, 1)),
    "Cast": cast,
    "Clip": with_numbers,
    "Where": lambda exponents, node: alike(exponents, node, (1, 2)),
    "Pad": lambda exponents, node: with_numbers(exponents, node, (0, 2)),
}
"""How each homogeneous operator changes exponents."""
