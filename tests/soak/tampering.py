"""Tamper with what optimize made, and with its certificates: the checker accepts nothing that differs.

    python -m tests.soak.tampering COUNT FOLDER... [--seed N]

Each of COUNT trials takes a run of optimize over a model of the folders, or over a golden model, and changes one thing:
in the output, with the certificate of the run and with one that states the change; or in the certificate. A change
after which the models are certified must change nothing: `verify` runs both.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import onnx
import onnx_ir

import castsmith
from castsmith.verification import checker
from tests.certificates import certificate_between, forged, tampered
from tests.passes.test_golden import CASES

_TARGETS = (None, "onnxruntime-android", "tensorrt-11")
_LARGEST = 1 << 20
"""Bytes of a file that is taken."""

Run = tuple[str, onnx.ModelProto, onnx.ModelProto, dict[str, Any]]


def runs(folders: list[Path], random: Random) -> Iterator[Run]:
    """Yield runs of optimize without end: the model before and after, and the certificate."""
    files = [file for folder in folders for file in sorted(folder.rglob("*.onnx")) if file.stat().st_size < _LARGEST]
    while True:
        target = random.choice(_TARGETS)
        if files and random.random() < 0.7:
            file = random.choice(files)
            name, source = file.name, None
        else:
            case = random.choice(CASES)
            name, source, file = case.path.name, onnx_ir.to_proto(case.model()), None
        try:
            before = checker.model_in(file) if file is not None else source
            result = castsmith.optimize(file or source or "", target=target, certificate=True)
            made = result.proto
        except (castsmith.CastsmithError, checker.RefusedError):
            continue
        if before is not None and result.certificate is not None and result.rewrites:
            yield f"{name} for {target}", before, made, result.certificate


def accepted(before: onnx.ModelProto, after: onnx.ModelProto, certificate: dict[str, Any]) -> bool:
    try:
        return checker.check(before, after, certificate).certified
    except checker.RefusedError:
        return False


def differ(before: onnx.ModelProto, after: onnx.ModelProto) -> bool:
    """True if verify finds a difference, or cannot run the models."""
    try:
        return castsmith.verify(before, after, accept="all").outcome == "different"
    except castsmith.CastsmithError:
        return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random, counts, trials = Random(arguments.seed), Counter[str](), 0
    for name, before, made, certificate in runs(arguments.folders, random):
        for _ in range(10):
            change = tampered(made, random)
            if change is None:
                break
            kind, other = change
            state = checker.state_of(other, {})
            if state == checker.state_of(made, {}):
                continue
            if accepted(before, other, certificate):
                print(f"ACCEPTED with the certificate of the run: {name}: {kind}")
                counts["accepted"] += 1
            if accepted(before, other, certificate_between(before, other)):
                counts["equal"] += 1
                if differ(before, other):
                    print(f"ACCEPTED: {name}: {kind}")
                    counts["accepted"] += 1
            kind, forgery = forged(certificate, random)
            if accepted(before, made, forgery):  # another proof of the same
                counts["proofs"] += 1
                if kind in ("seal", "rule", "order", "constant"):
                    print(f"ACCEPTED a forged certificate: {name}: {kind}")
                    counts["accepted"] += 1
            trials += 3
        if trials >= arguments.count:
            break
    equal, proofs = counts["equal"], counts["proofs"]
    print(
        f"{trials} trials: {counts['accepted']} accepted; {equal} changed no value, {proofs} were proofs all the same"
    )
    return bool(counts["accepted"])


if __name__ == "__main__":
    sys.exit(main())
