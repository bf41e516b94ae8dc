"""No value of a random network leaves a proven bound, whatever runs it and whatever comes in.

    python -m tests.ir.bounds.soak START NETWORKS INPUTS     # such as 0 200 5000

Each network of ten layers runs on INPUTS rows: adversarial ones, then a search for the least and greatest result of
each of its values. ONNX Runtime runs them with its optimization off and on (also fused: only the last are outputs),
and a part of them runs in the reference evaluator of ONNX. Prints each violation, and at the end what was compared.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.reference

from castsmith import bounds
from castsmith.ir.bounds.report import Bounds
from tests.ir.bounds.networks import HEIGHT, WIDTH, Array, Network
from tests.ir.bounds.search import Search, adversarial

LAYERS = 10
BATCH = 250
OF_KERNELS = {
    "the variance is computed from the differences to the mean, not as E[x^2] - E[x]^2",
    "a log-softmax is computed from differences to the maximum, not as the logarithm of a softmax",
    "no row of a softmax is masked out as a whole",
}
"""Assumptions that some kernels or inputs do not keep: values that rest on them are not compared."""
_STABLE = ("Softplus", "Mish")
"""Operators whose results overflow in the reference evaluator of older releases: they compute log(exp(x) + 1)."""


@dataclass
class Tally:
    """Counts of runs and values, and the violations.

    Attributes:
        runs: Rows of input, for each runtime and setting.
        proven, assumed, unknown: Values by how they are known; `assumed` ones are not compared.
        ratios: The proven magnitude of each value divided by the greatest that was seen.
        wrong: Violations, as text.
        broken: Networks that a runtime accepts only without its optimization.
    """

    runs: int = 0
    proven: int = 0
    assumed: int = 0
    unknown: int = 0
    ratios: list[float] = field(default_factory=list[float])
    wrong: list[str] = field(default_factory=list[str])
    broken: int = 0


def outside(found: Bounds, results: Mapping[str, Array]) -> list[str]:
    """Return the values with an element outside a proven bound that assumes nothing of the runtime's kernels."""
    wrong: list[str] = []
    for name, array in results.items():
        bound = found.get(name)
        if bound is None or bound.how != "proven" or OF_KERNELS & {*bound.assumes} or not array.size:
            continue
        if not (array.min() >= bound.low and array.max() <= bound.high):  # NaN fails both
            worst = array[~((array >= bound.low) & (array <= bound.high))].reshape(-1)[0]
            wrong.append(f"{name} {found.makers[name]}: {worst!r} is outside [{bound.low!r}, {bound.high!r}]")
    return wrong


def runtimes(network: Network, batch: int, tally: Tally) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield each runtime with the function that runs the network in it, and the names of the results."""
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    settings = (
        ("off", levels.ORT_DISABLE_ALL, False),
        ("on", levels.ORT_ENABLE_ALL, False),
        ("fused", levels.ORT_ENABLE_ALL, True),
    )
    for name, level, leaves in settings:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level, options.intra_op_num_threads, options.log_severity_level = level, 1, 4
        model = network.model(LAYERS, batch, leaves).SerializeToString()
        try:
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception:
            if level == levels.ORT_DISABLE_ALL:
                raise
            tally.broken += 1  # its optimization made a model that it refuses
            continue
        yield name, session, [each.name for each in session.get_outputs()]


def check(seed: int, inputs: int, tally: Tally, batch: int = BATCH) -> None:
    """Run a network on so many rows, a batch at a time, and add what was found."""
    network = Network(seed)
    model = network.model(LAYERS, batch if seed % 2 else "N")
    (low, high), shape = network.ranges["x"], (batch, HEIGHT, WIDTH)
    found = bounds(model, ranges=network.ranges)
    tally.proven += found.count("proven")
    tally.unknown += found.count("unknown")
    tally.assumed += sum(bool(OF_KERNELS & {*bound.assumes}) for bound in found.values())
    sessions = list(runtimes(network, batch, tally))
    rng = np.random.default_rng(seed)
    search = Search(low, high, rng)
    wrong = set[str]()
    turns = -(-inputs // batch)
    for turn in range(turns):
        rows = adversarial(low, high, shape, rng) if turn < 3 else search.batch(shape)
        for name, session, names in sessions:
            results = dict(zip(names, session.run(None, {"x": rows}), strict=True))
            wrong |= {f"{name}: {text}" for text in outside(found, results)}
            tally.runs += len(rows)
            if name == "off":
                search.learn(rows, results)
    wrong |= {f"reference: {text}" for text in in_the_reference(seed, turns, tally, batch)}
    tally.wrong += [f"network {seed}, {text}" for text in sorted(wrong)]
    seen = {name: max(search.best.get((name, sense), (0.0,))[0] for sense in (1, -1)) for name, _ in search.best}
    tally.ratios += [found[name].magnitude / seen[name] for name in seen if seen[name] > 0 and name in found]


def in_the_reference(seed: int, turns: int, tally: Tally, batch: int) -> list[str]:
    """Run a network without what older reference evaluators overflow on; one batch in ten, as it is slow."""
    network = Network(seed, without=_STABLE)
    for layer in ("recurrent", "grid", "resize", "pool", "norm"):  # minutes in Python, or wrong there
        del network.layers[layer]
    model = network.model(LAYERS, batch)
    found = bounds(model, ranges=network.ranges)
    evaluator = onnx.reference.ReferenceEvaluator(model)
    (low, high), rng, wrong = network.ranges["x"], np.random.default_rng(seed), set[str]()
    names = [each.name for each in model.graph.output]
    for _ in range(max(1, turns // 10)):
        rows = adversarial(low, high, (batch, HEIGHT, WIDTH), rng)
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            given: Any = evaluator.run(None, {"x": rows})
        wrong |= set(outside(found, dict(zip(names, given, strict=True))))
        tally.runs += len(rows)
    return sorted(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start", type=int, help="the seed of the first network")
    parser.add_argument("networks", type=int)
    parser.add_argument("inputs", type=int, help="rows for each network")
    arguments = parser.parse_args()
    tally, said = Tally(), 0
    for seed in range(arguments.start, arguments.start + arguments.networks):
        check(seed, arguments.inputs, tally)
        for text in tally.wrong[said:]:
            print(text, flush=True)
        said = len(tally.wrong)
    print(
        f"{arguments.networks} networks, {tally.runs} runs: {tally.proven} values proven ({tally.assumed} of them by an"
        f" assumption, not compared), {tally.unknown} unknown; {len(tally.wrong)} outside;"
        f" a bound is {statistics.median(tally.ratios or [1.0]):.3g} times the greatest seen (median)"
    )
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
