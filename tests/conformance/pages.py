"""What is written from the records of `tests.conformance.record`: a page, its data, and the texts for trackers."""

from __future__ import annotations

import csv
import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.conformance.engines.worker import ENGINES
from castsmith.conformance.exporting import suite
from castsmith.conformance.judging import element_text
from castsmith.conformance.vectors import Vector, every_type
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import Kind, element_type, type_name
from docs.reference import REPOSITORY
from tests.conformance.scripts import script

TITLES = {
    "onnxruntime": "ONNX Runtime",
    "onnxruntime-basic": "ONNX Runtime, basic",
    "onnxruntime-extended": "ONNX Runtime, extended",
    "onnxruntime-all": "ONNX Runtime, all",
    "reference": "onnx, reference",
    "openvino": "OpenVINO",
    "tract": "tract",
    "onnx2torch": "onnx2torch",
    "ml_dtypes": "numpy, ml_dtypes",
    "torch": "PyTorch",
    "jax": "JAX",
    "tensorflow": "TensorFlow",
    "tinygrad": "tinygrad",
    "gfloat": "gfloat",
    "qonnx": "qonnx",
}
CELLS = {"r": "right", "-": "", "x": "crashes"}
OPERATORS = ("Cast", "CastLike", "BitCast", "QuantizeLinear", "DequantizeLinear", "Trunc")
REPORTED = {"onnxruntime": "onnxruntime", "reference": "onnx", "openvino": "openvino", "ml_dtypes": "ml_dtypes"}
"""Engines whose deviations have a page with texts for their trackers, and the name of the page."""

DEVIATIONS = Path(__file__).parent / "deviations"

WRITTEN = "<!-- Written by `python -m tests.conformance.record pages`. -->\n"


_MOST_NAMES = 6
"""Types that are listed; of more, the number is given."""


@dataclass(frozen=True)
class Record:
    """The results of one engine for the suite."""

    engine: str
    version: str
    date: str
    statuses: str
    details: dict[str, dict[str, Any]]


@dataclass
class Cause:
    """Vectors that an engine gets wrong in the same way: the kind of input, and the conversions that show it."""

    engine: str
    kind: str
    settings: str
    vectors: list[Vector] = field(default_factory=list[Vector])

    def operators(self) -> str:
        return ", ".join(dict.fromkeys(vector.op for vector in self.vectors))

    def sources(self) -> str:
        return _some([type_name(vector.inputs[0].dtype) for vector in self.vectors])

    def targets(self) -> str:
        return _some([type_name(vector.output_type) for vector in self.vectors])


def read_records(folder: Path) -> list[Record]:
    """Read the records in the order of the engines."""
    paths = [folder / "engines" / f"{name}.json" for name in ENGINES]
    return [Record(**json.loads(path.read_text(encoding="utf-8"))) for path in paths if path.exists()]


TWICE = "rounds twice, first to float"
FLUSHES = "takes subnormal inputs for zero"
WRAPS = "quotients beyond the range wrap"
SPECIAL = "takes the largest number for infinity"
OF_ALL = (TWICE, FLUSHES, WRAPS, SPECIAL)
"""Kinds of mistakes that are one cause whatever the target."""


def causes(record: Record, vectors: dict[str, Vector]) -> list[Cause]:
    """Return what is wrong in an engine, each cause once."""
    by_key: dict[tuple[str, str, str], Cause] = {}
    for name, detail in record.details.items():
        if "first" not in detail:
            continue
        vector = vectors[name]
        settings = ", ".join(f"{k} = {v}" for k, v in vector.attributes.items() if k in ("saturate", "round_mode"))
        kind = kind_of(vector, detail["first"])
        key = (kind, "", "") if kind in OF_ALL else (kind, settings, type_name(vector.output_type))
        by_key.setdefault(key, Cause(record.engine, *key[:2])).vectors.append(vector)
    return list(by_key.values())


