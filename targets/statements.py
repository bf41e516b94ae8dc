"""The statements of a target, read alike from its JSON file and from Python: names of types, numbers, rows, entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field
from typing import Any, TypeVar, cast

from onnx_ir import DataType

from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.types import ELEMENT_TYPES, TypeLike, parse_type

T = TypeVar("T")

QUANTIZATION_RULES = {
    "constant-zero-points-of-zero": "the zero point must be a constant of zeros",
    "positive-scales": "every scale must be above 0",
    "int4-of-constants": "int4 is for weights alone, so the operand must be a constant",
    "blocks-of-the-last-two-axes": "blocks must lie along one of the last two axes",
    "constant-scales": "every scale must be a constant",
    "whole-blocks": "block_size must divide the axis, of a tensor of two or more dimensions",
    "zero-points-of-blocks": "QuantizeLinear with block_size must have a zero point, and an operand of known sizes",
}
"""The rules of quantization that a target may have, with their descriptions."""

_IR_OF_LACKS = 14
"""The newest IR version when files named unsupported types (`lacks`), and not supported ones."""

Entry = Mapping[str, Any]
"""An object of JSON."""
Rows = Mapping[Any, Mapping[str, int]] | Iterable[Entry]
"""For types, operators and an opset of each: by a name of the type, or as entries with `types` and `operators`."""
Pairs = Mapping[Any, Iterable[TypeLike]] | Iterable[Entry]
"""The types to which types are cast: by a name of the type, or as entries with `from` and `to`."""


class TargetError(CastsmithError, ValueError):
    """A target that is unknown, or whose file or arguments do not describe one."""


@dataclass(frozen=True)
class WrongCast:
    """Casts that the target computes differently from the schema, and the evidence.

    Attributes:
        sources: The types that are cast.
        targets: The types to which they are cast.
        wrong: What the target does instead.
        evidence: How that was found.
        saturate: Only with this setting, unless None.
        before_opset: Only in models of an older opset, unless None.
        disputed: Other trusted implementations do the same, so the cast is left to the target.
        inherent: It follows from how the target holds the types, such as int64 in 32 bits: the cast is left to the
            target, and reported as a note.
    """

    sources: frozenset[DataType]
    targets: frozenset[DataType]
    wrong: str
    evidence: str
    saturate: bool | None = None
    before_opset: int | None = None
    disputed: bool = False
    inherent: bool = False

    def covers(self, source: DataType, to: DataType, *, saturate: bool, opset: int) -> bool:
        """True if this cast is one of them."""
        return (
            source in self.sources
            and to in self.targets
            and self.saturate in (None, saturate)
            and (self.before_opset is None or opset < self.before_opset)
        )


@dataclass(frozen=True)
class WrongFusion:
    """Operators whose fusion with others is wrong on these types, unless they are constant, and the effect."""

    types: frozenset[DataType]
    operators: frozenset[str]
    how: str


def _listed(entries: object) -> tuple[Any, ...] | None:
    """Return the entries of a list; None for a text, and for what is no list."""
    is_list = isinstance(entries, Iterable) and not isinstance(entries, str)
    return tuple(cast("Iterable[Any]", entries)) if is_list else None


def stated(read: Callable[[str, Any], object], empty: object = ()) -> Any:
    """Return a field of a target.

    Args:
        read: Reads what is stated under the name of the field. Raises TypeError or ValueError.
        empty: What counts where nothing is stated.
    """
    return field(metadata={"read": read, "empty": empty})


def read_statement(owner: Field[Any], statement: object) -> Any:
    """Return the value of a field from what is stated, None if nothing is; None if that cannot be known."""
    statement = owner.metadata["empty"] if statement is None else statement
    return None if statement is None else owner.metadata["read"](owner.name, statement)


def read_text(_: str, text: object) -> str:
    """Return a text."""
    return str(text)


def read_types(_: str, names: Iterable[TypeLike]) -> frozenset[DataType]:
    """Return the types that the names name. Raises ElementTypeError or ArgumentTypeError for anything else."""
    listed = _listed(names)
    if listed is None:
        raise TypeError(f"a list of types is expected, not {names!r}")
    return frozenset(map(parse_type, listed))


def read_names(key: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, such as those of operators. Raises TypeError for anything but a list of texts."""
    listed = _listed(names)
    if listed is None or not all(isinstance(name, str) for name in listed):
        raise TypeError(f"{key} must be a list of names, not {names!r}")
    return listed


