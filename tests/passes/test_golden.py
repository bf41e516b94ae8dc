"""Every golden case: the pass gives what the file says, a second run changes nothing, and the values stay the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest

from castsmith.numerics.cast.convert import cast
from tests.cli.codes_in_source import undescribed
from tests.evaluator import evaluate
from tests.graphs.golden import Case, comparable, model_text, read, records_text
from tests.graphs.inputs import inputs_for

pytestmark = pytest.mark.every_case
CASES = [read(path) for path in sorted(Path(__file__).with_name("golden").glob("*/*.onnxtxt"))]


@pytest.fixture(params=CASES, ids=lambda case: f"{case.path.parent.name}/{case.path.stem}")
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def test_gives_what_the_file_says(case: Case) -> None:
    model = case.model()
    records = case.run(model)
    assert comparable(model_text(model)) == comparable(case.expected)
    assert comparable(records_text(records)) == comparable(case.records)
    assert undescribed((*records.rewrites, *records.refusals)) == []


def test_second_run_changes_nothing(case: Case) -> None:
    model = case.model()
    case.run(model)
    before = model_text(model)
    assert not case.run(model).rewrites
    assert model_text(model) == before


def test_result_is_well_formed(case: Case) -> None:
    model = case.model()
    case.run(model)
    onnx.checker.check_model(onnx_ir.to_proto(model), full_check="insert-promote-types" not in case.spec)


def test_computes_the_same_bits(case: Case) -> None:
    if "fold_as" in case.spec:
        pytest.skip("folds as a runtime computes, which is not what the standard says")
    before, after = case.model(), case.model()
    case.run(after)
    for seed in range(3):
        feeds = inputs_for(before, seed, given=case.inputs)
        for old, new in zip(evaluate(before, feeds, case.rules()), evaluate(after, feeds), strict=True):
            if case.spec.startswith("insert-promote-types"):
                # Where control flow joins, and at outputs, this pass also says which type a value has in the end.
                old = cast(old, onnx_ir.DataType.from_numpy(new.dtype))
            assert old.dtype == new.dtype
            np.testing.assert_array_equal(_codes(old), _codes(new))


def _codes(array: np.ndarray) -> np.ndarray:
    return array if array.dtype == object else np.ascontiguousarray(array).view(np.uint8)


def test_there_are_cases() -> None:
    assert len(CASES) >= 40