def kind_of(vector: Vector, first: dict[str, Any]) -> str:
    """Return what distinguishes the first wrong element."""
    data, index = vector.inputs[0].elements.reshape(-1), first["index"]
    if data.dtype.kind in "OUST":
        return "reads text otherwise"
    if vector.op in ("QuantizeLinear", "DequantizeLinear"):
        far = abs(float(data[index])) >= 65504
        return WRAPS if far and vector.output_type.is_integer() else "rounding of quotients or products"
    source, row = element_type(vector.inputs[0].dtype), element_type(vector.output_type)
    number = float(data[index])
    for named, holds in (("NaN", np.isnan(number)), ("infinity", np.isinf(number)), ("zero", number == 0)):
        if holds:
            return named
    if source.bits > 24 and source.dtype is not DataType.FLOAT and _by_float(vector, index) == first["got"]:
        return TWICE
    if source.kind is Kind.FLOATING and abs(number) < 2.0**source.min_exponent and first["got"] in ("0", "False"):
        return FLUSHES
    if source.kind is Kind.FLOATING and abs(number) == float(source.max) and row.kind is Kind.INTEGER:
        return SPECIAL
    if row.kind is Kind.FLOATING and abs(number) > float(row.max):
        return "numbers beyond the maximum"
    subnormal = source.kind is Kind.FLOATING and abs(number) < 2.0**-126
    return "rounding of subnormal numbers" if subnormal else "rounding"


def _by_float(vector: Vector, index: int) -> str:
    """Return what an element gives by way of float, as `judge` shows it."""
    attributes: Any = vector.attributes
    settings = {"saturate": attributes.get("saturate", 1) == 1, "round_mode": attributes.get("round_mode", "up")}
    one = vector.inputs[0].elements.reshape(-1)[index : index + 1]
    twice = cast(cast(one, DataType.FLOAT), vector.output_type, **settings, opset=vector.opset)
    return element_text(twice, 0)


def write_pages(folder: Path) -> None:
    """Write results.md, its data, and the texts for the trackers of engines."""
    vectors = {vector.name: vector for vector in suite(every_type())}
    records = read_records(folder)
    _write(folder / "results.md", results_page(records))
    _write_csv(folder / "wrong.csv", wrong_rows(records, vectors))
    _write_csv(folder / "casts.csv", cast_rows(records, vectors))
    for record in records:
        if record.engine in REPORTED:
            page = DEVIATIONS / f"{REPORTED[record.engine]}.md"
            _write(page, deviations_page(record, causes(record, vectors)))


