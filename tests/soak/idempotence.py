"""Models optimized twice: the second run changes nothing, no run reaches its limit of rounds, and no name grows.

    nice python -m tests.soak.idempotence random FIRST LAST [SETTING ...]     random graphs by seed
    nice python -m tests.soak.idempotence files FOLDER [SETTING ...]          all models of a folder

A setting is the name of a target, or one of `EXTRAS`; by default all of them. Prints what a second run changes, and
in the end how many runs there were; exits with 1 if one changed something.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import onnx
import onnx_ir

import castsmith
from castsmith.targets.target import target_names
from tests.graphs.random_graphs import random_model
from tests.graphs.random_valid import random_valid_model
from tests.graphs.scoped_graphs import scoped_model
from tests.graphs.shape_arithmetic import shape_graph
from tests.passes.place.place_regions import random_model as random_region
from tests.passes.precision.random_models import random_model as random_computation

_UNSAFE = castsmith.PromotionRules(promote_unsafe=True)

GENERATORS: tuple[Callable[[int], onnx.ModelProto], ...] = (
    lambda seed: random_model(Random(seed))[0],
    lambda seed: random_valid_model(Random(seed)),
    scoped_model,
    lambda seed: shape_graph(seed).model,
    lambda seed: onnx_ir.to_proto(random_region(seed, 12)),
    random_computation,
)

EXTRAS: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "narrow-int64": {"narrow": "int64"},
    "narrow-double": {"narrow": "double"},
    "narrow-both": {"narrow": ("int64", "double")},
    "narrow-both-for-onnxruntime": {"narrow": ("int64", "double"), "target": "onnxruntime-cpu"},
    "narrow-both-for-tensorrt": {"narrow": ("int64", "double"), "target": "tensorrt-10"},
    "narrow-interface": {"narrow": ("int64", "double"), "narrow_interface": True, "largest_dim": 2**31 - 1},
    "microsoft": {"vendor": "com.microsoft", "target": "onnxruntime-cpu"},
    "trt": {"vendor": "trt", "target": "tensorrt-10"},
    "wide": {"interface": "wide", "target": "onnxruntime-android"},
    "functions": {"emit_functions": True, "target": "onnxruntime-android"},
    "byte": {"storage": "byte", "target": "onnxruntime-webgpu"},
    "disputed": {"fold_disputed": True, "fold_quantized": True, "fold_as": "onnxruntime"},
}
"""Options by name: all that add passes, or change what passes do."""


def settings(names: Iterable[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The options of `optimize` by name: those named, or those of all targets and of EXTRAS."""
    for name in list(names) or [*EXTRAS, *target_names()]:
        yield name, EXTRAS.get(name, {"target": name})


def second_run(model: onnx.ModelProto, options: Mapping[str, Any]) -> str:
    """Return what a second run of `optimize` changes, or how the first went wrong; empty if all is well."""
    options = {"promotion": _UNSAFE, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            first = castsmith.optimize(model, **options)
        except castsmith.CastsmithError:
            return ""
        once = onnx_ir.to_proto(first.model)
        second = castsmith.optimize(once, **options)
    if any(each.code == "unsettled" for result in (first, second) for each in result.diagnostics):
        return "reaches the limit of rounds"
    if second.rewrites:
        rules = Counter(each.rule for each in second.rewrites)
        return f"{dict(rules)} after {dict(Counter(each.rule for each in first.rewrites))}"
    if onnx_ir.to_proto(second.model).SerializeToString(deterministic=True) != once.SerializeToString(
        deterministic=True
    ):
        return "other bytes without a record"
    longest = [max(map(len, names_of(proto)), default=0) for proto in (model, once)]
    return f"a name of {longest[1]} characters" if longest[1] > max(2 * longest[0], 80) else ""


def names_of(model: onnx.ModelProto) -> Iterator[str]:
    """The names of values and nodes of the main graph."""
    for node in model.graph.node:
        yield from (node.name, *node.output)
    yield from (tensor.name for tensor in model.graph.initializer)


def random_models(first: int, last: int) -> Iterator[tuple[str, onnx.ModelProto]]:
    for seed in range(first, last):
        yield f"seed {seed}", GENERATORS[seed % len(GENERATORS)](seed)


def models_in(folder: str) -> Iterator[tuple[str, onnx.ModelProto]]:
    for path in sorted(Path(folder).rglob("*.onnx")):
        try:
            yield str(path), onnx.load(path)
        except Exception as error:  # protobuf and onnx have errors of their own
            print(f"{path}: {error}")


def main(words: list[str]) -> int:
    kind, *rest = words
    if kind == "random":
        models, names = random_models(int(rest[0]), int(rest[1])), rest[2:]
    else:
        models, names = models_in(rest[0]), rest[1:]
    runs = wrong = 0
    for place, model in models:
        for name, options in settings(names):
            try:
                text = second_run(model, options)
            except Exception as error:  # a defect, which must not end the run
                text = f"{type(error).__name__}: {error}"
            runs += 1
            if text:
                wrong += 1
                print(f"{place} {name}: {text[:400]}", flush=True)
    print(f"{runs} models optimized twice, {wrong} not settled")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
