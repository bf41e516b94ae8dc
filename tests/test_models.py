"""Every model of models/, lowered for a target that has no float8: valid, loads, and the same bits as its oracle."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path

import onnx
import onnx_ir
import pytest

import castsmith
from castsmith.numerics.types import FLOAT8_TYPES
from models.proof import LEVELS, cases, first_difference, refusal, run, session
from tests.sampling import sampled

FOLDER = Path(__file__).parents[1] / "models"
MODELS = sorted(FOLDER.glob("*.onnx"))
UNSAFE = castsmith.PromotionRules(promote_unsafe=True)


@cache
def lowered(path: Path, target: str) -> onnx_ir.Model:
    """Return what `optimize` makes of a model; several tests ask for it."""
    return castsmith.optimize(path, target=target, promotion=UNSAFE).model


def optimized(path: Path, folder: Path, target: str = "onnxruntime-android") -> Path:
    castsmith.save(lowered(path, target), folder / path.name)
    return folder / path.name


def test_there_are_models_of_every_kind() -> None:
    assert {path.stem for path in MODELS} >= {
        "control_flow", "convnet", "float8_qdq", "float8_transformer", "mixed_pow", "mixed_types", "qonnx_trunc",
    }  # fmt: skip
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < 5_000_000


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_result_is_valid_and_has_no_float8(path: Path, tmp_path: Path) -> None:
    target = optimized(path, tmp_path)
    onnx.checker.check_model(target, full_check=True)
    proto = onnx.load(target)
    assert {tensor.data_type for tensor in proto.graph.initializer}.isdisjoint(FLOAT8_TYPES)
    assert proto.ir_version <= 13
    assert all(entry.version <= 26 for entry in proto.opset_import if entry.domain == "")


RUNS = itertools.product(MODELS, LEVELS, ["onnxruntime-android", "onnxruntime-cpu"])


@pytest.mark.parametrize(
    ("path", "level", "target"),
    sampled("models with an oracle", RUNS, 10, cover=enumerate),
    ids=lambda value: getattr(value, "stem", value),
)
def test_result_has_the_bits_of_the_oracle(path: Path, level: str, target: str, tmp_path: Path) -> None:
    """The oracle is ONNX Runtime if it runs the original; otherwise PyTorch or qonnx, recorded."""
    original = None if refusal(path) else session(path)
    rewritten = session(optimized(path, tmp_path, target), level)
    for inputs, recorded in cases(path.with_suffix(".npz")):
        expected = recorded if original is None else run(original, inputs)
        assert first_difference(run(rewritten, inputs), expected) == ""


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_second_run_has_nothing_left_to_lower(path: Path, tmp_path: Path) -> None:
    """Small constants that lowering made may still fold, nothing else."""
    target = optimized(path, tmp_path)
    again = castsmith.optimize(target, target="onnxruntime-android", promotion=UNSAFE)
    assert {rewrite.pass_name for rewrite in again.rewrites} <= {"fold-constants"}