def _write_csv(path: Path, rows: Iterator[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def _write(path: Path, lines: Iterator[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(WRITTEN + "\n".join(lines) + "\n", encoding="utf-8")


def paragraph(text: str) -> Iterator[str]:
    """Yield the lines of a paragraph, and an empty one."""
    yield from textwrap.wrap(text, 120)
    yield ""


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(str(cell) for cell in row)} |"


def results_page(records: Sequence[Record]) -> Iterator[str]:
    """Yield the page of all engines: one row each, and the files with the rest."""
    yield "\n# Which runtimes convert types correctly\n"
    yield from paragraph(
        f"We ran the [conformance suite](index.md) in {len(records)} engines and settings. A test vector is *right* if"
        " every element that the standard defines has the right bits (all NaNs compare equal). *Refused* vectors use a"
        " type, operator or setting that the engine lacks. Array libraries only have Cast, and no `saturate`: they are"
        " compared under the setting that suits them. Click a column heading to sort."
    )
    heads = ("engine", "version", "date", "right", "wrong", "refused", "crashes")
    yield from table(heads, [_summary(record) for record in records])
    yield "\n## Details\n"
    yield "- [wrong.csv](wrong.csv): each cause of wrong results, with its first input, and the command that shows it."
    yield "- [casts.csv](casts.csv): the result of every Cast in every engine."
    yield f"- `docs/conformance/engines`: the [full records]({REPOSITORY}/tree/main/docs/conformance/engines)."
    yield f"- [Bug reports]({REPOSITORY}/tree/main/tests/conformance/deviations) with a script for each cause, for the"
    yield "  trackers of ONNX Runtime, onnx, OpenVINO and ml_dtypes."


def wrong_rows(records: Sequence[Record], vectors: dict[str, Vector]) -> Iterator[Sequence[str]]:
    """Yield each cause once; of an optimizing ONNX Runtime, those that it does not share with the one without."""
    yield ("engine", "cause", "settings", "operators", "from", "to", "input", "expected", "got", "standard", "command")
    yield from (_cause_row(record, cause) for record in records for cause in _own_causes(record, records[0], vectors))


def cast_rows(records: Sequence[Record], vectors: dict[str, Vector]) -> Iterator[Sequence[str]]:
    """Yield what each engine makes of each Cast: right, the number of wrong elements, crashes, or nothing: refused."""
    yield ("vector", *(TITLES[record.engine] for record in records))
    yield from _pairs(records, list(vectors), [name for name, vector in vectors.items() if vector.op == "Cast"])


def _own_causes(record: Record, base: Record, vectors: dict[str, Vector]) -> list[Cause]:
    """Return the causes; of ONNX Runtime with optimization, those that it does not share with `base`, without."""
    own = causes(record, vectors)
    if record is base or not record.engine.startswith(base.engine):
        return own
    shared = {
        (cause.kind, cause.settings, cause.targets()) for cause in causes(base, vectors) if cause.kind not in OF_ALL
    }
    return [
        cause
        for cause in own
        if cause.kind not in OF_ALL and (cause.kind, cause.settings, cause.targets()) not in shared
    ]


def _some(names: list[str]) -> str:
    """Return the names, or how many they are."""
    unique = list(dict.fromkeys(names))
    return ", ".join(unique) if len(unique) <= _MOST_NAMES else f"{len(unique)} types"


def _summary(record: Record) -> list[object]:
    counts = [record.statuses.count(letter) for letter in "rw-x"]
    return [TITLES[record.engine], record.version, record.date, *counts]


def _cause_row(record: Record, cause: Cause) -> list[str]:
    vector = cause.vectors[0]
    first = record.details[vector.name]["first"]
    run = f"castsmith dev conformance run --engine {cause.engine} --match {vector.name}"
    cells = (cause.kind, cause.settings, cause.operators(), cause.sources(), cause.targets())
    return [TITLES[cause.engine], *cells, first["input"], first["expected"], first["got"], vector.clause, run]


def _pairs(records: Sequence[Record], order: list[str], names: list[str]) -> list[list[str]]:
    places = {name: index for index, name in enumerate(order)}
    return [[name.removeprefix("cast_"), *(_cell(record, name, places[name]) for record in records)] for name in names]


def _cell(record: Record, name: str, place: int) -> str:
    letter = record.statuses[place]
    return str(record.details[name]["wrong"]) if letter == "w" else CELLS[letter]


def deviations_page(record: Record, own: Sequence[Cause]) -> Iterator[str]:
    """Yield a page with a text for the tracker of an engine for each cause."""
    title = TITLES[record.engine]
    yield f"\n# Deviations of {title}\n"
    yield from paragraph(
        f"Look up the wrong conversions of version {record.version}, each with a script that shows it: {len(own)}"
        f" causes, recorded on {record.date}. Each can be sent to the project as it stands. It may be known there"
        " already, so search the tracker first."
    )
    for cause in own:
        yield from _issue(record, cause)


def _issue(record: Record, cause: Cause) -> Iterator[str]:
    vector = cause.vectors[0]
    detail = record.details[vector.name]
    first = detail["first"]
    settings = f" ({cause.settings})" if cause.settings else ""
    yield f"## {cause.operators()} to {cause.targets()}{settings}: {cause.kind}\n"
    yield f"**Version** {record.version}. **From** {cause.sources()}."
    yield f"{detail['wrong']:,} of {detail['elements']:,} elements of `{vector.name}` are wrong. {vector.clause}.\n"
    yield "<!-- not run: it prints what one version gives -->"
    yield "```python"
    yield from script(record.engine, vector, first["index"]).splitlines()
    yield "```\n"
    yield f"Input {first['input']}: expected {first['expected']}, got {first['got']}.\n"
