"""The plot of bounds along the depth of a model: one strip a value, on a logarithmic scale, and a table of the widest.

Names in models are untrusted: all text is escaped, and the page runs no script.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from castsmith.numerics.types import element_type, parse_type, type_name
from castsmith.verification.bounds import Bound, Bounds

_WIDTH, _HEIGHT, _LEFT, _TOP = 1000.0, 380.0, 70.0, 16.0
_LEAST, _MOST = -30.0, 40.0
"""Powers of two that the plot shows; what is beyond is drawn at the edge."""
_ROWS = 200

_STYLE = """
:root { color-scheme: light dark; --fg: #1c1c1e; --bg: #fff; --grid: #ddd; --proven: #2f6fde; --measured: #1f9d61;
  --unknown: #b9b9be; --limit: #c62828; }
@media (prefers-color-scheme: dark) { :root { --fg: #ececf0; --bg: #17171a; --grid: #38383d; --proven: #7aa7ff;
  --measured: #5fd09a; --unknown: #66666c; --limit: #ff8a80; } }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--fg); background: var(--bg); margin: 2rem auto;
  max-width: 1040px; padding: 0 1rem; }
svg { width: 100%; height: auto; display: block; } text { fill: var(--fg); font-size: 12px;
  paint-order: stroke; stroke: var(--bg); stroke-width: 3px; }
.grid { stroke: var(--grid); } .limit { stroke: var(--limit); stroke-dasharray: 5 4; }
.proven { fill: var(--proven); } .measured { fill: var(--measured); } .unknown { fill: var(--unknown); }
h1 { overflow-wrap: anywhere; font-size: 1.5rem; } td:last-child, th { white-space: nowrap; }
table { border-collapse: collapse; width: 100%; margin-top: 1rem; } 
td, th { text-align: left; padding: .2rem .6rem .2rem 0;
  border-bottom: 1px solid var(--grid); overflow-wrap: anywhere; }
td.n { font-variant-numeric: tabular-nums; white-space: nowrap; }
.over { color: var(--limit); } i { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; }
i.proven { background: var(--proven); } i.measured { background: var(--measured); }
i.unknown { background: var(--unknown); }
"""


def bounds_page(title: str, bounds: Bounds, to: str | None) -> str:
    """Return the page as HTML.

    Args:
        title: The name of the model.
        bounds: Its bounds.
        to: The type whose limits are drawn; float16 if None.
    """
    row = element_type(parse_type(to or "float16"))
    name, limit, least = type_name(row.dtype), float(row.max), float(row.quantum)
    counts = ", ".join(f"{bounds.count(how)} {how}" for how in ("proven", "measured", "unknown"))
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Bounds of {escape(title)}</title><style>{_STYLE}</style>"
        f"<h1>Bounds of {escape(title)}</h1><p>{len(bounds)} values: {counts}."
        f"<i class=proven></i>proven<i class=measured></i>measured<i class=unknown></i>unknown</p>"
        f"<svg viewBox='0 0 {_WIDTH:.0f} {_HEIGHT + 40:.0f}' role=img>"
        f"<title>Magnitude of each value in the order of the model, against the limits of {escape(name)}</title>"
        + "".join(_axis())
        + "".join(_strips(bounds))
        + "".join(_limits(name, limit, least))
        + "</svg>"
        + "".join(_table(bounds, limit))
        + "</html>\n"
    )


def _y(magnitude: float) -> float:
    power = _LEAST if magnitude <= 0 else min(max(math.log2(magnitude), _LEAST), _MOST)
    return _TOP + (_MOST - power) / (_MOST - _LEAST) * (_HEIGHT - _TOP)


def _axis() -> Iterator[str]:
    for power in range(int(_LEAST), int(_MOST) + 1, 10):
        y = _y(2.0**power)
        yield f"<line class=grid x1={_LEFT:.0f} x2={_WIDTH:.0f} y1={y:.1f} y2={y:.1f} />"
        yield f"<text x={_LEFT - 8:.0f} y={y + 4:.1f} text-anchor=end>2^{power}</text>"
    yield f"<text x={_LEFT:.0f} y={_HEIGHT + 24:.0f}>first node</text>"
    yield f"<text x={_WIDTH:.0f} y={_HEIGHT + 24:.0f} text-anchor=end>last node</text>"


def _limits(name: str, limit: float, least: float) -> Iterator[str]:
    for value, text in ((limit, f"largest {name}"), (least, f"smallest {name}")):
        y = _y(value)
        yield f"<line class=limit x1={_LEFT:.0f} x2={_WIDTH:.0f} y1={y:.1f} y2={y:.1f} />"
        yield f"<text x={_WIDTH - 4:.0f} y={y - 4:.1f} text-anchor=end>{escape(text)}</text>"


def _strips(bounds: Bounds) -> Iterator[str]:
    """One strip a value, from what was measured (or the axis) up to the bound."""
    step = (_WIDTH - _LEFT) / max(len(bounds), 1)
    for index, (name, bound) in enumerate(bounds.items()):
        top = _TOP if bound.how == "unknown" else _y(bound.magnitude)
        x, height = _LEFT + index * step, max(_HEIGHT - top, 1.0)
        yield (
            f"<rect class={bound.how} x={x:.2f} y={top:.1f} width={max(step * 0.85, 0.4):.2f} height={height:.1f}>"
            f"<title>{escape(name)}: {escape(_text(bound))}</title></rect>"
        )


def _text(bound: Bound) -> str:
    if bound.how == "unknown":
        return f"unknown; depends on {', '.join(bound.depends_on)}" if bound.depends_on else "unknown"
    return f"[{bound.low:.6g}, {bound.high:.6g}], {bound.how}"


def _table(bounds: Bounds, limit: float) -> Iterator[str]:
    bounded = sorted(
        (name for name in bounds if bounds[name].how != "unknown"), key=lambda name: -bounds[name].magnitude
    )
    yield "<table><tr><th>value<th>node<th>bounds<th>how"
    for name in bounded[:_ROWS]:
        bound = bounds[name]
        over = " over" if bound.magnitude >= limit else ""
        yield (
            f"<tr><td>{escape(name)}<td>{escape(bounds.makers[name])}<td class='n{over}'>[{bound.low:.6g}, "
            f"{bound.high:.6g}]<td>{bound.how}"
        )
    yield "</table>"
