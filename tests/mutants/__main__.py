"""python -m tests.mutants PACKAGE... [--count N] [--seed S] [--jobs J] [--only FILE] [--control] [--json FILE]

Exit code 1 if a package scores less than `--least` per cent.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

PACKAGES = ("numerics", "ir", "targets", "analysis", "verification", "passes", "lowering", "cli")
EQUIVALENT = Path(__file__).parent / "equivalent.txt"

os.environ.setdefault("CASTSMITH_SEED", "1")
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from tests.mutants.judge import Task, judged  # noqa: E402  (reads the seed)
from tests.mutants.operators import Mutant, Place, places  # noqa: E402
from tests.mutants.reached import ROOT, Record, sources  # noqa: E402


def drawn(package: str, count: int, seed: int) -> list[Mutant]:
    """Return random mutants of a package: first a line, then a kind of mistake in it, then one of that kind."""
    draw = Random(f"{package} {seed}")
    texts = {module: path.read_bytes() for module, path in sources(package).items()}
    by_line: dict[tuple[str, int], list[Place]] = {}
    for module, text in texts.items():
        for place in places(module, text):
            by_line.setdefault((module, place.line), []).append(place)
    chosen: list[Mutant] = []
    for module, line in draw.sample(sorted(by_line), count):
        kind = draw.choice(sorted({place.kind for place in by_line[module, line]}))
        place = draw.choice([place for place in by_line[module, line] if place.kind == kind])
        chosen.append(place.mutant(texts[module]))
    return chosen


def equivalents() -> dict[tuple[str, str, str], str]:
    """Return the reasons why mistakes change no result, by module, line and text."""
    made: dict[tuple[str, str, str], str] = {}
    for block in EQUIVALENT.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            module, line, text, reason = lines
            made[module, line, text] = reason.strip()
    return made


def described(task: Task) -> str:
    mutant = task.mutant
    return f"{place_of(mutant)}: {mutant.kind}: {mutant.text()} (reached by {task.reaching} of {len(task.tests)} tests)"


def place_of(mutant: Mutant) -> str:
    path = sources(mutant.module.split(".")[1])[mutant.module].relative_to(ROOT).as_posix()
    return f"{path}:{mutant.line}"


def score(package: str, chosen: list[Mutant], jobs: int) -> Iterator[dict[str, object]]:
    """Judge mutants and print those that survive; yield the verdict of each."""
    if Record(package).outdated():
        command = f"from tests.mutants.reached import record; record({package!r})"
        subprocess.run([sys.executable, "-c", command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    record, known = Record(package), equivalents()
    record.outdated()
    for task, killed in judged(record, chosen, jobs):
        mutant = task.mutant
        line = sources(package)[mutant.module].read_text(encoding="utf-8").splitlines()[mutant.line - 1].strip()
        same = (mutant.module, line, mutant.text()) in known
        verdict = "killed" if killed else "equivalent" if same else "survived"
        if verdict == "survived":
            print(described(task), flush=True)
        yield {"place": place_of(mutant), "kind": mutant.kind, "text": mutant.text(), "verdict": verdict}


def read(file: str) -> set[tuple[str, str, str]]:
    """Return place, kind and text of what survived in an earlier run."""
    return {(each["place"], each["kind"], each["text"]) for each in json.loads(Path(file).read_text())
            if each["verdict"] == "survived"}  # fmt: skip


def run() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("packages", nargs="*", default=PACKAGES, metavar="PACKAGE")
    parser.add_argument("--count", type=int, default=75, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--least", type=float, default=85, help="per cent")
    parser.add_argument("--only", metavar="FILE", help="judge again what survived in a run that wrote FILE")
    parser.add_argument("--control", action="store_true", help="plant nothing: all of it must survive")
    parser.add_argument("--json", metavar="FILE", help="write the verdict of each mutant")
    chosen, verdicts, code = parser.parse_args(), list[dict[str, object]](), 0
    for package in chosen.packages:
        todo = drawn(package, chosen.count, chosen.seed)
        if chosen.only:
            again = read(chosen.only)
            todo = [mutant for mutant in todo if (place_of(mutant), mutant.kind, mutant.text()) in again]
        if chosen.control:
            todo = [replace(mutant, after=mutant.before) for mutant in todo]
        found = list(score(package, todo, chosen.jobs))
        verdicts += found
        counts = {verdict: sum(each["verdict"] == verdict for each in found) for verdict in VERDICTS}
        judged_ones = len(found) - counts["equivalent"]
        percent = 100 * counts["killed"] / max(judged_ones, 1)
        code |= percent < chosen.least
        print(f"{package}: {counts['killed']} of {judged_ones} mutants killed, {percent:.0f} %; "
              f"{counts['equivalent']} change no result; seed {chosen.seed}", flush=True)  # fmt: skip
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(verdicts, indent=1))
    times = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"{sum(each.ru_utime + each.ru_stime for each in times) / 60:.1f} minutes of the processor")
    return int(code)


VERDICTS = ("killed", "survived", "equivalent")

if __name__ == "__main__":
    sys.exit(run())
