"""The record of benchmarks, and the tables of the documentation, which are made from it.

    python -m benchmarks.record run NAME MODULE [OPTION ...]      run `python -m benchmarks.MODULE OPTION ...`
    python -m benchmarks.record all [--folder DIR] [--list] [NAME ...]      run those of `RUNS`, or the named ones
    python -m benchmarks.record page                              write the tables of all pages again

The first records the Markdown tables that the benchmark prints, with its command, the date, the machine and the
versions, in benchmarks/record.json under NAME, and writes the pages. A page has a table where it says
`<!-- recorded: NAME -->`, up to `<!-- end -->`. The second goes on after a failure, says how long each run took, and
leaves out what needs software that is not installed. `--list` says how long each takes, and runs nothing.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

RECORD = Path(__file__).with_name("record.json")
_ROOT = Path(__file__).parents[1]
PAGES = tuple(
    _ROOT / name
    for name in ("docs/comparison.md", "docs/speed.md", "benchmarks/README.md", "lowering/encodings/README.md")
)
"""The pages with tables of the record."""

_PLACE = re.compile(r"(?<=<!-- recorded: )([\w-]+)( -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
_PACKAGES = (
    *("onnx", "onnx-ir", "numpy", "ml-dtypes", "onnxruntime", "openvino", "torch", "numba"),
    *("onnxscript", "onnxsim", "onnxslim"),
)


class Run(NamedTuple):
    """A run of a benchmark: its module and options, about how many minutes it takes, and the modules that it needs."""

    module: str
    options: tuple[str, ...]
    minutes: int
    needs: tuple[str, ...] = ()


_OPTIMIZERS = ("onnxruntime", "onnxsim", "onnxslim", "onnxscript")
_ENGINES = ("onnxruntime", "openvino")
_SIZES = ("1000", "1000000", "10000000")
_NARROW = ("quantized", "float8", "float8-in", "bfloat16")
RUNS: Mapping[str, Run] = {
    "formats": Run("formats", (), 1, _ENGINES[:1]),
    "products": Run("formats", ("--products", "--repeat", "20"), 2, _ENGINES[:1]),
    "float8-transformer": Run("float8_transformer", ("--repeat", "50", "--web", ".venv/web"), 1, _ENGINES),
    "lowering": Run("lowering", ("--elements", "1000000", "--runs", "25"), 2, _ENGINES[:1]),
    "linear": Run("linear", ("--nodes", "1000"), 2),
    "start-up": Run("start_up", ("--repeat", "9"), 3),
    "graphs": Run("graph_speed", ("--repeat", "5"), 8, _ENGINES[:1]),
    "growth": Run("graph_speed", ("--growth", "--repeat", "3"), 8),
    "codec": Run("codec", ("--elements", *_SIZES, "--repeats", "7"), 10),
    "codec-torch": Run("codec", ("--torch", "--elements", *_SIZES[1:], "--repeats", "7"), 7, ("torch",)),
    "codec-compiled": Run("codec", ("--compiled", "--elements", *_SIZES, "--repeats", "7"), 10, ("numba",)),
    "codec-compiled-torch": Run(
        "codec", ("--torch", "--compiled", "--elements", *_SIZES[1:], "--repeats", "7"), 7, ("numba", "torch")
    ),
    "exactness": Run("exactness", (), 6, _OPTIMIZERS),
    "peers-graph": Run("peers", ("--only", "graph"), 8, _OPTIMIZERS[:1]),
    "peers-weights": Run("peers", ("--only", "weights"), 8, _OPTIMIZERS[:1]),
    "weights-cp": Run("weights", ("--kind", "folded"), 8),
    "weights": Run("weights", ("--kind", "convert", "reference", *_NARROW), 15),
}
"""What `make benchmarks` runs, the quick ones first. The others convert models that are not in the repository."""

APART = {
    "float16-models": "models from public repositories",
    "float16-exports": "exports by benchmarks/architectures.py, and ModelOpt",
    "float16-large-values": "exports by benchmarks/architectures.py, and ModelOpt",
}
"""Runs that need what is not in the repository: `python -m benchmarks.record run` records them."""


def tables_of(text: str) -> Iterator[dict[str, Any]]:
    """Yield the Markdown tables of a text: the heading before each, its columns and its rows."""
    heading, rows = "", list[list[str]]()
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
            continue
        if rows:
            yield {"heading": heading, "columns": rows[0], "rows": rows[2:]}
            heading, rows = "", []
        if line.startswith("#"):
            heading = line.lstrip("# ")


def recorded(run: Mapping[str, Any]) -> str:
    """Return the Markdown of a recorded run."""
    versions = ", ".join(f"{name} {number}" for name, number in sorted(run["versions"].items()))
    caption = f"`{run['command']}`, {run['date']}, {run['machine']}; {versions}."
    parts = [textwrap.fill(caption, 120, break_on_hyphens=False, break_long_words=False)]
    for table in run["tables"]:
        if table["heading"]:
            parts.append(f"### {table['heading']}")
        head, *lines = (f"| {' | '.join(cells)} |" for cells in (table["columns"], *table["rows"]))
        parts.append("\n".join([head, "|---" * len(table["columns"]) + "|", *lines]))
    return "\n" + "\n\n".join(parts) + "\n\n"


def page_of(text: str, record: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page with the tables of the record. Raises KeyError for a name that is not in the record."""
    return _PLACE.sub(lambda place: place[1] + place[2] + recorded(record[place[1]]), text)


