"""Writes docs/numerics.md from the code, so that it cannot say anything else: `python -m docs.generate_numerics`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
from onnx_ir import DataType

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.settings import FIRST_OPSET, NEWEST_OPSET, policy_for
from castsmith.numerics.exactness import Reason, chain_collapses, is_exact
from castsmith.numerics.quantize.schema import ATTRIBUTES, TYPES
from castsmith.numerics.status import Definedness, rules_for, text_rules_for
from castsmith.numerics.types import (
    ELEMENT_TYPES,
    FLOAT8_TYPES,
    NUMERIC_TYPES,
    ElementType,
    Kind,
    element_type,
    type_name,
)
from tests.numerics.cast.backend_differences import DIFFERENT
from tests.numerics.runtimes.runtime_differences import DIFFERENCES

HERE = Path(__file__).parent
PAGE = HERE / "numerics.md"
FLOATS = [row for row in ELEMENT_TYPES.values() if row.kind is Kind.FLOATING]
INTEGERS = [row for row in ELEMENT_TYPES.values() if row.kind is Kind.INTEGER]
COMMON = [
    *(DataType.BOOL, DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16, DataType.INT32, DataType.UINT32),
    *(DataType.INT64, DataType.UINT64, DataType.FLOAT16, DataType.BFLOAT16, DataType.FLOAT, DataType.DOUBLE),
    *(DataType.FLOAT8E4M3FN, DataType.FLOAT8E5M2),
]


def page() -> str:
    """The whole document."""
    sections: tuple[tuple[str, Callable[[], Iterable[str]]], ...] = (
        ("Formats", formats),
        ("Special values", special_values),
        ("Types and attributes by opset", opsets),
        ("Elements without a defined result", open_ends),
        ("Differences of runtimes from the schema", departures),
        ("ONNX backend node tests", backend),
        ("Exact casts", exact_casts),
        ("Chains equal to one cast", chains),
    )
    lines = [
        "# Numbers: formats and conversions",
        "",
        "Look up the range of a type, what a special value becomes in a cast, the opset that adds a type, and where a",
        "runtime differs from the standard. `python -m docs.generate_numerics` writes this page from the code.",
    ]
    for title, body in sections:
        lines += ["", f"## {title}", "", *body()]
    return "\n".join(lines) + "\n"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    columns = list(head)
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def formats() -> Iterator[str]:
    yield from table(
        (
            "floating point",
            "bits",
            "exponent",
            "mantissa",
            "bias",
            "largest",
            "smallest normal",
            "smallest",
            "specials",
        ),
        (_float_row(row) for row in FLOATS),
    )
    yield ""
    yield from table(
        ("integer", "bits", "least", "largest"),
        ((row.name, str(row.bits), str(row.min), str(row.max)) for row in INTEGERS),
    )
    yield ""
    yield "`bool` is 0 or 1. `string` is text. `complex64` and `complex128` have no Cast."


def _float_row(row: ElementType) -> tuple[str, ...]:
    counts = (str(n) for n in (row.bits, row.exponent_bits, row.mantissa_bits, row.bias))
    normal = Fraction(2) ** row.min_exponent
    return (row.name, *counts, _number(row.max), _number(normal), _number(row.quantum), row.specials.value)


def _number(value: Fraction) -> str:
    """Exact: a whole number or a short decimal as it is, anything else with its power of two."""
    plain = f"{float(value):g}"
    if Fraction(plain) == value and "e" not in plain:
        return plain
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > value
    factor = value / Fraction(2) ** exponent
    if factor == 1:
        return f"2^{exponent}"
    bits = factor.denominator.bit_length() - 1
    gap = 2 - factor
    shown = str(float(factor)) if bits < 8 else f"(2 - 2^{gap.numerator.bit_length() - gap.denominator.bit_length()})"
    return f"{shown} 2^{exponent}"


def special_values() -> Iterator[str]:
    targets = [row for row in FLOATS if row.bits <= 16]
    names = ("+infinity", "-infinity", "NaN", "-0", "above the largest")
    for saturate, opset in ((True, NEWEST_OPSET), (False, NEWEST_OPSET), (True, 23)):
        chosen = (
            targets if saturate and opset == NEWEST_OPSET else [row for row in targets if row.dtype in FLOAT8_TYPES]
        )
        yield f"`saturate={int(saturate)}`, opset {opset}{'' if opset == NEWEST_OPSET else ' (the same from 19 on)'}:"
        yield ""
        yield from table(("float to", *names), (_special_row(row, saturate, opset) for row in chosen))
        yield ""
    yield "The attribute `round_mode` rounds float8e8m0. Types without infinity and NaN always saturate."
    yield "Where the standard defines no result ([below](#elements-without-a-defined-result)), you see what"
    yield "`castsmith.cast` gives."


def _special_row(row: ElementType, saturate: bool, opset: int) -> tuple[str, ...]:
    above = float(row.max) * 1.5 if row.max < 2**120 else np.finfo(np.float32).max
    values = np.array([np.inf, -np.inf, np.nan, -0.0, above], np.float32)
    return (
        row.name,
        *(_named(v, row) for v in cast(values, row.dtype, saturate=saturate, opset=opset).astype(np.float32)),
    )


def _named(value: np.float32, row: ElementType) -> str:
    if np.isnan(value):
        return "NaN"
    sign = "-" if np.signbit(value) else ""
    if np.isinf(value):
        return f"{sign}infinity"
    if Fraction(float(abs(value))) == row.max:
        return f"{sign}{_number(row.max)}"
    return f"{sign}{_number(Fraction(float(abs(value))))}"


def opsets() -> Iterator[str]:
    yield from table(
        ("opset", "new types of Cast, and of CastLike from opset 15 on, except float6"),
        (
            (str(opset), ", ".join(type_name(dtype) for dtype, first in FIRST_OPSET.items() if first == opset))
            for opset in sorted(set(FIRST_OPSET.values()))
        ),
    )
    yield ""
    yield "Opset 19 adds the attribute `saturate`, and opset 24 adds `round_mode`. A saturating cast of infinity to the"
    yield "two fnuz types gives NaN up to opset 23, and the maximum from opset 24 on."
    for op in ("QuantizeLinear", "DequantizeLinear"):
        yield ""
        yield from table(("opset", f"new in {op}"), _operator_rows(op))


def _operator_rows(op: str) -> Iterator[tuple[str, str]]:
    news: dict[int, list[str]] = {}
    for (of, place), types in TYPES.items():
        for first in sorted(set(types.values())) if of == op else ():
            names = ", ".join(type_name(dtype) for dtype, opset in types.items() if opset == first)
            news.setdefault(first, []).append(f"{place}: {names}")
    for (of, name), first in ATTRIBUTES.items():
        if of == op:
            news.setdefault(first, []).append(f"attribute `{name}`")
    return ((str(opset), "; ".join(news[opset])) for opset in sorted(news))


def open_ends() -> Iterator[str]:
    yield "`castsmith.cast_status` gives the status of each element, and"
    yield "`castsmith.numerics.status.status_reason` the reason:"
    yield ""
    yield "- DEFINED: the standard says what the result is."
    yield "- DISPUTED: the standard is ambiguous, or runtimes disagree."
    yield "- UNDEFINED: the standard leaves the result open."
    yield ""
    yield "The table lists every case that is not DEFINED:"
    yield ""
    found: dict[tuple[str, str], list[str]] = {}
    for target in (*NUMERIC_TYPES, DataType.STRING):
        for saturate, opset in ((True, 28), (False, 28), (True, 23)):
            policy = policy_for(target, saturate=saturate, round_mode="up", opset=opset)
            for rule in rules_for(DataType.DOUBLE, target, policy) if target is not DataType.DOUBLE else ():
                _note(found, rule.standing, rule.reason, target)
        for rule in text_rules_for(target):
            _note(found, rule.standing, rule.reason, target)
    yield from table(
        ("status", "elements", "casts to"),
        ((standing, what, ", ".join(names)) for (standing, what), names in found.items()),
    )


def _note(found: dict[tuple[str, str], list[str]], standing: Definedness, reason: str, target: DataType) -> None:
    row, name = element_type(target), type_name(target)
    limits = f", which holds {row.min} to {row.max}" if row.kind is Kind.INTEGER else ""
    general = reason.replace(limits, "").replace(f"est {name}", "est of the type").replace(name, "the type")
    names = found.setdefault((standing.name, general), [])
    if name not in names:
        names.append(name)


def departures() -> Iterator[str]:
    yield "`castsmith.numerics.runtimes.dispatch.cast_as` converts as a runtime does. Each row has an example for the"
    yield "first types that it names. The runtime is wrong, unless the row says that the schema leaves the result open."
    yield ""
    yield "Two results change with the position of an element in the vector, so `cast_as` does not reproduce them:"
    yield ""
    yield "- a floating-point number outside the range of an integer type of 8 bits or more"
    yield "- the sign and payload of a NaN"
    yield ""
    yield "`astype` of ml_dtypes behaves like the reference evaluator, but never saturates to float8."
    yield ""
    yield from table(
        ("runtime", "from", "to", "difference", "value", "schema", "runtime's result"),
        (
            (
                row.runtime,
                _sorts(row.sources),
                _sorts(row.targets),
                row.what,
                *(f"`{text}`" for text in (row.value, row.schema, row.result)),
            )
            for row in DIFFERENCES
        ),
    )


def _sorts(dtypes: tuple[DataType, ...]) -> str:
    groups = {
        "any number": set(NUMERIC_TYPES),
        "any floating point": {row.dtype for row in FLOATS},
        "bool and integers of 8 bits and more": {DataType.BOOL} | {row.dtype for row in INTEGERS if row.bits >= 8},
        "integers of 8 bits and more": {row.dtype for row in INTEGERS if row.bits >= 8},
    }
    for name, members in groups.items():
        if members == set(dtypes):
            return name
    return ", ".join(type_name(dtype) for dtype in dtypes)


def backend() -> Iterator[str]:
    yield "Castsmith gives the expected bits for all node tests of Cast, CastLike, BitCast, QuantizeLinear and"
    yield "DequantizeLinear, except the tests below. These expect a result that the schema does not define."
    yield ""
    for why in sorted(set(DIFFERENT.values())):
        yield f"{why}:"
        yield ""
        yield from (f"- `{name}`" for name, reason in DIFFERENT.items() if reason == why)


def exact_casts() -> Iterator[str]:
    yield "An `x` means that the cast from the row's type to the column's type keeps every value, -0 and NaN included."
    yield ""
    yield from table(
        ("from \\ to", *(dtype.short_name() for dtype in NUMERIC_TYPES)),
        ((type_name(a), *("x" if is_exact(a, b) else "" for b in NUMERIC_TYPES)) for a in NUMERIC_TYPES),
    )


def chains() -> Iterator[str]:
    names = ", ".join(type_name(dtype) for dtype in COMMON)
    outcomes: Counter[Reason] = Counter()
    kept = 0
    for a, b, c in product(COMMON, repeat=3):
        if a != b and b != c:
            found = chain_collapses(a, b, c)
            outcomes[found.reason] += 1
            kept += found.collapses
    yield f"Of the {outcomes.total()} chains of two casts over {names},"
    yield f"{kept} give the same result as the direct cast for every value. `chain_collapses` decides each chain, and"
    yield "gives an example value where the chain and the direct cast differ."
    yield ""
    yield from table(("chains", "reason"), ((str(count), reason.value) for reason, count in outcomes.most_common()))
    yield ""
    yield "Comparing the precisions alone (p_b >= 2 p_c + 2) is not enough. The chain from double to float to float16"
    yield "meets that condition. Yet it converts 1 + 2^-11 + 2^-40 to 1, and the direct cast gives 1 + 2^-10."


if __name__ == "__main__":
    PAGE.write_text(page())
