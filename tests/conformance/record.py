"""Records of the conformance suite, which the pages of docs/conformance show.

python -m tests.conformance.record domains              both implementations, all 2**32 floats: about 15 minutes
python -m tests.conformance.record engine NAME [PYTHON] one engine, in the environment of an interpreter
python -m tests.conformance.record pages                the page, its data and the bug reports, from the records
"""

from __future__ import annotations

import datetime
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from castsmith.conformance.engines.running import run
from castsmith.conformance.exporting import suite
from castsmith.conformance.vectors import every_type
from tests.conformance.domains import domain_hash, domains
from tests.conformance.pages import write_pages
from tests.conformance.second import second_hash

FOLDER = Path(__file__).parents[2] / "docs" / "conformance"
LETTERS = {"right": "r", "wrong": "w", "refuses": "-", "crashes": "x"}


def record_domains() -> None:
    """Write the hashes, in which both implementations agree, and the open ranges."""
    hashes: dict[str, str] = {}
    ranges: dict[str, list[list[str]]] = {}
    for domain in domains():
        name = domain.name()
        hashes[name] = domain_hash(domain)
        ranges[name] = [[f"0x{begin:x}", f"0x{end:x}"] for begin, end in domain.open()]
        if second_hash(domain) != hashes[name]:
            raise SystemExit(f"{name}: the implementations disagree")
        print(name, hashes[name], flush=True)
    _write("domains.json", {"date": _today(), "sha256": hashes, "open": ranges})


def record_engine(engine: str, python: str | None = None) -> None:
    """Run the whole suite and write what the engine makes of it."""
    report = run(engine, suite(every_type()), python)
    details = {
        outcome.name: _detail(asdict(outcome)) for outcome in report.outcomes if outcome.status in ("wrong", "crashes")
    }
    statuses = "".join(LETTERS[outcome.status] for outcome in report.outcomes)
    record: dict[str, Any] = {
        "engine": engine,
        "version": report.version,
        "date": _today(),
        "statuses": statuses,
        "details": details,
    }
    _write(f"engines/{engine}.json", record)
    print(engine, report.version, {status: statuses.count(letter) for status, letter in LETTERS.items()})


def _detail(outcome: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in outcome.items() if value and key not in ("name", "status")}


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _write(name: str, data: dict[str, Any]) -> None:
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def main(words: list[str]) -> None:
    """Run one of the commands."""
    match words:
        case ["domains"]:
            record_domains()
        case ["engine", engine, *python]:
            record_engine(engine, *python)
        case ["pages"]:
            write_pages(FOLDER)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
