"""One line of ONNX text, and what a lowering makes of it, as in tests/passes/test_rows.py; each record has its effect.

The files in `rows` have the names of the folders of `lowering`. A line `# pass: NAME{OPTIONS} OPSET@TARGET` names a
target of `TARGETS`, each of which lacks one thing. `python -m tests.lowering.test_rows FILE...` writes the results
again, to be read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.records import Effect, RewriteResult, Site
from castsmith.lowering.registry import make_pass
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.types import ELEMENT_TYPES
from castsmith.targets.statements import WrongCast, WrongFusion
from castsmith.targets.target import Target
from tests.passes.test_rows import after, blocks, listed

FOLDER = Path(__file__).with_name("rows")
IMPORTS = '"local" : 1, "com.microsoft" : 1, "trt" : 1, "qonnx.custom_op.general" : VERSION'
FLOAT, HALF, BRAIN, DOUBLE = DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.DOUBLE
UINT8, INT8, UINT16, INT16 = DataType.UINT8, DataType.INT8, DataType.UINT16, DataType.INT16
INT32, BOOL, FP8 = DataType.INT32, DataType.BOOL, DataType.FLOAT8E4M3FN

MOST_LINES, MOST_LETTERS = 20, 300
"""Lines of a model that are shown, and letters of each: what is longer rounds, or is a table, tested by its values."""
_OPERATOR, _OF_NODE, _OF_VALUE = (
    re.compile(r" = ([\w.]+) [(<]"),
    re.compile(r"\[castsmith_\w+\] "),
    re.compile(r"castsmith_(\w+)_output"),
)


NBITS = {"com.microsoft.MatMulNBits", "com.microsoft.QuantizeLinear"}
PROBED = {"Equal", "NonZero", "Concat", "Xor", "Where", "And", "Gather", "Less", "Max", "Abs", "Add", "ArgMax", "TopK"}


def lacking(newest_opset: int = 24, newest_ir_version: int = 11, **statements: Any) -> Target:
    return Target("t", "", newest_opset, newest_ir_version, **{"types": ELEMENT_TYPES, "kernels": {}, **statements})


TARGETS = {
    "all": lacking(),
    "few-halves": lacking(kernels={HALF: {"Cast": 1, "Neg": 1, "Transpose": 1, "Abs": 22}, BRAIN: {"Neg": 1}}),
    "few-floats": lacking(kernels={HALF: {"Cast": 1}, FLOAT: {"Cast": 1, "Add": 1}}),
    "no-brain": lacking(lacks={BRAIN}),
    "no-halves": lacking(lacks={HALF, BRAIN}),
    "one-type": lacking(one_type=dict.fromkeys(("Pow", "QuantizeLinear", "RMSNormalization"), "")),
    "one-type-of-float": lacking(
        one_type={"Pow": "", "RMSNormalization": ""}, kernels={HALF: {"Cast": 1}, BRAIN: {"Cast": 1}}
    ),
    "crashes": lacking(hazards={"transpose-cast-matmul-crashes": ""}),
    "divides": lacking(hazards={"quantize-divides-in-float": ""}),
    "opset-17": lacking(newest_opset=17),
    "opset-18": lacking(newest_opset=18),
    "opset-20": lacking(newest_opset=20),
    "opset-21": lacking(newest_opset=21),
    "opset-18-without-int16": lacking(newest_opset=18, lacks={INT16}),
    "scatters": lacking(hazards={"half-scatter-reductions": ""}),
    "no-uint8": lacking(kernels={HALF: {"Cast": 1}, UINT8: {"Identity": 1}}),
    "rounds-late": lacking(
        kernels={HALF: {"Cast": 1}},
        wrong_casts=[WrongCast(frozenset({FLOAT}), frozenset({FP8}), "is late", "", saturate=False)],
    ),
    "rounds-back": lacking(
        kernels={HALF: {"Cast": 1}},
        wrong_casts=[WrongCast(frozenset({FP8}), frozenset({FLOAT}), "is late", "")],
    ),
    "no-cast-of-float8": lacking(kernels={HALF: {"Cast": 1}, FP8: {"Identity": 1}}),
    "int8": lacking(kernels={UINT8: {"Cast": 1}}),
    "no-bytes": lacking(kernels={UINT8: {"Cast": 1}, INT8: {"Cast": 1}}),
    "zero-points-of-zero": lacking(quantization={"constant-zero-points-of-zero": ""}),
    "int8-of-zero": lacking(quantization={"constant-zero-points-of-zero": ""}, kernels={UINT8: {"Cast": 1}}),
    "no-bool": lacking(probed=PROBED, kernels={BOOL: {"Cast": 1, "Xor": 1, "Not": 1}}),
    "bool-casts": lacking(probed=PROBED, kernels={BOOL: {"Cast": 1}}),
    "floats-alone": lacking(probed=PROBED, kernels={UINT8: {"Cast": 1}, INT32: {"Cast": 1}, BOOL: {"Cast": 1}}),
    "no-not": lacking(probed=PROBED, kernels={BOOL: {"Cast": 1, "Xor": 1}}),
    "no-xor": lacking(probed=PROBED, kernels={BOOL: {"Cast": 1, "Not": 1}}),
    "no-int32": lacking(lacks={INT32}, probed=PROBED, kernels={BOOL: {"Cast": 1}}),
    "no-cast-of-int32": lacking(probed=PROBED, kernels={BOOL: {"Cast": 1}, INT32: {"NonZero": 9, "Concat": 4}}),
    "no-pair-of-int32": lacking(probed=PROBED, kernels={BOOL: {"Cast": 1}}, casts={BOOL: {FLOAT}, INT32: set()}),
    "late-below-21": lacking(
        probed=PROBED,
        kernels={UINT8: {"Cast": 1}},
        wrong_casts=[WrongCast(frozenset({INT32}), frozenset({UINT8}), "is late", "", before_opset=21)],
    ),
    "no-identity-of-bool": lacking(probed={"Identity"}, kernels={BOOL: {"Cast": 1}}),
    "lacks-uint8": lacking(lacks={UINT8}),
    "no-words": lacking(kernels={INT16: {"Cast": 1}, UINT16: {"Cast": 1}}),
    "no-casts": lacking(probed=PROBED, kernels={BOOL: {"Xor": 1, "Not": 1}, UINT8: {"Less": 22}}),
    "no-casts-back": lacking(
        probed=PROBED,
        kernels={UINT8: {"Cast": 1}},
        wrong_casts=[WrongCast(frozenset({INT32, FLOAT, HALF}), frozenset({UINT8}), "is late", "")],
    ),
    "no-float8": lacking(lacks={FP8}),
    "no-float8-nor-half": lacking(lacks={FP8, HALF}),
    "no-float8-at-12": lacking(lacks={FP8}, newest_opset=12),
    "no-float8-at-13": lacking(lacks={FP8}, newest_opset=13),
    "no-fnuz": lacking(lacks={DataType.FLOAT8E4M3FNUZ}),
    "no-float4": lacking(lacks={DataType.FLOAT4E2M1}),
    "no-e5m2": lacking(lacks={DataType.FLOAT8E5M2}),
    "no-powers": lacking(lacks={DataType.FLOAT8E8M0}),
    "no-where-of-bytes": lacking(lacks={FP8}, kernels={UINT8: {"Cast": 1, "Identity": 1}}),
    "as-written": lacking(lacks={FP8}, as_written="measured"),
    "fuses": lacking(wrong_fusions=[WrongFusion(frozenset({FP8}), frozenset({"DequantizeLinear"}), "is late")]),
    "unchecked": lacking(kernels={FP8: {"Cast": 1}}, hazards={"opset-unchecked": ""}),
    "bitcast-of-all": lacking(
        lacks={FP8, DataType.INT4, DataType.FLOAT8E8M0},
        newest_opset=26,
        sequence_operators={"BitCast": 26},
        hazards={"double-is-float": "why"},
    ),
    "no-complex": lacking(lacks={FP8, DataType.COMPLEX64}),
    "bitcast": lacking(lacks={FP8}, newest_opset=26, sequence_operators={"BitCast": 26}),
    "no-int4": lacking(lacks={DataType.INT4}),
    "lacks-kernels": lacking(kernels={FP8: {"Cast": 1, "Identity": 1, "CastLike": 1}}),
    "wrong-casts": lacking(
        wrong_casts=[WrongCast(frozenset({FLOAT}), frozenset({FP8}), "is late", "", saturate=False)]
    ),
    "wrong-below-21": lacking(
        kernels={DataType.INT8: {}},
        wrong_casts=[WrongCast(frozenset({FLOAT}), frozenset({FP8}), "is late", "", before_opset=21)],
    ),
    "whole-blocks": lacking(quantization={"whole-blocks": ""}),
    "no-pairs": lacking(casts={FLOAT: {HALF}, FP8: {FLOAT}}),
    "double-is-float": lacking(lacks={FP8}, hazards={"double-is-float": "why"}),
    "no-identity-of-bytes": lacking(lacks={FP8}, probed={"Identity"}, kernels={UINT8: {"Cast": 1}}),
    "unconverted": lacking(hazards={"functions-unconverted": ""}),
    "qonnx": lacking(domains={"qonnx.custom_op.general"}),
    "microsoft": lacking(domains={"com.microsoft"}, newest_opset=20),
    "microsoft-12": lacking(domains={"com.microsoft"}, newest_opset=12),
    "microsoft-13": lacking(domains={"com.microsoft"}, newest_opset=13),
    "microsoft-21": lacking(domains={"com.microsoft"}, newest_opset=21),
    "no-nbits": lacking(domains={"com.microsoft"}, newest_opset=20, probed=NBITS, kernels={FLOAT: {"MatMul": 1}}),
    "trt": lacking(domains={"trt"}),
    "same-names": lacking(hazards={"same-node-names": "", "attributes-without-effect": ""}),
    "old-ir": lacking(newest_ir_version=8),
    "ir-7": lacking(newest_ir_version=7),
    "needs-9": lacking(kernels={FLOAT: {"Tanh": 9}}),
    "needs-11": lacking(kernels={FLOAT: {"Tanh": 11}}),
    "needs-18": lacking(kernels={FLOAT: {"Tanh": 18}}),
    "needs-13": lacking(kernels={FLOAT: {"Softmax": 13, "LogSoftmax": 13}}),
    "unknown": Target("t", ""),
    "dropped": lacking(dropped={FLOAT: {"RoiAlign": 22}}),
}


def results(spec: str, text: str) -> Iterator[str]:
    """Yield the lines that a pass makes of a model."""
    name, _, rest = spec.rpartition(" ")
    opset, _, target = rest.partition("@")
    version = "2" if target.endswith("+2") else "1"
    imports = f'"" : {opset}, {IMPORTS.replace("VERSION", version)}'
    head = f"<ir_version: {3 if int(opset) < 9 else 10}, opset_import: [{imports}]> g "
    try:
        model = onnx_ir.from_proto(before := onnx.parser.parse_model(head + text))
        result = make_pass(name, {"target": TARGETS[target.removesuffix("+2")]})(model)
    except CastsmithError as error:
        yield f"error {error}"
        return
    assert isinstance(result, RewriteResult)
    if result.modified:
        yield from shortened([*after(model)])
        if (model.opset_imports.get(""), model.ir_version) != (int(opset), before.ir_version):
            yield f"opset {model.opset_imports.get('')}, IR version {model.ir_version}"
    for each in result.records.rewrites:
        effect = "" if each.effect is Effect.BIT_EXACT else f" | {each.effect.value}"
        yield f"{each.rule} | {place(each.site)} | {each.reason}{effect}"
        yield f"    {listed(each.removed)}"
    for each in result.records.refusals:
        yield f"refused {each.rule} | {place(each.site)} | {each.reason} | {each.witness}".removesuffix(" | ")
    for each in result.records.diagnostics:
        yield f"{each.severity.value} {each.code} | {place(each.site)} | {each.message} | {each.help}"


def place(site: Site) -> str:
    """Return the place, with the value of a site that is no node."""
    return f"{site}{f': {site.output}' if site.output and not site.op else ''}"


def shortened(lines: list[str]) -> list[str]:
    """Return the lines without what each of our own nodes and values is called; of many, the operators alone."""
    if len(lines) > MOST_LINES:
        return [f"{lines[0]}: {' '.join(match[1] for line in lines if (match := _OPERATOR.search(line)))}"]
    return [_OF_NODE.sub("", _OF_VALUE.sub(r"\1", line))[:MOST_LETTERS] for line in lines]


def check_file(path: Path, *, write: bool) -> list[str]:
    """Return the models whose results are others than those in the file, or write the results into it."""
    wrong, lines = list[str](), list[str]()
    for spec, (model, *expected) in blocks(path):
        made = [f"    {line}" for line in results(spec, model)] if spec else expected
        lines += [model, *made]
        if made != expected:
            wrong.append("\n".join([f"{spec}: {model}", *made]))
    if write:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return wrong


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_gives_what_the_line_below_says(path: Path) -> None:
    assert check_file(path, write=False) == []


if __name__ == "__main__":
    for file in sys.argv[1:]:
        check_file(Path(file), write=True)