def names_in(text: str) -> list[str]:
    """Return the names of the runs of which the page shows the tables."""
    return [place[1] for place in _PLACE.finditer(text)]


def machine() -> str:
    """Return the kind of this machine."""
    try:
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    kind = platform.machine() if found is None else found[1]
    return f"{os.cpu_count()} cores of an {kind}, {platform.system()}, Python {platform.python_version()}"


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _run(module: str, options: Sequence[str], place: Sequence[str] = ()) -> dict[str, Any]:
    """Run a benchmark and return its record. place: Options that say where it works, which are not recorded."""
    words = [f"benchmarks.{module}", *options]
    told = subprocess.run([sys.executable, "-m", *words, *place], check=True, stdout=subprocess.PIPE, text=True).stdout
    print(told)
    return {
        "command": " ".join(["python -m", *words]),
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "machine": machine(),
        "versions": _versions(),
        "tables": list(tables_of(told)),
    }


def missing(run: Run) -> list[str]:
    """Return the modules and folders that the run needs and that are not there."""
    folders = [word for word in run.options if word.startswith(".venv") and not Path(word).exists()]
    return [*(name for name in run.needs if importlib.util.find_spec(name) is None), *folders]


def run_all(record: dict[str, dict[str, Any]], names: Sequence[str], folder: str | None) -> list[str]:
    """Run the named benchmarks, record each as it ends, and return what became of those that did not succeed."""
    failed = list[str]()
    for name in names:
        run, started = RUNS[name], time.monotonic()
        lacking = missing(run)
        if lacking:
            failed.append(f"{name}: left out, since {', '.join(lacking)} is not installed")
            continue
        place = ("--folder", folder) if folder is not None and run.module == "weights" else ()
        print(f"\n{name}: about {run.minutes} min", flush=True)
        try:
            record[name] = _run(run.module, run.options, place)
        except subprocess.CalledProcessError as error:
            failed.append(f"{name}: failed with exit code {error.returncode}")
            continue
        write(record)
        print(f"{name}: took {(time.monotonic() - started) / 60:.1f} min", flush=True)
    return failed


def write(record: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the record and the pages."""
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    for page in PAGES:
        page.write_text(page_of(page.read_text(), record))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    actions = parser.add_subparsers(dest="action", required=True)
    run = actions.add_parser("run", help="run a benchmark, record its tables and write the pages")
    run.add_argument("name")
    run.add_argument("module")
    run.add_argument("options", nargs=argparse.REMAINDER)
    every = actions.add_parser("all", help="run those that need no other software, and record them")
    every.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RUNS))
    every.add_argument("--folder", help="where the weights are written: 30 GB (default: a temporary folder)")
    every.add_argument("--list", action="store_true", help="say how long each takes, and run nothing")
    actions.add_parser("page", help="write the tables of the pages")
    arguments = parser.parse_args()
    record: dict[str, dict[str, Any]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if arguments.action == "run":
        record[arguments.name] = _run(arguments.module, arguments.options)
    names = getattr(arguments, "names", None) or RUNS
    for name in names:
        if name not in RUNS:
            parser.error(f"unknown run {name}; expected one of {', '.join(RUNS)}")
    if arguments.action == "all" and arguments.list:
        for name in names:
            run = RUNS[name]
            lacking = f"; {', '.join(missing(run))} not installed" if missing(run) else ""
            print(f"{name:20}{run.minutes:4} min  {run.module} {' '.join(run.options)}{lacking}")
        print(f"{'together':20}{sum(RUNS[name].minutes for name in names):4} min")
        return
    failed = run_all(record, list(names), arguments.folder) if arguments.action == "all" else []
    write(record)
    if failed:
        raise SystemExit("\n".join(failed))


if __name__ == "__main__":
    main()
