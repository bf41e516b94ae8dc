"""A slice of each sweep; `python -m tests.soak.sweep` judges all of it.

The properties are those of `tests.soak.sweep.judge`. A source that is not valid by itself, such as a golden case of
operands that disagree, still has to come out without an internal error, and the same at a second run.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

import onnx
import pytest
from onnx.parser import parse_model

from tests.sampling import sampled
from tests.soak.sweep import judge as judging
from tests.soak.sweep.judge import judge
from tests.soak.sweep.sources import SOURCES, Source, backend, goldens

TARGETS = (None, "onnxruntime-cpu", "onnxruntime-android")


def wrong(source: Source, folder: Path, targets: tuple[str | None, ...] = TARGETS) -> list[str]:
    """Return the faults of the model, one line each."""
    judgements = judge(str(source.file(folder)), targets)
    return [f"{source.name} [{each.target}] {kind}: {text}" for each in judgements for kind, text in each.problems]


def every(step: int, sources: Iterator[Source]) -> list[Source]:
    return list(islice(sources, 0, None, step))


@pytest.mark.parametrize("first", sampled("random valid graphs", range(0, 60, 5), 1))
def test_random_graphs(first: int, tmp_path: Path) -> None:
    assert [text for each in SOURCES["random"]("5", first) for text in wrong(each, tmp_path, (None,))] == []


@pytest.mark.parametrize(
    ("kind", "target", "seed"),
    sampled(
        "random graphs of casts for targets",
        product(("moves", "scopes", "shapes"), (*TARGETS, "tensorrt-10"), range(5021, 5024)),
        4,
        cover=lambda case: case[:2],
    ),
)
def test_random_graphs_of_casts_for_targets(kind: str, target: str | None, seed: int, tmp_path: Path) -> None:
    assert [text for each in SOURCES[kind]("1", seed) for text in wrong(each, tmp_path, (target,))] == []


FOUND = (281, 374, 688, 766, 776, 1189, 1478, 368, 4161, 5090, 5776, 503712, 507392)
"""Seeds that once showed: a Constant of a type that the opset's Constant does not give, an output's declared shape
changed, an Identity without a kernel, a crash of onnx.checker, casts that are moved to and fro, inputs on which the
outputs have other shapes than declared, a crash of onnx's inference."""


@pytest.mark.parametrize("seed", FOUND)
def test_random_graphs_that_showed_something(seed: int, tmp_path: Path) -> None:
    assert [text for each in SOURCES["random"]("1", seed) for text in wrong(each, tmp_path, (None,))] == []


@pytest.mark.parametrize("seed", [40088])
def test_random_graphs_that_showed_something_for_a_target(seed: int, tmp_path: Path) -> None:
    """Strings among the values of a proof ended `verify` in an internal error."""
    assert [text for each in SOURCES["random"]("1", seed) for text in wrong(each, tmp_path, ("onnxruntime-cpu",))] == []


@pytest.mark.parametrize(
    "source", sampled("sweep over the golden cases", every(8, goldens()), 2), ids=lambda source: source.name
)
def test_goldens(source: Source, tmp_path: Path) -> None:
    assert wrong(source, tmp_path) == []


@pytest.mark.parametrize(
    "source", sampled("sweep over node tests", every(60, backend()), 2), ids=lambda source: source.name
)
def test_backend_node_tests(source: Source, tmp_path: Path) -> None:
    assert wrong(source, tmp_path) == []


def test_the_judge_sees_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that swaps two inputs without a record is found by its bits, its records and its second run."""
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[3] a, float[3] b) => (float[3] y) { y = Sub (a, b) }'
    path = tmp_path / "m.onnx"
    onnx.save(parse_model(text), path)
    right = judging.castsmith.optimize

    def swapped(model: object, **options: object) -> object:
        result = right(model, **options)  # type: ignore[arg-type]
        node = result.model.graph[0]
        a, b = node.inputs
        node.replace_input_with(0, b)
        node.replace_input_with(1, a)
        return result

    monkeypatch.setattr(judging.castsmith, "optimize", swapped)
    (judgement,) = judge(str(path), [None])
    assert {kind for kind, _ in judgement.problems} == {"modified", "bits", "idempotence"}
