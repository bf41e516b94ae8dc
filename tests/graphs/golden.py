"""Golden cases: the result and the records of a pass for a model, as one readable file.

    # pass: fold-constants{max_growth=0}
    # why: one line on what the case shows
    # inputs: {"n": 3}      where an input must be more than its type says, such as an index
    <model in ONNX text>
    # expect
    <model in ONNX text, as onnx prints it>
    # records
    # one line for each rewrite (rule, place, reason), refusal and diagnostic

`python -m tests.graphs.golden FILE...` writes the last two parts again. Read the result: a golden file is a claim,
not an archive.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import onnx_ir

from castsmith.ir.records import Records, RewriteResult
from castsmith.lowering.registry import make_pass
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.promote.insert import InsertPromoteTypes
from castsmith.targets.target import Target, load_target
from tests.versions import ONNX

_PRINTS_DATA = ONNX >= (1, 23)
_DATA_AND_SPACE = re.compile(r"\{[^{}\n]*\}|\.\.\.|\s")


@dataclass(frozen=True)
class Case:
    """One golden file, read."""

    path: Path
    spec: str
    header: str
    source: str
    expected: str
    records: str
    inputs: dict[str, Any]

    def model(self) -> onnx_ir.Model:
        return onnx_ir.from_onnx_text(self.source)

    def rules(self) -> PromotionRules:
        """The rules by which the source means what it says."""
        chosen = make_pass(self.spec, {"target": _target()})
        return chosen.rules() if isinstance(chosen, InsertPromoteTypes) else PromotionRules(promote_unsafe=True)

    def run(self, model: onnx_ir.Model) -> Records:
        result = make_pass(self.spec, {"target": _target()})(model)
        assert isinstance(result, RewriteResult)
        return result.records


@cache
def _target() -> Target:
    return load_target("onnxruntime-android")


def read(path: Path) -> Case:
    text = path.read_text()
    source, _, rest = text.partition("# expect\n")
    expected, _, records = rest.partition("# records\n")
    header = "".join(line + "\n" for line in source.splitlines() if line.startswith("#"))
    fields = dict(line.removeprefix("# ").split(": ", 1) for line in header.splitlines())
    inputs = ast.literal_eval(fields.get("inputs", "{}"))
    return Case(path, fields["pass"], header, source.removeprefix(header), expected, records, inputs)


def model_text(model: onnx_ir.Model) -> str:
    """The model as onnx prints it; an initializer that is in value_info too is printed once."""
    proto = onnx_ir.to_proto(model)
    return onnx.printer.to_text(proto).rstrip() + "\n"


def comparable(text: str) -> str:
    """The text without what older releases print otherwise: onnx before 1.23 elides the data of some tensors, and with
    it come numpy releases that print large floats in full."""
    return text if _PRINTS_DATA else _DATA_AND_SPACE.sub("", text.replace("3000000000.0", "3e+09"))


def records_text(records: Records) -> str:
    lines = [f"rewrite {r.rule} | {r.site} | {r.reason}{_saved(r.saved_bytes)}" for r in records.rewrites]
    lines += [f"refusal {r.rule} | {r.site} | {r.reason} | {r.witness}" for r in records.refusals]
    lines += [f"{d.severity.value} {d.code} | {d.site} | {d.message}" for d in records.diagnostics]
    return "".join(f"# {line}\n" for line in lines) or "# none\n"


def _saved(count: int | None) -> str:
    return "" if count is None else f" | saves {count} bytes"


def write(path: Path) -> None:
    case = read(path)
    model = case.model()
    records = case.run(model)
    path.write_text(
        f"{case.header}{case.source.rstrip()}\n# expect\n{model_text(model)}# records\n{records_text(records)}"
    )


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(Path(name))
