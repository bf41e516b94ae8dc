"""Every operator and every opset after 13 that changed its schema: a model of it moved one opset below, and back.

The models are the standard's own node tests of one node. Each is unchanged, rewritten, written out, or refused with a
reason, and computes the same bits as before; what is written out, close numbers. `python -m
tests.lowering.opset.test_obstacles` moves all of them and writes the table `downward.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx.backend.test.case.test_case import TestCase
from onnx.reference import ReferenceEvaluator

from castsmith.ir.records import Records
from castsmith.lowering.opset.version import LegalizeVersion, move_to
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target
from tests.graphs.backend import array_of_case, node_cases
from tests.lowering.runtime import LEVELS, run, session
from tests.sampling import check_all, sampled
from tests.versions import ONNX

TABLE = Path(__file__).with_name("downward.txt")
OLDEST = 13
_TYPES = re.compile(r"(of opset \d+ does not support )(?:\w+(?: of its types)?) as ((?:in|out)put) \d+")
_RANDOM = {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"}
Move = tuple[str, int]
"""An operator, and an opset that changed it, or that introduced it."""


@cache
def cases() -> dict[Move, list[str]]:
    """Return the names of the node tests of each operator that cross each of its changes."""
    found: dict[Move, list[str]] = {}
    for name, case in sorted(node_cases("").items()):
        if case.model is None or name.endswith("_expanded") or len(case.model.graph.node) != 1:
            continue
        (node,) = case.model.graph.node
        now = next((entry.version for entry in case.model.opset_import if not entry.domain), 0)
        if node.domain == "" and onnx.defs.has(node.op_type, now, ""):
            for since in versions(node.op_type, now):
                found.setdefault((node.op_type, since), []).append(name)
    return found


def versions(op_type: str, now: int) -> list[int]:
    """Return the opsets after 13 up to `now` that changed the operator."""
    known = (opset for opset in range(OLDEST + 1, now + 1) if onnx.defs.has(op_type, opset, ""))
    found = {onnx.defs.get_schema(op_type, opset, "").since_version for opset in known}
    return sorted(since for since in found if since > OLDEST)


def outcome(proto: onnx.ModelProto, since: int) -> tuple[str, onnx.ModelProto]:
    """Move the model to the opset before `since`; say what became of its node."""
    model = onnx_ir.from_proto(proto)
    target = Target("old", "of an older opset", newest_opset=since - 1, newest_ir_version=model.ir_version)
    records = LegalizeVersion(target)(model).records
    if records.refusals:
        reasons = sorted({_TYPES.sub(r"\1a type as \2", refusal.reason) for refusal in records.refusals})
        return "refused: " + " and ".join(reasons), onnx_ir.to_proto(model)
    rules = {rewrite.rule for rewrite in records.rewrites}
    made = {"adapt-operator": "rewritten", "write-out-operator": "written out"}
    return next((said for rule, said in made.items() if rule in rules), "unchanged"), onnx_ir.to_proto(model)


def relation(case: TestCase, before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    """Compare what both models give in the reference evaluator; if they differ or it lacks one, in ONNX Runtime."""
    assert case.data_sets is not None
    values = [array_of_case(value) for value in case.data_sets[0][0]]
    feeds = dict(zip((info.name for info in before.graph.input), values, strict=True))
    found = _relation(lambda proto: ReferenceEvaluator(proto).run(None, feeds), before, after)
    if found == "same bits":
        return found
    other = _relation(lambda proto: run(session(proto, LEVELS[0]), feeds), before, after)
    return found if other == "not computed" else other


def _relation(compute: Callable[[onnx.ModelProto], Any], before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    try:
        wanted, got = compute(before), compute(after)
    except Exception:  # neither has all operators, of all opsets, and some need optional packages
        return "not computed"
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(wanted, got, strict=True)]
    if any(a.dtype != b.dtype or a.shape != b.shape for a, b in pairs):
        return "another type or shape"
    if all(a.tobytes() == b.tobytes() for a, b in pairs):
        return "same bits"
    wide = [(a.astype(np.float64), b.astype(np.float64)) for a, b in pairs]
    return "close" if all(np.allclose(a, b, 1e-2, 1e-2, equal_nan=True) for a, b in wide) else "other numbers"


def moved(move: Move) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each test, what became of its node, and how the results relate."""
    for name in cases()[move]:
        case = node_cases("")[name]
        proto = case.model or onnx.ModelProto()
        said, after = outcome(proto, move[1])
        kinds = {value.type.WhichOneof("value") for value in (*proto.graph.input, *proto.graph.output)}
        if said.startswith("refused") or move[0] in _RANDOM or kinds != {"tensor_type"}:
            yield name, said, "not computed"
            continue
        onnx.checker.check_model(after, full_check=True)
        yield name, said, relation(case, proto, after)


def row(move: Move) -> str:
    found = list(moved(move))
    for name, said, how in found:
        allowed = {"same bits", "not computed", *(["close"] if said == "written out" else [])}
        assert how in allowed, f"{name}, below opset {move[1]}: {said}, {how}"
    return f"{move[0]} {move[1]}: {'; '.join(sorted({said for _, said, _ in found}))}"


ROWS = TABLE.read_text("utf-8").splitlines()


@pytest.mark.parametrize("text", sampled("schema changes", ROWS, 8, always=lambda text: text.startswith("CumProd 26")))
def test_a_model_is_moved_below_a_change_or_refused_as_the_table_says(text: str) -> None:
    op_type, since = text.partition(":")[0].split()
    if (op_type, int(since)) not in cases():
        pytest.skip(f"the installed onnx has no test of {op_type} of opset {since}")
    found = row((op_type, int(since)))
    assert found == text or ONNX < (1, 23)


_ONE_WAY = {("Cast", 24), ("CastLike", 24)}
"""Changes after which infinity saturates: before, an operand that is not infinite has to be proven so."""


def check_back(op_type: str, since: int) -> None:
    """What moves below a change unchanged, or rewritten, moves back and gives the same bits."""
    for name in cases()[op_type, since]:
        case = node_cases("")[name]
        proto = case.model or onnx.ModelProto()
        said, before = outcome(proto, since)
        if said not in ("unchanged", "rewritten"):
            continue
        model, records = onnx_ir.from_proto(before), Records()
        if not move_to(Session(model), since, "", records):
            assert (op_type, since) in _ONE_WAY, f"{name}: {records.refusals}"
            continue
        after = onnx_ir.to_proto(model)
        onnx.checker.check_model(after, full_check=True)
        kinds = {value.type.WhichOneof("value") for value in (*proto.graph.input, *proto.graph.output)}
        if op_type not in _RANDOM and kinds == {"tensor_type"}:
            assert relation(case, proto, after) in ("same bits", "not computed"), name


def test_what_is_moved_below_a_change_moves_back() -> None:
    rewritten = ("Split 18", "ReduceMax 18", "Pad 18")
    rows = sampled("schema changes back", ROWS, 8, always=lambda text: text.startswith(rewritten))
    moves = (text.partition(":")[0].split() for text in rows)
    check_all(check_back, [(op_type, int(since)) for op_type, since in moves if (op_type, int(since)) in cases()])


def test_the_table_has_a_row_for_every_schema_change_that_has_a_test() -> None:
    named = [line.partition(":")[0].split() for line in ROWS]
    assert ONNX < (1, 23) or sorted((op_type, int(since)) for op_type, since in named) == sorted(cases())


if __name__ == "__main__":
    TABLE.write_text("".join(f"{row(move)}\n" for move in sorted(cases())), encoding="utf-8")
    print(len(cases()), "changes")
