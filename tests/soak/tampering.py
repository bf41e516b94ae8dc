"""Tamper with what optimize made, and with its certificates: the checker accepts nothing that differs.

    python -m tests.soak.tampering COUNT FOLDER... [--seed N]

Each of COUNT trials takes a run of optimize over a model of the folders, or over a golden model, and changes one thing:
in the output, with the certificate of the run and with one that states the change; or in the certificate. A change
after which the models are certified must change nothing: `verify` runs both. The models of a run are read once: a
tampered one is compared with the original as `checker.check` compares them.
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
from tests.certificates import forged, is_certified, tampered
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
        if before is not None and any(value.type.tensor_type.elem_type == 23 for value in before.graph.input):
            continue  # of the codes of float4 a caller may give 16, but verify tries all 256
        if before is not None and result.certificate is not None and result.rewrites:
            yield f"{name} for {target}", before, made, result.certificate


class Trials:
    """Changed outputs and certificates of one run."""

    def __init__(self, before: onnx.ModelProto, made: onnx.ModelProto, certificate: dict[str, Any]) -> None:
        self.before, self.made, self.certificate = before, made, certificate
        pool: dict[str, checker.Array] = {}
        self.texts, self.last = checker.state_of(before, pool), checker.state_of(made, pool)
        self.checker = checker.checker_of(before, pool)
        self.first = self.checker.read(self.texts, is_first=True)

    def accepted(self, certificate: dict[str, Any]) -> bool:
        """True if the certificate is accepted for the run."""
        try:
            return checker.check(self.before, self.made, certificate).certified
        except checker.RefusedError:
            return False

    def equal(self, other: onnx.ModelProto) -> bool:
        """True if a certificate of one step from the original to the model would be accepted."""
        return is_certified(self.checker, self.before, self.first, other)

    def differ(self, other: onnx.ModelProto) -> bool:
        """True if verify finds a difference, or cannot run the models; an input that is codes now is no difference."""
        kinds = [
            {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
            for model in (self.made, other)
        ]
        if any(kinds[0].get(name, dtype) != dtype == onnx.TensorProto.UINT8 for name, dtype in kinds[1].items()):
            return False  # which the checker reports, and verify cannot feed
        try:
            return castsmith.verify(self.made, other, accept="all").outcome == "different"
        except castsmith.CastsmithError:
            return True


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.tampering", description="See the module.")
    parser.add_argument("count", type=int)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random, counts, kinds = Random(arguments.seed), Counter[str](), Counter[str]()
    for name, before, made, certificate in runs(arguments.folders, random):
        trials = Trials(before, made, certificate)
        for _ in range(25):
            change = tampered(made, random)
            if change is None:
                break
            kind, other = change
            try:
                unchanged = checker.state_of(other, {}) == trials.last
            except checker.RefusedError:
                unchanged = False
            if unchanged:
                continue
            kinds[kind] += 2  # with the certificate of the run, which leads to another model, and with its own
            if trials.equal(other):
                counts["equal"] += 1
                if trials.differ(other):
                    print(f"ACCEPTED: {name}: {kind}", flush=True)
                    counts["accepted"] += 1
        for _ in range(5):
            kind, forgery = forged(certificate, random, trials.texts, trials.last)
            kinds[f"certificate: {kind}"] += 1
            if trials.accepted(forgery):  # another proof of the same
                counts["proofs"] += 1
                if kind in ("seal", "rule", "order", "constant"):
                    print(f"ACCEPTED a forged certificate: {name}: {kind}", flush=True)
                    counts["accepted"] += 1
        if kinds.total() >= arguments.count:
            break
    print(
        f"{kinds.total()} trials: {counts['accepted']} accepted; {counts['equal']} changed no value,"
        f" {counts['proofs']} were proofs all the same; {dict(kinds.most_common())}"
    )
    return bool(counts["accepted"])


if __name__ == "__main__":
    sys.exit(main())
