"""The pages of docs/conformance, written from the records of `tests.conformance.record`."""

from __future__ import annotations

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
        return ", ".join(dict.fromkeys(each.op for each in self.vectors))

    def sources(self) -> str:
        return _some([type_name(each.inputs[0].dtype) for each in self.vectors])

    def targets(self) -> str:
        return _some([type_name(each.output_type) for each in self.vectors])


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
    found: dict[tuple[str, str, str], Cause] = {}
    for name, detail in record.details.items():
        if "first" not in detail:
            continue
        vector = vectors[name]
        settings = ", ".join(f"{k} = {v}" for k, v in vector.attributes.items() if k in ("saturate", "round_mode"))
        kind = kind_of(vector, detail["first"])
        key = (kind, "", "") if kind in OF_ALL else (kind, settings, type_name(vector.output_type))
        found.setdefault(key, Cause(record.engine, *key[:2])).vectors.append(vector)
    return list(found.values())


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
    """Write results.md, domains.md and the page of each engine whose deviations are worth a report."""
    vectors = {each.name: each for each in suite(every_type())}
    records = read_records(folder)
    _write(folder / "results.md", results_page(records, vectors))
    _write(folder / "domains.md", domains_page(json.loads((folder / "domains.json").read_text(encoding="utf-8"))))
    for record in records:
        if record.engine in REPORTED:
            page = folder.parent / "deviations" / f"{REPORTED[record.engine]}.md"
            _write(page, deviations_page(record, causes(record, vectors)))


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


def results_page(records: Sequence[Record], vectors: dict[str, Vector]) -> Iterator[str]:
    """Yield the page of all engines: the sums, what is wrong, and each pair of types."""
    yield "\n# Conformance of implementations\n"
    yield from paragraph(
        "See which conversions of the [suite](index.md) each engine computes as the standard defines them. The"
        " table has the version and the date of each run. A vector is *right* if every element that the standard"
        " fixes has its bits (all NaN count as equal), and *wrong* otherwise. Elements that the standard leaves"
        " open are counted separately. *Refuses* covers types, operators and settings that an engine or its Python"
        " interface lacks. Libraries of arrays have Cast alone, without `saturate`: they are compared under the"
        " setting that fits them better. Click on the head of a column to sort."
    )
    heads = ("engine", "version", "date", "right", "wrong", "refuses", "crashes", "disputed", "undefined", "NaN bits")
    yield from table(heads, [_summary(record) for record in records])
    yield "\n## What is wrong\n"
    yield from paragraph(
        "Each cause once, with the conversions and the first input that show it; of an optimizing ONNX Runtime, what it"
        " does not share with the one without. The sentence of the standard decides against the engine; the last column"
        " runs the vector."
    )
    heads = ("engine", "what", "settings", "operators", "from", "to", "first input", "required", "given")
    rows = [_cause_row(record, each) for record in records for each in _own_causes(record, records[0], vectors)]
    yield from table((*heads, "the standard", "shown by"), rows)
    yield "\n## Cast, pair by pair\n"
    yield from paragraph(
        "A number is how many elements are wrong; an empty cell is a refusal. CastLike and the other operators are in"
        " the records, `docs/conformance/engines`."
    )
    names = [name for name, each in vectors.items() if each.op == "Cast"]
    yield from table(["vector", *(TITLES[each.engine] for each in records)], _pairs(records, list(vectors), names))


def _own_causes(record: Record, base: Record, vectors: dict[str, Vector]) -> list[Cause]:
    """Return the causes; of ONNX Runtime with optimization, those that it does not share with `base`, without."""
    found = causes(record, vectors)
    if record is base or not record.engine.startswith(base.engine):
        return found
    known = {(each.kind, each.settings, each.targets()) for each in causes(base, vectors) if each.kind not in OF_ALL}
    return [
        each for each in found if each.kind not in OF_ALL and (each.kind, each.settings, each.targets()) not in known
    ]


