"""The record of benchmarks, and the tables of the documentation, which are made from it.

    python -m benchmarks.record run NAME MODULE [OPTION ...]      run `python -m benchmarks.MODULE OPTION ...`
    python -m benchmarks.record page                              write the tables of all pages again

The first records the Markdown tables that the benchmark prints, with its command, the date, the machine and the
versions, in benchmarks/record.json under NAME, and writes the pages. A page has a table where it says
`<!-- recorded: NAME -->`, up to `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("record.json")
_ROOT = Path(__file__).parents[1]
PAGES = tuple(_ROOT / name for name in ("README.md", "docs/index.md", "docs/lowering.md", "docs/speed.md"))
"""The pages with tables of the record."""

_PLACE = re.compile(r"(?<=<!-- recorded: )([\w-]+)( -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
_PACKAGES = (
    *("onnx", "onnx-ir", "numpy", "ml-dtypes", "onnxruntime", "openvino", "torch", "numba"),
    *("onnxscript", "onnxsim", "onnxslim"),
)


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


def _run(module: str, options: Sequence[str]) -> dict[str, Any]:
    words = [f"benchmarks.{module}", *options]
    told = subprocess.run([sys.executable, "-m", *words], check=True, stdout=subprocess.PIPE, text=True).stdout
    print(told)
    return {
        "command": " ".join(["python -m", *words]),
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "machine": machine(),
        "versions": _versions(),
        "tables": list(tables_of(told)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    actions = parser.add_subparsers(dest="action", required=True)
    run = actions.add_parser("run", help="run a benchmark, record its tables and write the pages")
    run.add_argument("name")
    run.add_argument("module")
    run.add_argument("options", nargs=argparse.REMAINDER)
    actions.add_parser("page", help="write the tables of the pages")
    arguments = parser.parse_args()
    record: dict[str, dict[str, Any]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if arguments.action == "run":
        record[arguments.name] = _run(arguments.module, arguments.options)
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    for page in PAGES:
        page.write_text(page_of(page.read_text(), record))


if __name__ == "__main__":
    main()
