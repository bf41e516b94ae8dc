"""Every golden case: the pass gives what the file says, a second run changes nothing, and the values stay the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest

from castsmith.ir.records import Records
from castsmith.numerics.cast.convert import cast
from tests.cli.codes_in_source import undescribed
from tests.evaluator import evaluator, outputs_of
from tests.graphs.golden import Case, comparable, model_text, read, records_text
from tests.graphs.inputs import inputs_for
from tests.sampling import QUICK

pytestmark = pytest.mark.usefixtures("engines_here")

CASES = [read(path) for path in sorted(Path(__file__).with_name("golden").glob("*/*.onnxtxt"))]


@pytest.fixture(params=CASES, ids=lambda case: f"{case.path.parent.name}/{case.path.stem}")
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def test_a_case(case: Case) -> None:
    """One run of the pass serves all questions."""
    model = case.model()
    records = case.run(model)
    after = onnx_ir.from_proto(onnx_ir.to_proto(model))
    _gives_what_the_file_says(case, model, records)
    onnx.checker.check_model(onnx_ir.to_proto(model), full_check="insert-promote-types" not in case.spec)
    _second_run_changes_nothing(case, model)
    if "fold_as" not in case.spec:  # as a runtime computes, which is not what the standard says
        _computes_the_same_bits(case, after)


def _gives_what_the_file_says(case: Case, model: onnx_ir.Model, records: Records) -> None:
    assert comparable(model_text(model)) == comparable(case.expected)
    assert comparable(records_text(records)) == comparable(case.records)
    assert undescribed((*records.rewrites, *records.refusals)) == []


def _second_run_changes_nothing(case: Case, model: onnx_ir.Model) -> None:
    before = model_text(model)
    assert not case.run(model).rewrites
    assert model_text(model) == before


def _computes_the_same_bits(case: Case, after: onnx_ir.Model) -> None:
    before = case.model()
    was, now = evaluator(before, case.rules()), evaluator(after)
    for seed in range(2 if QUICK else 3):
        feeds = inputs_for(before, seed, given=case.inputs)
        for old, new in zip(outputs_of(was, feeds), outputs_of(now, feeds), strict=True):
            if case.spec.startswith("insert-promote-types"):
                # Where control flow joins, and at outputs, this pass also says which type a value has in the end.
                old = cast(old, onnx_ir.DataType.from_numpy(new.dtype))
            assert old.dtype == new.dtype
            np.testing.assert_array_equal(_codes(old), _codes(new))


def _codes(array: np.ndarray) -> np.ndarray:
    return array if array.dtype == object else np.ascontiguousarray(array).view(np.uint8)


def test_there_are_cases() -> None:
    assert len(CASES) >= 40
