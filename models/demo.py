"""`make demo`: every model here goes through `castsmith optimize` for a phone, and the result is proved.

The proof of a model is its outputs, bit for bit: against the original's in the same runtime, or, where the runtime
refuses the original, against those that PyTorch or qonnx gave when the model was built (the `.npz` beside it).
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
from proof import cases, first_difference, refusal, run, session

from castsmith.cli.main import main as castsmith

HERE = Path(__file__).parent
OUT = HERE.parent / "out"
TARGET = "onnxruntime-android"


def demonstrate(path: Path) -> bool:
    """Optimize one model, show the rewrites and the proof; whether the proof holds."""
    rewritten = OUT / path.name
    command = ["optimize", str(path.relative_to(HERE.parent)), "-o", str(rewritten.relative_to(HERE.parent))]
    command += ["--target", TARGET, "--promote-unsafe", "--diff"]
    before = refusal(path) or refusal(path, "default")
    print(f"\n=== {path.stem} " + "=" * (74 - len(path.stem)))
    print(f"before: ONNX Runtime {'refuses it: ' + before if before else 'takes it'}")
    print(f"$ castsmith {' '.join(command)}", flush=True)
    if castsmith(command) != 0:
        return False
    onnx.checker.check_model(rewritten, full_check=True)
    differences = list(compare(path, rewritten))
    for difference in differences:
        print(f"DIFFERS: {difference}")
    if not differences:
        oracle = "PyTorch's or qonnx's" if refusal(path) else "the original's"
        count = sum(1 for _ in cases(path.with_suffix(".npz")))
        print(f"after: full check passes, ONNX Runtime takes it, and on {count} sets of inputs it gives {oracle} bits")
    return not differences


def compare(path: Path, rewritten: Path) -> list[str]:
    """What differs between the outputs of the rewritten model and its oracle's; nothing when all is well."""
    oracle = None if refusal(path) else session(path)
    found: list[str] = []
    for inputs, recorded in cases(path.with_suffix(".npz")):
        expected = recorded if oracle is None else run(oracle, inputs)
        found.append(first_difference(run(session(rewritten), inputs), expected))
    if refused := refusal(rewritten, "default"):
        found.append(f"ONNX Runtime at its default level refuses the result: {refused}")
    return [difference for difference in found if difference]


def main() -> int:
    OUT.mkdir(exist_ok=True)
    models = sorted(HERE.glob("*.onnx"))
    proved = [demonstrate(path) for path in models]
    print(f"\n{sum(proved)} of {len(models)} models repaired, lowered, running, and proved; they are in {OUT.name}/")
    return 0 if all(proved) else 1


if __name__ == "__main__":
    sys.exit(main())
