"""What the checker follows on cells of a float: it holds what the operators give, and no lowered cast that is wrong."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import castsmith
from castsmith.verification import checker
from tests.certificates import certificate_between
from tests.sampling import check_all, sampled
from tests.verification.pairs import HEAD

_HEAD = HEAD.replace("23", "26")
_NUMBERS = (
    *("0", "-0.0", "1", "-2.5", "0.3", "448", "24576", "0.015625", "1048577", "8388609", "-157835.5"),
    *("3e38", "1.5e-38", "inf"),
)
_UNARY = ("Abs", "Neg", "Floor", "Ceil", "Round", "Sqrt", "Log", "Relu")
_BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
_COMPARISONS = ("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal")


class _Chain:
    """Nodes, in ONNX text, drawn at random: each computes something of the float x, and of constants."""

    def __init__(self, random: Random) -> None:
        self.random, self.lines, self.counts = random, list[str](), itertools.count()
        self.names: dict[str, list[str]] = {"float": ["x"], "uint32": [], "int32": [], "bool": []}
        for _ in range(14):
            self._step()

    def _node(self, kind: str, text: str) -> str:
        name = f"{kind}_{next(self.counts)}"
        self.lines.append(f"{name} = {text}")
        self.names[kind].append(name)
        return name

    def _constant(self, kind: str, values: tuple[str, ...] = _NUMBERS) -> str:
        name = f"constant_{next(self.counts)}"
        self.lines.append(f"{name} = Constant <value = {kind} {{{self.random.choice(values)}}}> ()")
        return name

    def _value(self, kind: str) -> str:
        return self.random.choice(self.names[kind][-4:])

    def _operand(self) -> str:
        return self._value("float") if self.random.random() < 0.7 else self._constant("float")

    def _step(self) -> None:
        draw = self.random.choice
        kind = draw([*["float"] * 6, "split", "uint32", "int32", "bool", "back"])
        if kind == "float":
            op = draw((*_UNARY, *_BINARY, "Clip"))
            operands = [self._value("float")]
            if op in _BINARY:
                operands = self.random.sample([*operands, self._operand()], 2)
            elif op == "Clip":
                operands += [self._constant("float"), self._constant("float")]
            self._node("float", f"{op} ({', '.join(operands)})")
        elif kind == "split":
            part = self._node("float", f"Abs ({self._value('float')})")
            scaled = self._node("float", f"Mul ({part}, {self._constant('float')})")
            total = self._node("float", f"Max ({scaled}, {self._constant('float')})")
            rest = self._node("float", f"Sub ({total}, {part})")
            capped = self._node("float", f"Min ({rest}, {self._constant('float')})")
            self._node("float", f"Sub ({total}, {draw((rest, capped))})")
        elif kind == "uint32":
            if not self.names["uint32"] or self.random.random() < 0.3:
                self._node("uint32", f"BitCast <to = 12> ({self._value('float')})")
            elif self.random.random() < 0.5:
                shift = self._constant("uint32", ("3", "16", "23"))
                self._node("uint32", f'BitShift <direction = "RIGHT"> ({self._value("uint32")}, {shift})')
            else:
                mask = self._constant("uint32", ("65535", "4294901760", "2147483647", "16", "255"))
                self._node(
                    "uint32", f"{draw(('Max', 'Min', 'BitwiseAnd', 'Mod', 'Add'))} ({self._value('uint32')}, {mask})"
                )
        elif kind == "int32":
            if not self.names["int32"] or self.random.random() < 0.4:
                self._node("int32", f"Cast <to = 6> ({self._value('float')})")
            else:
                other = self._constant("int32", ("0", "1", "16", "-8", "255"))
                self._node("int32", f"{draw(('Max', 'Min', 'Add', 'Mul'))} ({self._value('int32')}, {other})")
        elif kind == "bool":
            self._node("bool", f"{draw(_COMPARISONS)} ({self._value('float')}, {self._operand()})")
            self._node("bool", f"IsNaN ({self._value('float')})")
        elif self.names["bool"] and self.random.random() < 0.5:
            self._node("float", f"Where ({self._value('bool')}, {self._operand()}, {self._value('float')})")
        else:
            kinds = [kind for kind in ("uint32", "int32") if self.names[kind]]
            whole = self._value(draw(kinds)) if kinds else f"{self._value('float')}"
            self._node("float", f"Cast <to = 1> ({whole})")


def _floats(random: np.random.Generator) -> tuple[Any, Any]:
    """Floats of all upper halves, and the cell of each."""
    upper = random.integers(0, 1 << 16, 6000).astype(np.uint32)
    lower = random.choice([0, 1, 2, 0x1234, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF], 6000).astype(np.uint32)
    return ((upper << 16) | lower).view(np.float32), np.where(lower == 0, upper, upper + (1 << 16))


def test_cells_hold_what_operators_give() -> None:
    counts = {True: 0, False: 0}

    def compare(seed: int) -> None:
        chain = _Chain(Random(seed))
        model = onnx.parser.parse_model(
            f"{_HEAD}g (float[N] x) => (float[N] y) {{ {' '.join(chain.lines)} y = Neg (x) }}"
        )
        pool: dict[str, checker.Array] = {}
        texts = checker.state_of(model, pool)
        reader = checker.checker_of(model, pool)
        values = reader.read(texts, is_first=True).values
        del model.graph.output[:]
        names = [line.partition(" ")[0] for line in chain.lines]
        model.graph.output.extend(map(onnx.helper.make_empty_tensor_value_info, names))
        x, places = _floats(np.random.default_rng(seed))
        with np.errstate(all="ignore"):
            results = dict(zip(names, ReferenceEvaluator(model).run(None, {"x": x}), strict=True))
        root = values["x"]
        whole = checker.cells_of(1)
        assert whole is not None
        followed = checker.Followed(reader.terms, root, whole)
        for name in names:
            cells = followed.cells(values[name])
            counts[cells is not None] += 1
            if cells is None:
                continue
            low, high, defined = (np.broadcast_to(part, 1 << 17)[places] for part in cells)
            result = np.ascontiguousarray(np.broadcast_to(results[name], x.shape)).astype(low.dtype)
            nan = result != result
            within = (checker.order(low) <= checker.order(result)) & (checker.order(result) <= checker.order(high))
            holds = ((low != low) == nan) & ((high != high) == nan) & (nan | within)
            assert (holds | ~defined).all(), (seed, name, chain.lines, x[~holds & defined][:3])

    check_all(compare, sampled("chains on cells", range(400), 60))
    assert counts[True] > counts[False] / 2


BITS: list[tuple[str, bool]] = [
    # what is computed of x before its bits are read, and whether they are known
    ("", True),
    ("a = Sqrt (x)", False),  # a NaN that is computed may have any bits
    ("a = Abs (x)", False),
    ("n = IsNaN (x) z = Constant <value = float {0}> () a = Where (n, z, x)", True),
]


def require_bits(before: str, known: bool) -> None:
    body = f"{before} y = BitCast <to = 12> ({'a' if before else 'x'})"
    model = onnx.parser.parse_model(f"{_HEAD}g (float[N] x) => (uint32[N] y) {{ {body} }}")
    pool: dict[str, checker.Array] = {}
    reader, whole = checker.checker_of(model, pool), checker.cells_of(1)
    values = reader.read(checker.state_of(model, pool), is_first=True).values
    assert whole is not None
    cells = checker.Followed(reader.terms, values["x"], whole).cells(values["y"])
    assert (cells is not None) == known


def test_bits_are_followed_where_no_computed_number_is_nan() -> None:
    check_all(require_bits, BITS)


_TYPES = (17, 18, 19, 20, 21, 22, 23)
"""The float8 types, uint4, int4 and float4."""


def _lowered(source: int, to: int) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    kinds = [onnx.TensorProto.DataType.Name(kind).lower() for kind in (source, to)]
    text = f"{HEAD}g ({kinds[0]}[N] x) => ({kinds[1]}[N] y) {{ y = Cast <to = {to}> (x) }}"
    before = onnx.parser.parse_model(text)
    return before, castsmith.optimize(before, target="tensorrt-11").proto


def _certified(before: onnx.ModelProto, after: onnx.ModelProto) -> bool:
    return checker.check(before, after, certificate_between(before, after)).certified


@pytest.mark.parametrize("source", [1, 10])
def test_casts_lowered_by_arithmetic_are_certified(source: int) -> None:
    def compare(to: int) -> None:
        assert _certified(*_lowered(source, to))

    check_all(compare, _TYPES)


def test_no_lowered_cast_with_another_constant_is_certified() -> None:
    """Each constant is changed: all but some limits, beyond which nothing lies, matter for some code."""
    before, after = _lowered(1, 17)
    still = list[float]()
    for index, tensor in enumerate(after.graph.initializer):
        value = float(onnx.numpy_helper.to_array(tensor))
        other = onnx.ModelProto.FromString(after.SerializeToString())
        array = np.array(value * 1.5, np.float32)
        other.graph.initializer[index].CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        if _certified(before, other):
            assert castsmith.verify(after, other).outcome != "different", value
            still.append(value)
    assert len(after.graph.initializer) == 11
    assert len(still) == 2  # what is divided for the sign, and the cap of what never exceeds it
