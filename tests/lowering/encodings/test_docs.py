"""The tables of lowering/encodings/README.md that follow from the code.

`python -m tests.lowering.encodings.test_docs` prints them.
"""

from __future__ import annotations

from pathlib import Path

import onnx_ir
from onnx_ir import DataType

from castsmith.lowering.encodings.choose import NEEDS_BITCAST, Encoding, encode
from castsmith.lowering.encodings.ladder import round_in_place
from castsmith.lowering.formats import NarrowPolicy
from castsmith.numerics.types import element_type, type_name
from tests.lowering.encodings.exhaustive import OPSETS, ROUNDERS
from tests.lowering.runtime import sequence_model

PAGE = Path(__file__).parents[3] / "lowering" / "encodings" / "README.md"
ORDER = (Encoding.TABLE, Encoding.BITCAST, Encoding.LADDER)
TYPES = (
    DataType.FLOAT8E4M3FN, DataType.FLOAT8E4M3FNUZ, DataType.FLOAT8E5M2, DataType.FLOAT8E5M2FNUZ, DataType.FLOAT6E2M3,
    DataType.FLOAT4E2M1,
)  # fmt: skip


def node_rows() -> list[str]:
    """For each sequence the nodes of each type, as codes and in place: the fewest and the most over policies."""
    rows: list[str] = []
    for sequence in ORDER:
        cells = [f"{_span(_codes(sequence, to))}; {_span(_in_place(sequence, to))}" for to in TYPES]
        rows.append(f"| `{sequence.value}` | {' | '.join(cells)} |")
    return rows


def half_rows() -> str:
    """The sentence on the nodes of the 16-bit types."""
    model = [
        sequence_model(lambda b, x, to=to: round_in_place(b, x, to, NarrowPolicy()), DataType.FLOAT, 24)
        for to in (DataType.FLOAT16, DataType.BFLOAT16)
    ]
    return f"float16 in {len(model[0].graph.node)} nodes, bfloat16 in {len(model[1].graph.node)}"


def _policies(sequence: Encoding) -> list[NarrowPolicy]:
    opsets = {OPSETS[sequence], 26 if OPSETS[sequence] == 26 else 24}
    return [NarrowPolicy(saturate, opset) for saturate in (True, False) for opset in opsets]


def _codes(sequence: Encoding, to: DataType) -> list[int]:
    return [
        _nodes(lambda b, x, p=p: encode(b, x, to, p, sequence), p.opset)  # pyright: ignore
        for p in _policies(sequence)
    ]


def _in_place(sequence: Encoding, to: DataType) -> list[int]:
    arithmetic = sequence not in NEEDS_BITCAST
    if sequence not in ROUNDERS or (arithmetic and not element_type(to).has_nan):
        return []
    return [
        _nodes(lambda b, x, p=p: ROUNDERS[sequence](b, x, to, p), p.opset)  # pyright: ignore
        for p in _policies(sequence)
    ]


def _nodes(write: object, opset: int) -> int:
    model = sequence_model(write, DataType.FLOAT, opset)  # pyright: ignore
    return len(onnx_ir.from_proto(model).graph)


def _span(counts: list[int]) -> str:
    return "-" if not counts else str(min(counts)) if min(counts) == max(counts) else f"{min(counts)}-{max(counts)}"


def test_the_page_has_the_numbers_of_nodes():
    text = PAGE.read_text("utf-8")
    assert [row for row in (*node_rows(), half_rows()) if row not in text] == []
    assert "| nodes | " + " | ".join(map(type_name, TYPES)) in text


if __name__ == "__main__":
    print("\n".join([*node_rows(), "", half_rows()]))
