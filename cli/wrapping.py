"""Folding a line of ONNX text to the width of a terminal: between operands, hanging, and elided when very long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

Part = tuple[str, str]
"""A style and some text in it."""

_ELLIPSIS = " ..."
_NARROWEST = 20

_WORD = re.compile(r" *(?:\[[^\[\]]*\]|\S| = )+")
"""Blanks and what follows them: a shape such as [batch, 1] and an attribute such as axis = 1 stay whole."""


@dataclass(frozen=True)
class Line:
    """Styled parts that make one line; what does not fit is indented by `hang`, each part but the first anew.

    most: how many pieces a terminal gets to see of it; 0 for all.
    """

    parts: tuple[Part, ...]
    hang: int = 0
    most: int = 0

    @property
    def plain(self) -> str:
        return "".join(text for _, text in self.parts)


def wrap(line: Line, width: int) -> Iterator[list[Part]]:
    """The pieces of `line`, each at most `width` wide; beyond `most` of them they are elided."""
    width = max(width, line.hang + _NARROWEST)
    if len(line.plain) <= width:
        yield list(line.parts)
        return
    pieces = list(_fold(line, width))
    if line.most and len(pieces) > line.most:
        pieces = pieces[: line.most]
        style, text = pieces[-1][-1]
        room = width - len(_ELLIPSIS) - _length(pieces[-1][:-1])
        pieces[-1][-1:] = [(style, text[:room]), ("dim", _ELLIPSIS)]
    yield from pieces


def _fold(line: Line, width: int) -> Iterator[list[Part]]:
    piece: list[Part] = []
    for style, text in line.parts:
        if piece and len(text) > width - _length(piece):
            yield piece
            piece, text = [], " " * line.hang + text.lstrip()
        current = ""
        for word in _words(text, width - line.hang):
            if current.strip() and _length(piece) + len(current) + len(word) > width:
                yield [*piece, (style, current)]
                piece, current, word = [], " " * line.hang, word.lstrip()
            current += word
        piece.append((style, current))
    yield piece


def _length(piece: list[Part]) -> int:
    return sum(len(text) for _, text in piece)


def _words(text: str, longest: int) -> Iterator[str]:
    """The words of `text`; one wider than a whole line is cut."""
    words: list[str] = _WORD.findall(text)
    blanks = " " * (len(text) - len(text.rstrip(" ")))
    if blanks:
        words[-1:] = [words[-1] + blanks] if words else [blanks]
    for word in words:
        for start in range(0, len(word), longest):
            yield word[start : start + longest]
