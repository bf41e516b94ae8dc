"""The tables in docs/promotion.md, and docs/promotion.csv, are what the rules say.

`python -m tests.numerics.promotion.test_promotion_docs` makes them.
"""

from __future__ import annotations

from pathlib import Path

from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.common import common_type
from castsmith.numerics.promotion.rules import PRESETS, PromotionRules

DOCUMENT = Path(__file__).parents[3] / "docs" / "promotion.md"
DATA = DOCUMENT.with_suffix(".csv")
MARK = "<!-- tables: generated -->\n"
TYPES = "bool i8 u8 i16 u16 i32 u32 i64 u64 f8e4m3fn f8e5m2 f16 bf16 f32 f64".split()  # noqa: SIM905
TITLES = {
    "openvino": "`openvino`, safe (the default)",
    "torch": "`torch` (two tensors that are not scalars)",
}
"""The tables that the page shows."""


def cell(lhs: str, rhs: str, rules: PromotionRules) -> str:
    try:
        common = common_type([(lhs, 1), (rhs, 1)], rules)
    except PromotionError:
        return "-"
    return "?" if common is None else common.short_name().replace("b8", "bool")


def table(rules: PromotionRules) -> str:
    head = ["", *TYPES]
    rows = [[f"**{lhs}**", *(cell(lhs, rhs, rules) for rhs in TYPES)] for lhs in TYPES]
    return "".join("| " + " | ".join(row) + " |\n" for row in [head, ["---"] * len(head), *rows])


def chosen() -> dict[str, PromotionRules]:
    return {**PRESETS, "openvino unsafe": PromotionRules(promote_unsafe=True)}


def tables() -> str:
    return "".join(f"\n### {title}\n\n{table(chosen()[name])}" for name, title in TITLES.items())


def data() -> str:
    rows = ((name, lhs, rhs, cell(lhs, rhs, chosen()[name])) for name in chosen() for lhs in TYPES for rhs in TYPES)
    return "preset,first,second,common\n" + "".join(f"{','.join(row)}\n" for row in rows)


def test_the_document_has_the_tables_of_the_rules() -> None:
    _, _, found = DOCUMENT.read_text().partition(MARK)
    assert found == tables()


def test_the_data_are_of_the_rules() -> None:
    assert DATA.read_text() == data()


if __name__ == "__main__":
    text, _, _ = DOCUMENT.read_text().partition(MARK)
    DOCUMENT.write_text(text + MARK + tables())
    DATA.write_text(data())
