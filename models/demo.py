"""`make demo`: every model here goes through `castsmith.optimize` for a phone, and the result is proved.

The proof of a model is its outputs, bit for bit: against the original's in the same runtime, or, where the runtime
refuses the original, against those that PyTorch or qonnx gave when the model was built (the `.npz` beside it).
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import onnx
from proof import cases, first_difference, refusal, run, session

import castsmith

HERE = Path(__file__).parent
OUT = HERE.parent / "out"
TARGET = "onnxruntime-android"


def demonstrate(path: Path) -> bool:
    """Optimize one model; print what was wrong, what was done and what was checked; whether the proof holds."""
    rewritten = OUT / path.name
    refused = refusal(path) or refusal(path, "default")
    obstacles = [found for found in castsmith.check(path, target=TARGET) if found.severity is castsmith.Severity.ERROR]
    wrong = (
        f"ONNX Runtime refuses it ({_shortened(refused)})"
        if refused
        else f"{TARGET} lacks what it needs ({obstacles[0].code})"
    )
    result = castsmith.optimize(path, target=TARGET, promote_unsafe=True)
    result.save(rewritten)
    onnx.checker.check_model(rewritten, full_check=True)
    rules = Counter(record.rule for record in result.rewrites)
    done = ", ".join(f"{rule} {count}" for rule, count in rules.most_common(3))
    differences = compare(path, rewritten)
    oracle = "PyTorch's or qonnx's" if refusal(path) else "the original's"
    count = sum(1 for _ in cases(path.with_suffix(".npz")))
    checked = differences[0] if differences else f"valid, it runs, and gives {oracle} bits on {count} sets of inputs"
    print(f"{path.stem}: {wrong} -> {len(result.rewrites)} rewrites ({done}) -> {checked}")
    return not differences


def _shortened(text: str) -> str:
    """Return what a runtime says without its prefixes, cut to fit a line."""
    text = text.rpartition("Error: ")[2].rpartition("rror:")[2].strip()
    return text if len(text) <= 90 else f"{text[:87]}..."


def compare(path: Path, rewritten: Path) -> list[str]:
    """What differs between the outputs of the rewritten model and its oracle's; nothing when all is well."""
    oracle = None if refusal(path) else session(path)
    found: list[str] = []
    for inputs, recorded in cases(path.with_suffix(".npz")):
        expected = recorded if oracle is None else run(oracle, inputs)
        found.append(first_difference(run(session(rewritten), inputs), expected))
    if refused := refusal(rewritten, "default"):
        found.append(f"ONNX Runtime at its default level refuses the result: {refused}")
    return [f"DIFFERS: {difference}" for difference in found if difference]


def main() -> int:
    OUT.mkdir(exist_ok=True)
    models = sorted(HERE.glob("*.onnx"))
    proved = [demonstrate(path) for path in models]
    print(f"{sum(proved)} of {len(models)} models repaired, lowered, running, and proved; they are in {OUT.name}/.")
    print(f"Each rewrite: castsmith optimize models/NAME.onnx --target {TARGET} --promote-unsafe --dry-run --diff")
    return 0 if all(proved) else 1


if __name__ == "__main__":
    sys.exit(main())
