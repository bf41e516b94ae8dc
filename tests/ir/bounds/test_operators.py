"""The bounds of every operator, on the first cases of `operator_soak`, which shows that no result leaves them.

`bounds.txt` has the bounds of each value to four digits, so that a change of a rule is seen, for the better too;
`python -m tests.ir.bounds.test_operators` writes it again. Run `operator_soak` on the operators that changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import onnx.defs
import pytest

from castsmith import bounds
from tests.ir.bounds.operator_soak import case_of
from tests.ir.bounds.operators import OPERATORS

FILE = Path(__file__).with_name("bounds.txt")
SEEDS = range(8)
NEAR = 2e-3
"""The relative difference that is allowed: the last digit of the file, and the last bits of other libraries."""

Ends = tuple[str, float, float]


def found(name: str, seed: int) -> dict[str, Ends] | None:
    """Return the bound of each value of a case; None if the installed release of ONNX is too old for it."""
    case = case_of(name, seed)
    if case.opset > onnx.defs.onnx_opset_version():
        return None
    made = bounds(case.model(), ranges=case.ranges)
    outputs = [output for node in case.nodes for output in node.output if output in made]
    return {output: (made[output].how, made[output].low, made[output].high) for output in outputs}


def recorded() -> Iterator[tuple[str, int, dict[str, Ends]]]:
    for line in FILE.read_text(encoding="utf-8").splitlines():
        name, seed, *values = line.split()
        ends = {value.split("=")[0]: value.split("=")[1].split(",") for value in values}
        yield name, int(seed), {key: (how, float(low), float(high)) for key, (how, low, high) in ends.items()}


def near(one: Ends, other: Ends) -> bool:
    size = max((abs(end) for end in (*one[1:], *other[1:]) if math.isfinite(end)), default=0.0)
    pairs = zip(one[1:], other[1:], strict=True)
    return one[0] == other[0] and all(
        (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=NEAR, abs_tol=1e-6 * size) for a, b in pairs
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_bounds_are_those_recorded(seed: int) -> None:
    wrong = list[str]()
    count = 0
    for name, turn, expected in recorded():
        made = found(name, seed) if turn == seed else None
        if made is None:
            continue
        count += 1
        if made.keys() != expected.keys() or not all(near(made[key], expected[key]) for key in expected):
            wrong.append(f"{name} {seed}: {made} instead of {expected}")
    assert wrong == []
    assert count > len(OPERATORS) / 2


def write() -> None:
    lines = list[str]()
    for name in sorted(OPERATORS):
        for seed in SEEDS:
            values = (found(name, seed) or {}).items()
            texts = [f"{key}={how},{low:.4g},{high:.4g}" for key, (how, low, high) in values]
            lines.append(" ".join([name, str(seed), *texts]))
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
