"""The lines and the data of bounds, made of records at each limit."""

from __future__ import annotations

import math

import onnx_ir
from onnx_ir import DataType

from castsmith.cli.text.bounds import bounds_data, bounds_lines
from castsmith.lowering.faults import Fault
from castsmith.verification.bounds import Bound, Bounds, Excess
from tests.cli.helpers import marked

LONG = "m" * 47
BOUNDS = Bounds(
    {
        "x": Bound(-1, 1, "proven", DataType.FLOAT, ("x is from -1 to 1",), measured=(-0.5, 0.25)),
        "a": Bound(-math.inf, math.inf, "unknown", DataType.FLOAT16, (), ("y", "z")),
        f"{LONG}0": Bound(-7, 1234567.5, "measured", None, ("it is so",), measured=(-7, 1234567.5), may_be_nan=True),
        f"{LONG}12": Bound(math.nan, math.nan, "measured"),
        "c": Bound(2, 3, "proven", DataType.DOUBLE, ("it is so",), measured=(0, 0)),
    },
    {"x": "x", "a": "node (Exp)", f"{LONG}0": f"{LONG}3 (Add)", f"{LONG}12": "n", "c": "c"},
    {},
    [("y", 1), ("z", 2), ("w", 3)],
)
HEAD = [
    "<bold>5 values<>: 2 proven, 2 measured, 1 unknown|2",
    "<dim>  assumed: it is so|4",
    "<dim>  assumed: x is from -1 to 1|4",
]
TAIL = [
    "  declare --range y=LOW:HIGH: 1 unknown value depends on it|4",
    "  declare --range z=LOW:HIGH: 2 unknown values depend on it|4",
]
CUT = f"...{'m' * 43}12"
ROWS = [
    f"  {name:48}  {interval:17}  {how:8}  {maker}|4"
    for name, interval, how, maker in (
        (CUT, "[nan, nan]", "measured", "n"),
        (f"{LONG}0", "[-7, 1.23457e+06]", "measured", f"...{'m' * 38}3 (Add)"),
        ("c", "[2, 3]", "proven", "c"),
        ("x", "[-1, 1]", "proven", "x"),
        ("a", "[-inf, inf]", "unknown", "node (Exp)"),
    )
]


def lines(most: int | None, excess: list[Excess] | None = None, places: list[Fault] | None = None) -> list[str]:
    to = None if excess is None else "float16"
    return [marked(line) for line in bounds_lines(BOUNDS, excess, to, most, places)]


def test_the_widest_come_first_and_unknown_ones_only_if_there_is_room() -> None:
    assert [line for line in lines(None) if line not in HEAD + TAIL] == ROWS
    for most in (5, 6):
        assert lines(most) == [*HEAD, *ROWS, *TAIL]
    for most in (4, 2):
        shown = [line.split() for line in lines(most)[3:-3]]
        assert shown == [row.split() for row in ROWS[:most]]
        assert lines(most)[-3] == f"<dim>  {5 - most} more (--all prints them, --json has all)|4"
    unknown = Bounds({name: Bound(-1, 1, "unknown") for name in "ab"}, {"a": "a", "b": "b"})
    assert [marked(line) for line in bounds_lines(unknown, None, None, 1)][1:] == [
        "  a  [-1, 1]  unknown  a|4",
        "<dim>  1 more (--all prints them, --json has all)|4",
    ]


def excess(name: str, kind: str, *, first: bool = True) -> Excess:
    return Excess(name, f"{name} (Mul)", Bound(-1, 7e9, "proven"), kind, first, "a", f"scale {name}")  # pyright: ignore[reportArgumentType]


def test_what_a_type_does_not_hold_is_listed_by_kind() -> None:
    assert lines(1, []) == [*HEAD, "<green>  every value fits float16|4", *TAIL]
    every = [
        excess("u", "unknown"), excess("v", "vanish"), excess("a", "overflow"), excess("b", "overflow", first=False),
        excess("i", "infinite"), excess("n", "nan"), excess("o", "nan"), excess("p", "nan"),
    ]  # fmt: skip

    def of(name: str) -> str:
        return f"    {name} [-1, 7e+09] (proven): scale {name}|6"

    more = "<dim>    1 more (--all prints them, --json has all)|6"
    assert lines(2, every)[3:-2] == [
        *("<red>  3 values NaN on the given inputs<>:|4", of("n"), of("o"), more),
        *("<red>  1 value infinite on the given inputs<>:|4", of("i")),
        *("<red>  2 values can exceed float16<>, caused by 1 of them:|4", of("a")),
        *("<yellow>  1 value vanishes in float16<>:|4", of("v")),
        *("<dim>  1 value unknown<>:|4", of("u")),
    ]
    for most in (3, None):
        assert lines(most, every)[4:7] == [of("n"), of("o"), of("p")]
        assert more not in lines(most, every)


def test_the_nodes_that_go_wrong_in_float16() -> None:
    same = "<green>  on these inputs float16 gives the same results, apart from rounding|4"
    assert lines(2, None, [])[3] == same
    places = [FAULT, FAULT, FAULT]
    end = "  castsmith convert --to float16 computes them in float, with --rescale in float16|4"
    more = "<dim>    1 more (--all prints them, --json has all)|6"
    place = f"    {FAULT.place}: {FAULT.reason}|6"
    for most, shown in ((2, [place, place, more]), (3, [place] * 3), (None, [place] * 3)):
        head = "<red>  3 nodes of this model go wrong in float16 on these inputs|4"
        assert lines(most, None, places)[3 : 5 + len(shown)] == [head, *shown, end]
    assert lines(None, None, places[:1])[3] == "<red>  1 node of this model goes wrong in float16 on these inputs|4"


FAULT = Fault(onnx_ir.node("Mul", []), "n", "g: n (Mul)", "v", "overflow", 70000.0)


def test_the_data() -> None:
    data = bounds_data(BOUNDS, [excess("b", "vanish", first=False)], [FAULT])
    assert data["counts"] == {"proven": 2, "measured": 2, "unknown": 1}
    first, unknown, long, nan, last = data["values"]
    assert first == {
        "name": "x", "node": "x", "low": -1, "high": 1, "how": "proven", "type": "float",
        "assumes": ["x is from -1 to 1"], "depends_on": [], "measured": [-0.5, 0.25], "margin": 2.0,
        "may_be_nan": False,
    }  # fmt: skip
    assert (unknown["low"], unknown["high"], unknown["depends_on"], unknown["measured"]) == (
        None,
        None,
        ["y", "z"],
        None,
    )
    assert (unknown["node"], unknown["type"], unknown["margin"]) == ("node (Exp)", "float16", None)
    assert (long["type"], long["may_be_nan"], long["high"], nan["low"]) == (None, True, 1234567.5, None)
    assert (last["margin"], last["measured"]) == (None, [0, 0])  # infinite, which JSON lacks
    assert data["exceeding"] == [
        {"name": "b", "node": "b (Mul)", "kind": "vanish", "first": False, "cause": "a", "proposal": "scale b"}
    ]
    fault = {"node": "n", "value": "v", "kind": "overflow", "magnitude": 70000.0, "place": "g: n (Mul)"}
    assert (data["faults"], data["declare"][0]) == ([fault], {"input": "y", "unknown_values": 1})
    assert [bounds_data(BOUNDS, None)[key] for key in ("exceeding", "faults")] == [None, None]
