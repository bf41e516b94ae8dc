"""promote_types against OpenVINO's running operator, as `record_openvino_promotion.py` recorded it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.common import promote_types
from castsmith.numerics.types import parse_type

RECORD = Path(__file__).with_name("openvino_promotion.txt")
OUR_NAMES = {"boolean": "bool", "f8e4m3": "f8e4m3fn"}
RANKS = {"0": 0, "1": 1, "?": None}

Table = dict[tuple[str, str], str]


def recorded_tables() -> Iterator[tuple[str, Table]]:
    """Each recorded setting with its table of answers."""
    _, *blocks = RECORD.read_text().split("\n\n")
    for block in blocks:
        lines = block.splitlines()
        head = next(index for index, line in enumerate(lines) if line.startswith(" "))
        columns = lines[head].split()
        rows = [line.split() for line in lines[head + 1 :]]
        table = {(row[0], column): cell for row in rows for column, cell in zip(columns, row[1:], strict=True)}
        for setting in lines[:head]:
            yield setting, table


def our_answer(lhs: str, rhs: str, setting: str) -> str:
    unsafe, scalar, target, lhs_rank, rhs_rank = setting.split()
    try:
        answer = promote_types(
            OUR_NAMES.get(lhs, lhs),
            OUR_NAMES.get(rhs, rhs),
            lhs_rank=RANKS[lhs_rank],
            rhs_rank=RANKS[rhs_rank],
            promote_unsafe=unsafe == "unsafe",
            pytorch_scalar_promotion=scalar == "scalar",
            u64_integer_promotion_target=OUR_NAMES.get(target, target),
        )
    except PromotionError:
        return "-"
    return "?" if answer is None else answer.name


def expected(cell: str) -> str:
    return cell if cell in "-?" else parse_type(OUR_NAMES.get(cell, cell)).name


def test_every_pair_agrees_with_the_running_operator() -> None:
    for setting, table in recorded_tables():
        assert len(table) == 17 * 17
        answers = {pair: our_answer(*pair, setting) for pair in table}
        differing = {pair: answers[pair] for pair, cell in table.items() if answers[pair] != expected(cell)}
        assert differing == {}, setting


def test_every_setting_is_recorded_once() -> None:
    settings = [setting for setting, _ in recorded_tables()]
    assert len(settings) == len(set(settings)) == 2 * 2 * 6 * 3 * 3
