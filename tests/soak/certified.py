"""How many runs of optimize are certified wholly, and what keeps the others from it.

    python -m tests.soak.certified FOLDER... [--target NAME] [--least 0.9]

Takes every model of the folders, without a target and for each target; a run that changes nothing is not counted.
The exit code is 1 if a certificate is refused, or if the share of the runs that are certified is less than `--least`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import castsmith
from castsmith.verification import checker


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.certified", description="See the module.")
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--target", action="append", default=[])
    parser.add_argument("--least", type=float, default=0.9)
    arguments = parser.parse_args()
    files = [file for folder in arguments.folders for file in sorted(folder.rglob("*.onnx"))]
    failed = False
    for target in (None, *arguments.target):
        counts, causes, seconds = Counter[str](), Counter[str](), {"optimize": 0.0, "check": 0.0}
        for file in files:
            start = time.process_time()
            try:
                before = checker.model_in(file)
                result = castsmith.optimize(file, target=target, certificate=True)
                after = result.proto
            except (castsmith.CastsmithError, checker.RefusedError):
                counts["no run"] += 1
                continue
            seconds["optimize"] += time.process_time() - start
            assert result.certificate is not None
            if not result.certificate["steps"]:
                counts["unchanged"] += 1
                continue
            start = time.process_time()
            try:
                left = checker.check(before, after, result.certificate).left
                counts["in part" if left else "wholly"] += 1
            except checker.RefusedError as error:
                left = []
                counts["refused"] += 1
                print(f"REFUSED {file} for {target}: {error}", flush=True)
            seconds["check"] += time.process_time() - start
            if time.process_time() - start > 10:
                print(f"{file} for {target}: {time.process_time() - start:.0f} s", flush=True)
            causes.update({f"{name}: {', '.join(rules)}" for name, rules, _ in left})
            for name, rules, places in left:
                print(f"{file.name} for {target}: {name}: {', '.join(rules)}: {', '.join(places[:3])}", flush=True)
        share = counts["wholly"] / max(1, counts["wholly"] + counts["in part"] + counts["refused"])
        print(f"{target}: {share:.1%} certified wholly; {dict(counts)}; {dict(seconds)}", flush=True)
        for cause, count in causes.most_common(20):
            print(f"  {count} {cause}")
        failed = failed or share < arguments.least or counts["refused"] > 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
