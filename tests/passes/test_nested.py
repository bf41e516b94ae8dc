"""Every golden case inside an If, a Loop, a Scan, a function and a function in an If: what each pass does there.

A pass does in a body what it does in the main graph, in both branches of an If: the same rules as often, rewrites and
refusals. Where it does not, because a function declares no shapes or the outputs of a body get other names,
`nested.txt` says what it does; `python -m tests.passes.test_nested` writes that file again, to be read.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnx.checker
import onnx_ir
import pytest

from tests.evaluator import evaluate
from tests.graphs.golden import Case, read
from tests.graphs.inputs import inputs_for
from tests.graphs.nesting import NESTS
from tests.sampling import QUICK, sampled

FOLDER = Path(__file__).with_name("golden")
CASES = {f"{path.parent.name}/{path.stem}": read(path) for path in sorted(FOLDER.glob("*/*.onnxtxt"))}
PASSES = sorted({path.parent.name for path in FOLDER.glob("*/*.onnxtxt")})
EXCEPTIONS = Path(__file__).with_name("nested.txt")
NO_FUNCTION = ("fold-constants/overridable_initializer_stays",)
"""Cases whose initializer is an input too, which has no counterpart in a function."""


def rules(case: Case, model: onnx_ir.Model) -> str:
    """Run the pass; return how often each rule rewrote and refused."""
    return _shown(_counted(case, model), 1)


def _counted(case: Case, model: onnx_ir.Model) -> Counter[str]:
    records = case.run(model)
    return Counter(each.rule for each in records.rewrites) + Counter(f"not {each.rule}" for each in records.refusals)


def _shown(found: Counter[str], times: int) -> str:
    return ", ".join(f"{rule} {count * times}" for rule, count in sorted(found.items())) or "nothing"


@cache
def _flat(key: str) -> Counter[str]:
    return _counted(CASES[key], CASES[key].model())


def in_graph(key: str, nest: str) -> str:
    """Return what the pass does in the main graph, twice for the two branches of an If."""
    return _shown(_flat(key), 1 + (nest == "If"))


def nested(case: Case, nest: str) -> onnx_ir.Model:
    return onnx_ir.from_proto(NESTS[nest](onnx.parser.parse_model(case.source)))


def _has_bodies(model: onnx_ir.Model) -> bool:
    """True if Loop and Scan are as they are written here, and initializers need not be inputs."""
    return model.opset_imports[""] >= 11 and model.ir_version >= 4


def cases(name: str, nest: str) -> dict[str, Case]:
    found = {key: case for key, case in CASES.items() if key.startswith(f"{name}/")}
    if nest in ("Loop", "Scan"):
        return {key: case for key, case in found.items() if _has_bodies(case.model())}
    return {key: case for key, case in found.items() if not ("function" in nest and key in NO_FUNCTION)}


def exceptions() -> dict[tuple[str, str], str]:
    made: dict[tuple[str, str], str] = {}
    for line in EXCEPTIONS.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            key, nest, found = line.split(" | ")
            made[key, nest] = found
    return made


@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_does_in_a_body_what_it_does_in_the_graph(name: str, nest: str) -> None:
    known, nests = exceptions(), list(NESTS)
    for number, (key, case) in enumerate(cases(name, nest).items()):
        if QUICK and nests[number % len(nests)] != nest:
            continue  # each case in one of the nests
        model = nested(case, nest)
        expected = known.get((key, nest)) or in_graph(key, nest)
        assert rules(case, model) == expected, f"{key} in {nest}"
        onnx.checker.check_model(onnx_ir.to_proto(model), full_check="insert-promote-types" not in case.spec)


@pytest.mark.parametrize("name", PASSES)
def test_a_body_computes_the_same_bits(name: str) -> None:
    """Each case in one of the nests, the next one for the next case."""
    every = list(enumerate(cases(name, "function").items()))
    for number, (key, case) in sampled(f"bodies to compute [{name}]", every, len(every)):
        if "fold_as" in case.spec or case.spec.startswith("insert-promote-types"):
            continue  # other values on purpose, and other types
        nest = list(NESTS)[number % len(NESTS)]
        if key not in cases(name, nest):
            continue
        before, after = nested(case, nest), nested(case, nest)
        case.run(after)
        feeds = inputs_for(before, 0, given=case.inputs)
        for old, new in zip(evaluate(before, feeds, case.rules()), evaluate(after, feeds), strict=True):
            assert old.dtype == new.dtype, f"{key} in {nest}"
            if old.dtype != object:
                same = np.ascontiguousarray(old).view(np.uint8), np.ascontiguousarray(new).view(np.uint8)
                np.testing.assert_array_equal(*same, err_msg=f"{key} in {nest}")


def write() -> None:
    lines = ["# Golden cases in which a pass does something else in a body than in the graph: case, nest, rules."]
    for name, nest in product(PASSES, NESTS):
        for key, case in cases(name, nest).items():
            found = rules(case, nested(case, nest))
            if found != in_graph(key, nest):
                lines.append(f"{key} | {nest} | {found}")
    EXCEPTIONS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