def _some(names: list[str]) -> str:
    """Return the names, or how many they are."""
    unique = list(dict.fromkeys(names))
    return ", ".join(unique) if len(unique) <= _MOST_NAMES else f"{len(unique)} types"


def _summary(record: Record) -> list[object]:
    counts = [record.statuses.count(letter) for letter in "rw-x"]
    sums = [sum(each.get(key, 0) for each in record.details.values()) for key in ("disputed", "undefined", "nan_bits")]
    return [TITLES[record.engine], record.version, record.date, *counts, *(f"{each:,}" for each in sums)]


def _cause_row(record: Record, cause: Cause) -> list[str]:
    vector = cause.vectors[0]
    first = record.details[vector.name]["first"]
    run = f"`castsmith dev conformance run --engine {cause.engine} --match {vector.name}`"
    cells = (cause.kind, cause.settings, cause.operators(), cause.sources(), cause.targets())
    return [TITLES[cause.engine], *cells, first["input"], first["expected"], first["got"], vector.clause, run]


def _pairs(records: Sequence[Record], order: list[str], names: list[str]) -> list[list[str]]:
    places = {name: index for index, name in enumerate(order)}
    return [[name.removeprefix("cast_"), *(_cell(record, name, places[name]) for record in records)] for name in names]


def _cell(record: Record, name: str, place: int) -> str:
    letter = record.statuses[place]
    return f"**{record.details[name]['wrong']:,}**" if letter == "w" else CELLS[letter]


def domains_page(record: dict[str, Any]) -> Iterator[str]:
    """Yield the page of the hashes."""
    yield "\n# Hashes of whole domains\n"
    yield from paragraph(
        "One hash proves a conversion for all 2<sup>32</sup> floats. Convert the codes 0, 1, ... in order, write each"
        " result as one byte (two for types of 16 bits, little-endian; types of less than a byte in the low bits), and"
        " take the SHA-256. Every NaN is written as the positive quiet one, and inputs in the ranges below, whose"
        " result the standard leaves open, as 0. The rules are those of opset 24 and newer."
    )
    yield "```python"
    yield "import hashlib"
    yield ""
    yield "import ml_dtypes"
    yield "import numpy as np"
    yield ""
    yield "digest = hashlib.sha256()"
    yield "for start in range(0, 2**16, 2**14):  # 2**32 and uint32, float32 for float"
    yield "    x = np.arange(start, start + 2**14, dtype=np.uint16).view(ml_dtypes.bfloat16)"
    yield "    with np.errstate(all='ignore'):"
    yield "        y = x.astype(ml_dtypes.float8_e5m2)  # your conversion, here without saturation"
    yield "    codes = np.where(np.isnan(y), np.uint8(0x7E), y.view(np.uint8))"
    yield "    digest.update(codes.tobytes())"
    yield f"assert digest.hexdigest() == {record['sha256']['bfloat16_to_float8e5m2_no_saturate']!r}"
    yield "```\n"
    yield from paragraph(
        f"Recorded on {record['date']} by two implementations that share no code and agree: the codec of Castsmith,"
        " value by value, and exact rational arithmetic that finds the first input of each result by halving"
        " (`python -m tests.conformance.record domains`)."
    )
    rows = [(name, f"`{digest}`", _ranges(record["open"][name])) for name, digest in record["sha256"].items()]
    yield from table(("conversion", "SHA-256", "open inputs (codes)"), rows)


def _ranges(ranges: list[list[str]]) -> str:
    shown = [begin if begin == end else f"{begin} to {end}" for begin, end in ranges]
    return ", ".join(shown)


def deviations_page(record: Record, found: Sequence[Cause]) -> Iterator[str]:
    """Yield a page with a text for the tracker of an engine for each cause."""
    title = TITLES[record.engine]
    yield f"\n# Deviations of {title}\n"
    yield from paragraph(
        f"Look up the wrong conversions of version {record.version}, each with a script that shows it: {len(found)}"
        f" causes, recorded on {record.date}. Each can be sent to the project as it stands. It may be known there"
        " already, so search the tracker first."
    )
    for cause in found:
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
