"""Records what OpenVINO's ConvertPromoteTypes answers for every pair of its types, rank and attribute setting.

    python tests/numerics/promotion/record_openvino_promotion.py > tests/numerics/promotion/openvino_promotion.txt

Needs openvino; the recorded text is what `test_common_openvino.py` compares with. Settings with equal tables share
one: a block is the lines of its settings (`unsafe scalar u64-target lhs-rank rhs-rank`; a rank is 0, 1 or ?), then a
table with a row for each left and a column for each right type. `-` is a refusal, `?` an undecided type.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import itertools

import openvino
from openvino import PartialShape, Type, opset14 as ops

INTEGERS = ("i4", "u4", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
NAMES = ("boolean", *INTEGERS, "f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64")
RANKS = {"0": PartialShape([]), "1": PartialShape([2]), "?": PartialShape.dynamic()}
TARGETS = ("f32", "f64", "f16", "i64", "u8", "boolean")


def answer(lhs: str, rhs: str, setting: tuple[str, ...]) -> str:
    unsafe, scalar, target, lhs_rank, rhs_rank = setting
    inputs = [ops.parameter(RANKS[rank], getattr(Type, name)) for name, rank in ((lhs, lhs_rank), (rhs, rhs_rank))]
    try:
        node = ops.convert_promote_types(
            *inputs,
            promote_unsafe=unsafe == "unsafe",
            pytorch_scalar_promotion=scalar == "scalar",
            u64_integer_promotion_target=target,
        )
    except RuntimeError:
        return "-"
    names = {output.get_element_type().to_string() for output in node.outputs()}
    (name,) = names
    return "?" if name == "dynamic" else name


def table(setting: tuple[str, ...]) -> str:
    rows = ["         " + "".join(f"{name:8}" for name in NAMES).rstrip()]
    rows += [f"{lhs:9}" + "".join(f"{answer(lhs, rhs, setting):8}" for rhs in NAMES).rstrip() for lhs in NAMES]
    return "\n".join(rows)


def main() -> None:
    blocks: dict[str, list[str]] = {}
    for setting in itertools.product(("safe", "unsafe"), ("plain", "scalar"), TARGETS, RANKS, RANKS):
        blocks.setdefault(table(setting), []).append(" ".join(setting))
    print(f"OpenVINO {openvino.__version__.split('-')[0]}")
    for text, settings in blocks.items():
        print("", *settings, text, sep="\n")


if __name__ == "__main__":
    main()
