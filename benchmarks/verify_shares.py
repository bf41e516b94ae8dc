"""The figures of docs/verify.md: shares of outputs proven, exports run, pairs of models that differ.

python -m benchmarks.verify_shares proven [--corpus FOLDER] [--random N]     what optimize makes of models, proven
python -m benchmarks.verify_shares exports FOLDER                            each model of a folder against itself
python -m benchmarks.verify_shares pairs                                     the pairs of tests/verification

No other tool proves outputs of ONNX models equal. The baseline of `proven` is the time of `optimize` for the first of
the two models, one after the other; the ratio is the median of the models, with the ends of the middle half of them.
Mutants of rewrites: CASTSMITH_MUTANTS=1000 pytest tests/verification/prove
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import onnx
import onnx.parser
import onnx_ir

import castsmith
from benchmarks.pairing import in_turns, middle, ratios, spread, timed
from castsmith.ir.io.loading import as_model
from castsmith.verification.compare import interfaces
from castsmith.verification.prove.proof import prove
from tests.verification.operator_pairs import OPERATOR_PAIRS
from tests.verification.pairs import PAIRS
from tests.verification.prove.mutants import rewrites

_RULES = castsmith.PromotionRules(promote_unsafe=True)
_MOST_NODES = 600
_TARGETS = (None, "onnxruntime-android")

Rewritten = Iterable[tuple[onnx_ir.Model, onnx_ir.Model]]


def optimized(files: Iterable[Path], target: str | None) -> Iterator[tuple[onnx_ir.Model, onnx_ir.Model]]:
    """Models that optimize changes, and not their interfaces, with what it makes of them."""
    for path in files:
        try:
            model = castsmith.load(path)
            if sum(1 for _ in model.graph) > _MOST_NODES:
                continue
            result = castsmith.optimize(model, target=target, promotion=_RULES)
        except castsmith.CastsmithError:
            continue
        found = interfaces(model, result.model)
        if result.rewrites and not found.differences and not found.outputs:
            yield model, result.model


def print_share(title: str, pairs: Rewritten) -> None:
    """Print how many outputs of how many models are proven, and how long that takes."""
    proven = outputs = 0
    times: dict[str, list[float]] = {"prove": [], "optimize": []}
    for a, b in pairs:
        proven, outputs = proven + len(prove(a, b, rules=_RULES).proven), outputs + len(a.graph.outputs)
        works = {
            "prove": partial(prove, a, b, rules=_RULES),
            "optimize": partial(castsmith.optimize, a, promotion=_RULES),
        }
        for name, found in in_turns({name: timed(work) for name, work in works.items()}, 1).items():
            times[name] += found
    share, models = 100 * proven / max(outputs, 1), len(times["prove"])
    beside = spread(middle(ratios(*times.values()))) if models else "-"
    counts = f"{proven} of {outputs} outputs of {models} models proven ({share:.0f} %)"
    print(f"{title}: {counts}, {sum(times['prove']):.1f} s, {beside} of the time of optimize", flush=True)


def print_proven(corpus: Path | None, count: int) -> None:
    demo = sorted(Path("models").glob("*.onnx"))
    for target in _TARGETS:
        print_share(f"models/ for {target or 'no target'}", optimized(demo, target))
    for target in _TARGETS if corpus is not None else ():
        print_share(f"corpus for {target or 'no target'}", optimized(sorted(corpus.rglob("*.onnx")), target))  # type: ignore[union-attr]
    chains = ((as_model(a), as_model(b)) for a, b in rewrites())
    alike = (pair for pair in chains if not interfaces(*pair).differences and not interfaces(*pair).outputs)
    print_share("random casts and moves", itertools.islice(alike, count))


def print_exports(folder: Path) -> None:
    """Print of each model how many of the sets asked for it ran on, and the time."""
    for path in sorted(folder.glob("*.onnx")):
        verdict = castsmith.verify(path, path)
        asked = [name for name in (*verdict.runs, *(name for name, _ in verdict.skipped)) if _asked(name)]
        ran = sum(map(_asked, verdict.runs))
        print(f"| {path.stem} | {ran} of {len(asked)} | {verdict.seconds:.1f} s | {verdict.outcome} |", flush=True)


def _asked(name: str) -> bool:
    kind, number = name.split()
    return int(number) <= {"adversarial": 6, "finite": 3, "sparse": 3, "mild": 3}.get(kind, 0)


def print_pairs() -> None:
    """Print the verdict on each pair, and how many there are of each."""
    found: Counter[str] = Counter()
    for name, (a, b) in {**PAIRS, **OPERATOR_PAIRS}.items():
        verdict = castsmith.verify(onnx.parser.parse_model(a), onnx.parser.parse_model(b))
        found[verdict.outcome] += 1
        print(f"| {name} | {verdict.outcome} |", flush=True)
    print(dict(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("proven", "exports", "pairs"))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--random", type=int, default=500)
    arguments = parser.parse_args()
    if arguments.what == "proven":
        print_proven(arguments.corpus, arguments.random)
    elif arguments.what == "pairs":
        print_pairs()
    elif arguments.folder is None:
        parser.error("exports needs the folder of the models")
    else:
        print_exports(arguments.folder)


if __name__ == "__main__":
    main()
