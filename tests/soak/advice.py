"""Every way out that `optimize` and `convert` print where a target refuses a model, taken: it has to work.

    nice python -m tests.soak.advice FOLDER ... [--target NAME ...] [--every 1] [--seconds 120]

Each pair of a model and a target runs in a process of its own. Prints what does not hold, then how many commands were
refused, how many refusals named a way out, and how many of these worked; exits with 1 if one did not.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from tests.soak.conversions import outcome
from tests.soak.fits import TARGETS

_COMMANDS = re.compile(r"this makes it run there: (.+?)\)?\.?$", re.MULTILINE)
_ERROR = re.compile(r"with castsmith fit, --max-error (\S+) allows")


def advised(path: str, target: str) -> str:
    """Run both commands; say how often the advice `works`, `none` was given, or what is wrong with it."""
    found = list[str]()
    for command in ("optimize", "convert --to float16"):
        with tempfile.TemporaryDirectory() as folder:
            out = f"{folder}/out.onnx"
            code, text = _run([*shlex.split(command), path, "--target", target, "-o", out])
            if "to an issue" in text or "internal error" in text:
                return f"WRONG {command}: {text[-300:]}"
            ways = list(_ways(text, path, target, out))
            found += [] if ways or code == 0 else ["none"]
            for way in ways:
                ended, said = _run(way)
                if ended:
                    return f"WRONG {command}: {shlex.join(way)} ends with {ended}: {said[-300:]}"
                found.append("works")
    return " ".join(found) or "not refused"


def _ways(text: str, path: str, target: str, out: str) -> Iterator[list[str]]:
    for commands in dict.fromkeys(_COMMANDS.findall(text)):
        yield from (shlex.split(command)[1:] for command in commands.split(" && "))
    for error in dict.fromkeys(_ERROR.findall(text)):
        yield ["fit", path, "--target", target, "--max-error", error, "-o", out]


def _run(words: list[str]) -> tuple[int, str]:
    from castsmith.cli.main import main as castsmith

    printed = StringIO()
    with redirect_stderr(printed), redirect_stdout(StringIO()):
        code = castsmith(words)
    return code, printed.getvalue()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.advice", description="Take the ways out that are printed.")
    parser.add_argument("folder", nargs="+")
    parser.add_argument("--target", action="append", help="may be repeated")
    parser.add_argument("--every", type=int, default=1, help="take each Nth model")
    parser.add_argument("--seconds", type=float, default=120.0, help="for each pair")
    arguments = parser.parse_args(words)
    paths = [path for folder in arguments.folder for path in sorted(Path(folder).rglob("*.onnx"))]
    counts = Counter[str]()
    for path in paths[:: arguments.every]:
        for target in arguments.target or TARGETS:
            text = outcome(advised, str(path), target, seconds=arguments.seconds)
            counts.update([text] if text in ("not refused", "takes too long") else text.split()[:2])
            if not set(text.split()) <= {"works", "none", "not", "refused"}:
                print(f"{path.name} {target}: {text}", flush=True)
    print(dict(counts))
    return 1 if counts["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