def read_name_set(key: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names, in no order."""
    return frozenset(read_names(key, names))


def read_object(key: str, statement: object) -> dict[Any, Any]:
    """Return what is stated of each name. Raises TypeError for anything but an object."""
    if isinstance(statement, Mapping):
        return dict(cast("Mapping[Any, Any]", statement))
    raise TypeError(f"{key} must map names to what is stated of each, as an object of JSON does, not {statement!r}")


def entries_by(read: Callable[[str, Any], T]) -> Callable[[str, object], tuple[T, ...]]:
    """Return what reads a list of objects, each by `read`."""
    return lambda key, entries: tuple(read(key, entry) for entry in read_entries(key, entries))


def read_each(read: Callable[[str, Any], object]) -> Callable[[str, object], dict[Any, Any]]:
    """Return what reads an object, and by `read` what is stated of each name."""
    return lambda key, statement: {name: read(key, value) for name, value in read_object(key, statement).items()}


def read_entries(key: str, entries: object) -> tuple[Any, ...]:
    """Return the entries of a list. Raises TypeError unless each is an object, or was one."""
    listed = _listed(entries)
    if listed is None or not all(isinstance(entry, Mapping | WrongCast | WrongFusion) for entry in listed):
        raise TypeError(f"{key} must be a list of objects, not {entries!r}")
    return listed


def read_opsets(key: str, row: Mapping[str, int]) -> dict[str, int]:
    """Return the first opset of each operator, or of each domain. Raises TypeError or ValueError for anything else."""
    if not isinstance(row, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise TypeError(f"{key} must state the first opset of each operator, as {{'Add': 7}}, not {row!r}")
    return {str(name): read_number(f"the first opset of {name} in {key}", opset) or 1 for name, opset in row.items()}


def stated_types() -> frozenset[DataType]:
    """Return the types from which `lacks` subtracts, if there is no `types`: later types are not among them."""
    return frozenset(dtype for dtype, row in ELEMENT_TYPES.items() if row.since.ir_version <= _IR_OF_LACKS)


def read_number(name: str, value: object) -> int | None:
    """Return a version. Raises ValueError unless it is an integer of at least 1, or None."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31):
        return value
    raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")


def read_rows(key: str, rows: Rows) -> dict[DataType, Mapping[str, int]]:
    """Return the operators of each type."""
    if isinstance(rows, Mapping):
        by_type = cast("Mapping[Any, Mapping[str, int]]", rows)
        return {parse_type(dtype): read_opsets(key, row) for dtype, row in by_type.items()}
    entries = read_entries(key, rows)
    by_type = dict[DataType, dict[str, int]]()
    for entry in entries:
        for dtype in read_types(key, entry["types"]):
            by_type.setdefault(dtype, {}).update(read_opsets(key, entry["operators"]))
    return dict(by_type)


def read_pairs(key: str, pairs: Pairs) -> dict[DataType, frozenset[DataType]]:
    """Return the types to which each type is cast."""
    if isinstance(pairs, Mapping):
        by_source = cast("Mapping[Any, Iterable[TypeLike]]", pairs)
        return {parse_type(source): read_types(key, to) for source, to in by_source.items()}
    entries = read_entries(key, pairs)
    return {source: read_types(key, entry["to"]) for entry in entries for source in read_types(key, entry["from"])}


def read_wrong_cast(key: str, entry: WrongCast | Entry) -> WrongCast:
    """Return an entry of `wrong_casts`."""
    if isinstance(entry, WrongCast):
        return entry
    keys = ("from", "to", "wrong", "evidence", "saturate", "before_opset", "disputed", "inherent")
    _require_known(entry, keys, key)
    saturate = entry.get("saturate")
    return WrongCast(
        sources=read_types(key, entry["from"]),
        targets=read_types(key, entry["to"]),
        wrong=str(entry["wrong"]),
        evidence=str(entry["evidence"]),
        saturate=None if saturate is None else bool(saturate),
        before_opset=read_number("before_opset", entry.get("before_opset")),
        disputed=bool(entry.get("disputed", False)),
        inherent=bool(entry.get("inherent", False)),
    )


def read_wrong_fusion(key: str, entry: WrongFusion | Entry) -> WrongFusion:
    """Return an entry of `wrong_fusions`."""
    if isinstance(entry, WrongFusion):
        return entry
    _require_known(entry, ("types", "operators", "how"), key)
    operators = read_name_set("operators", entry["operators"])
    return WrongFusion(read_types(key, entry["types"]), operators, str(entry["how"]))


def read_rules(key: str, rules: object) -> dict[str, str]:
    """Return the rules of quantization, each with its source."""
    stated_rules = read_object(key, rules)
    _require_known(stated_rules, tuple(QUANTIZATION_RULES), key, "rule")
    return {name: str(source) for name, source in stated_rules.items()}


def read_evidence(key: str, evidence: str | Mapping[str, str]) -> Mapping[str, str]:
    """Return the evidence by the key of what it is for; a text is for all of them, under the empty key."""
    if isinstance(evidence, str):
        return {"": evidence} if evidence else {}
    return {str(name): str(text) for name, text in read_object(key, evidence).items()}


def read_values(key: str, values: object) -> tuple[str | int, ...]:
    """Return the values of an attribute. Raises TypeError for anything but a list of texts and integers."""
    listed = _listed(values)
    if listed is None or not all(isinstance(value, str | int) for value in listed):
        raise TypeError(f"{key} must be a list of values, not {values!r}")
    return listed


def _require_known(entry: Entry, keys: Iterable[str], where: str, what: str = "key") -> None:
    for name in entry:
        if name not in keys:
            raise ValueError(f"unknown {what} {name!r} of {where!r}; expected {', '.join(keys)}")
