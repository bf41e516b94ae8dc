"""A target: the types, operators and limits of one runtime, and its errors; from its file, or made in Python."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, cast

from onnx_ir import DataType

from castsmith.ir.ops.schemas import since_version
from castsmith.ir.ops.table import MOVERS
from castsmith.numerics.arguments import text
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import did_you_mean
from castsmith.numerics.extensions import TARGETS, extension, extensions
from castsmith.numerics.json_files import read_json
from castsmith.numerics.types import CODED_TYPES, ELEMENT_TYPES, HALF_TYPES, Kind, element_type, parse_type
from castsmith.targets.registry import known_registry
from castsmith.targets.statements import (
    TargetError,
    WrongCast,
    WrongFusion,
    entries_by,
    read_each,
    read_evidence,
    read_name_set,
    read_names,
    read_number,
    read_object,
    read_opsets,
    read_pairs,
    read_rows,
    read_rules,
    read_statement,
    read_text,
    read_types,
    read_values,
    read_wrong_cast,
    read_wrong_fusion,
    stated,
    stated_types,
)

_HAS_ARITHMETIC = "Add"
_NEWEST_IR = 14
_UNKNOWN_UNLESS_STATED = ("newest_opset", "newest_ir_version", "kernels", "types")
TARGETS_FOLDER = Path(__file__).parent / "data"

ALIASES = {
    "android": "onnxruntime-android",
    "cuda": "onnxruntime-cuda",
    "directml": "onnxruntime-directml",
    "onnxruntime": "onnxruntime-cpu",
    "openvino": "openvino-cpu",
    "ort": "onnxruntime-cpu",
    "tensorrt": "tensorrt-11",
    "qnn": "onnxruntime-qnn",
    "trt": "tensorrt-11",
    "wasm": "onnxruntime-wasm",
    "web": "onnxruntime-webgpu",
    "webgpu": "onnxruntime-webgpu",
}
"""Names for which people know a runtime, and the target of today that each leads to."""


@dataclass(frozen=True, init=False)
class Target:
    """One runtime, as its file describes it.

    A type may be named in any form that Castsmith takes elsewhere, and an entry may be the object of JSON that a file
    has. What is not stated is unknown: `types`, `kernels`, `newest_opset` and `newest_ir_version` are then named in
    `unknown`, and `check` says so.

    Attributes:
        name: The name, such as `onnxruntime-cpu`.
        description: What it is, one phrase.
        newest_opset: The newest supported opset of the default domain.
        newest_ir_version: The newest supported IR version.
        types: The supported element types; all of them if they are unknown.
        kernels: For each type the operators that support it, and the first opset of each; a type without a row is
            supported by every operator whose schema allows it, and an operator that was not `probed` supports the types
            that have arithmetic. If they are unknown, types that can be codes are never left to the target.
        casts: For each type the types to which the target casts it; pairs with a type without a row are not restricted.
        held: The type in which the target keeps values of another, such as int64 in int32. Casts to and from the other
            do not change values that both have; wider integers do not wrap, and floats are not rounded.
        fallback: The target that runs the nodes which this one, a device, does not: ONNX Runtime leaves what an
            execution provider lacks to that of the CPU.
        off_device: Types that the device lacks and the fallback has; those that have a lowering are in `lacks` instead.
        quantization: The rules of its QuantizeLinear and DequantizeLinear beyond the standard, some of
            `QUANTIZATION_RULES`, each with its source.
        one_type: Operators whose operands of elements must all be of one type, where the standard allows several, each
            with its source.
        sums: For each operator that adds up many elements of float16, `*` for all, the type in which it does so.
        dropped: For each type the operators without a kernel for their newest definition, and the opset of it.
        wrong_fusions: Fusions that change results or fail.
        wrong_casts: Casts that it computes differently from the schema.
        sequence_operators: Operators outside the common set that encodings may use, and the first opset of each.
        as_written: Evidence that each operator is computed by itself and rounded to its type, never contracted or
            re-associated with others; empty if that is false or unknown. Doubles are then rounded by sums.
        hazards: Changes that its optimizer makes to arithmetic, by name, with descriptions.
        probed: The operators whose kernels were measured.
        probed_from: The oldest opset at which they were measured: at older ones those that were found count as
            supported, and `check` says that this is unknown. 0 if they were measured at each.
        operators: The operators of each domain that it has, of any type; empty if they are unknown.
        extension: The call by which an application gives it more operators.
        registry: The file in `registries` with the kernels that the runtime itself lists; empty without one.
        attributes: For each operator the values of an attribute with which the target makes a kernel.
        unchecked_types: For each type the operands, as `Conv.0`, that may have it against the standard.
        counts_operands: The operators that do not load with more operands than they have, though others do.
        mixes_operands: The operators whose operands may have several types where the standard requires one.
        opsets: The newest version of each domain beyond the standard one that the target knows, which need no import.
        domains: Domains of custom operators that the target supports itself, such as those of QONNX.
        unknown: The fields whose values are unknown; an unknown newest opset or IR version is not enforced.
        evidence: How the facts were found, and when: by field, or for all under the empty name.
        release: The release that the facts are about; empty if it is unknown.
        newest_release: The newest release that was seen, and the date in brackets.
        path: The user's own file from which it was read, as it was typed; empty for other targets.
    """

    name: str = stated(read_text)
    description: str = stated(read_text)
    newest_opset: int = stated(read_number, NEWEST_OPSET)
    newest_ir_version: int = stated(read_number, _NEWEST_IR)
    types: frozenset[DataType] = stated(read_types, stated_types())
    kernels: Mapping[DataType, Mapping[str, int]] = stated(read_rows)
    casts: Mapping[DataType, frozenset[DataType]] | None = stated(read_pairs, None)
    held: Mapping[DataType, DataType] = stated(
        lambda key, types: {parse_type(dtype): parse_type(held) for dtype, held in read_object(key, types).items()}, {}
    )
    fallback: Target | None = stated(lambda _, target: as_target(target), None)
    off_device: frozenset[DataType] = stated(read_types)
    quantization: Mapping[str, str] = stated(read_rules, {})
    one_type: Mapping[str, str] = stated(read_object, {})
    sums: Mapping[str, DataType] = stated(read_each(lambda _, dtype: parse_type(dtype)), {})
    dropped: Mapping[DataType, Mapping[str, int]] = stated(read_rows)
    wrong_fusions: tuple[WrongFusion, ...] = stated(entries_by(read_wrong_fusion))
    wrong_casts: tuple[WrongCast, ...] = stated(entries_by(read_wrong_cast))
    sequence_operators: Mapping[str, int] = stated(read_opsets, {})
    as_written: str = stated(read_text, "")
    hazards: Mapping[str, str] = stated(read_object, {})
    probed: frozenset[str] = stated(read_name_set)
    probed_from: int = stated(lambda key, opset: read_number(key, opset or None) or 0, 0)
    operators: Mapping[str, frozenset[str]] = stated(read_each(read_name_set), {})
    extension: str = stated(read_text, "")
    registry: str = stated(lambda _, name: known_registry(name), "")
    opsets: Mapping[str, int] = stated(read_opsets, {})
    attributes: Mapping[str, Mapping[str, tuple[str | int, ...]]] = stated(read_each(read_each(read_values)), {})
    unchecked_types: Mapping[DataType, Mapping[str, int]] = stated(read_rows)
    counts_operands: frozenset[str] = stated(read_name_set)
    mixes_operands: frozenset[str] = stated(read_name_set)
    domains: frozenset[str] = stated(read_name_set)
    unknown: tuple[str, ...] = stated(read_names)
    evidence: Mapping[str, str] = stated(read_evidence, "")
    release: str = stated(read_text, "")
    newest_release: str = stated(read_text, "")
    path: str = stated(read_text, "")

    def __init__(
        self,
        name: str,
        description: str = "",
        newest_opset: int | None = None,
        newest_ir_version: int | None = None,
        **statements: Any,
    ) -> None:
        """Make a target of its statements; `lacks` names unsupported types, and is subtracted from `types`.

        Raises:
            TargetError: A statement is not valid, such as a type that does not exist.
        """
        statements |= {
            "name": name,
            "description": description,
            "newest_opset": newest_opset,
            "newest_ir_version": newest_ir_version,
        }
        try:
            for key in statements:
                if key not in (*KEYS, "off_device", "path"):
                    raise ValueError(f"unknown key {key!r}; expected {', '.join(KEYS)}")
            lacks = statements.pop("lacks", None)
            values = {field.name: read_statement(field, statements.get(field.name)) for field in fields(self)}
            supported = values["types"] - read_types("lacks", lacks or ()) - values["off_device"]
            fallback: Target | None = values["fallback"]
            if fallback is not None:
                values["domains"] |= fallback.domains
                if statements.get("off_device") is None:
                    lacked = ELEMENT_TYPES.keys() - supported
                    values["off_device"] = frozenset(dtype for dtype in lacked if _falls_back(dtype, fallback))
            values["types"] = supported
            values["kernels"] = {dtype: row for dtype, row in values["kernels"].items() if dtype in supported}
            if lacks is not None:
                statements["types"] = lacks
            unstated = [key for key in _UNKNOWN_UNLESS_STATED if statements.get(key) is None]
            values["unknown"] = tuple(dict.fromkeys([*unstated, *values["unknown"]]))
        except KeyError as error:
            raise TargetError(f"the target {name!r} is not valid: {error.args[0]!r} is missing.") from None
        except (TypeError, ValueError, AttributeError) as error:
            raise TargetError(f"the target {name!r} is not valid: {_sentence(error)}") from None
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def __str__(self) -> str:
        """Return the name by which the user knows the target: the path of a file, as it was typed."""
        return self.path or self.name

    @cached_property
    def lacks(self) -> frozenset[DataType]:
        """The unsupported element types, less those `off_device`."""
        return frozenset(ELEMENT_TYPES) - self.types - self.off_device

    def sums_in(self, op_type: str) -> DataType | None:
        """Return the type in which an operator adds up elements of float16; None if it is unknown."""
        return self.sums.get(op_type, self.sums.get("*"))

    @property
    def is_stale(self) -> bool:
        """True if a newer release was seen than the one that the facts are about."""
        return bool(self.newest_release) and self.newest_release.partition(" ")[0] != self.release.partition(" ")[0]

    @property
    def operators_on_float8(self) -> Mapping[str, int]:
        """The operators that support the most common float8 type, and the first opset of each."""
        return self.kernels.get(DataType.FLOAT8E4M3FN, {})

    @property
    def operators_without_uint8(self) -> frozenset[str]:
        """The operators that only move elements and do not support uint8, in which codes are kept."""
        return MOVERS & (self.probed - self.kernels.get(DataType.UINT8, dict.fromkeys(self.probed, 1)).keys())

    @property
    def breaks_cast_after_transpose(self) -> bool:
        """True if the target fails on a Cast between Transpose and MatMul."""
        return "transpose-cast-matmul-crashes" in self.hazards

    @property
    def refuses_same_names(self) -> bool:
        """True if the target, or its fallback, does not load a graph with two nodes of one name."""
        return self.has_hazard("same-node-names")

    @property
    def refuses_idle_attributes(self) -> bool:
        """True if the target, or its fallback, does not load a Cast with attributes that have no effect."""
        return self.has_hazard("attributes-without-effect")

    def has_hazard(self, hazard: str) -> bool:
        """True if the target, or its fallback, has the hazard."""
        return hazard in self.hazards or (self.fallback is not None and self.fallback.has_hazard(hazard))

    def leaves_unchecked(self, op_type: str, index: int, dtype: DataType) -> bool:
        """True if the operand of the operator may have the type, though the standard does not allow it."""
        return f"{op_type}.{index}" in self.unchecked_types.get(dtype, {})

    def divides_in_float(self, opset: int) -> bool:
        """True if QuantizeLinear of a 16-bit float does not round the quotient to the type of the division."""
        name = "quantize-divides-in-float"
        return name in self.hazards or (f"{name}-below-23" in self.hazards and opset < 23)

    @property
    def complete_opset(self) -> int:
        """The newest opset at which the target has not `dropped` any operator of float."""
        return min((self.newest_opset, *(first - 1 for first in self.dropped.get(DataType.FLOAT, {}).values())))

    def drops(self, op_type: str, dtypes: Iterable[DataType | None], opset: int) -> int | None:
        """Return the newest opset below this one with a kernel of an operator that the target `dropped`, or None."""
        opsets = (self.dropped.get(dtype, {}).get(op_type, opset + 1) for dtype in dtypes if dtype is not None)
        first = min(opsets, default=opset + 1)
        return first - 1 if first <= opset else None

    def has_kernel(self, op_type: str, dtype: DataType, opset: int) -> bool:
        """True if the operator supports the type in a model of that opset."""
        if self.fallback is not None and dtype in self.off_device:
            return self.fallback.has_kernel(op_type, dtype, opset)
        if "kernels" in self.unknown and dtype in CODED_TYPES:
            return False
        if self.drops(op_type, (dtype,), opset) is not None:
            return False
        return self.runs_itself(op_type, dtype, opset) or (
            self.fallback is not None and self.fallback.has_kernel(op_type, dtype, opset)
        )

    def runs_itself(self, op_type: str, dtype: DataType, opset: int) -> bool:
        """True if a row of the kernels has the operator, or says nothing of it; the fallback is left out."""
        row = self.kernels.get(dtype)
        if row is None or op_type in row:
            return (
                row is None
                or row[op_type] <= opset
                or (opset < self.probed_from and since_version(op_type, opset) is not None)
            )
        return bool(self.probed) and op_type not in self.probed and _HAS_ARITHMETIC in row

    def lacks_domain(self, domain: str) -> bool:
        """True if the target has no operators of the domain, as far as its custom operators are known."""
        return bool(self.domains) and domain not in self.domains

    def computes(self, dtype: DataType) -> bool:
        """True if the target has arithmetic in the type, and does not only move or convert it."""
        if self.fallback is not None and dtype in self.off_device:
            return self.fallback.computes(dtype)
        row = self.kernels.get(dtype)
        return dtype not in self.lacks and (row is None or _HAS_ARITHMETIC in row)

    def fusion_defect(self, op_type: str, dtype: DataType) -> str | None:
        """Return the effect of the target's fusion of the operator on the type; None if it is correct."""
        entries = (entry for entry in self.wrong_fusions if dtype in entry.types and op_type in entry.operators)
        return next((entry.how for entry in entries), None)

    def _casting(self, source: DataType, to: DataType) -> Target:
        """Return the target that casts between the types: the fallback, if the device lacks one of them."""
        return self.fallback if self.fallback is not None and {source, to} & self.off_device else self

    def wrong_cast(
        self, source: DataType, to: DataType, *, saturate: bool, opset: int, inherent: bool = False
    ) -> WrongCast | None:
        """Return the entry that says the target computes this cast wrongly; None if the cast is left to it.

        inherent: An entry about a cast that is left to the target is an answer, too.
        """
        casts = self._casting(source, to).wrong_casts
        entries = (entry for entry in casts if entry.covers(source, to, saturate=saturate, opset=opset))
        wrong = sorted((entry for entry in entries if not entry.disputed), key=lambda entry: entry.inherent)
        return next((entry for entry in wrong if inherent or not entry.inherent), None)

    def loads_cast(self, source: DataType, to: DataType) -> bool:
        """True if the target loads a cast between the types, as far as its pairs are known."""
        casts = self._casting(source, to).casts
        if casts is None or not {source, to} <= casts.keys():
            return True
        return source == to or to in casts[source]

    def keeps_high_bits(self, source: DataType, to: DataType) -> bool:
        """True if a cast from one integer to another leaves bits above those of the type, in which it is held."""
        holder = element_type(self._casting(source, to).held.get(to, to))
        integers = element_type(source).kind is holder.kind is Kind.INTEGER
        return integers and holder.bits > element_type(to).bits and not embeds(source, to)

    def leaves_unrounded(self, source: DataType, to: DataType) -> bool:
        """True if a cast to a float does not round to it, because it is held in a wider float."""
        holder = self._casting(source, to).held.get(to, to)
        return element_type(to).kind is Kind.FLOATING and holder != to and embeds(to, holder) and not embeds(source, to)

    @property
    def narrowed(self) -> dict[DataType, DataType]:
        """The types that are held in one without all of their values, and the latter."""
        holders = self.held if self.fallback is None else {**self.fallback.held, **self.held}
        return {dtype: holder for dtype, holder in holders.items() if not embeds(dtype, holder)}

    def strict(self) -> Target:
        """Return the device alone, without the fallback."""
        return replace(self, off_device=(), fallback=None)


def _falls_back(dtype: DataType, fallback: Target) -> bool:
    """True if nodes of the type, which a device lacks, run on its fallback; those that have a lowering are lowered."""
    return dtype not in {*CODED_TYPES, *HALF_TYPES, *fallback.lacks} and bool(fallback.kernels.get(dtype))


def target_names() -> list[str]:
    """Return the targets that come with Castsmith, and those that other packages add."""
    return sorted({*_own_names(), *(added.name for added in extensions(TARGETS))})


def load_target(name_or_path: str) -> Target:
    """Return the target of that name, or the one that the JSON file at that path describes.

    Other packages add targets as entry points of the group `castsmith.targets`: a Target, or the path of a file.

    Args:
        name_or_path: The name of a target, one of the `ALIASES`, or the path of a JSON file.

    Raises:
        TargetError: The name is unknown, or the file does not describe a target.
        ExtensionError: A package adds an unusable target.
    """
    name = ALIASES.get(text("target", name_or_path), name_or_path)
    if name in _own_names():
        return _read(TARGETS_FOLDER / f"{name}.json")
    path = Path(name)
    if path.suffix == ".json":
        return replace(_read(path), path=name)
    added = extension(TARGETS, name, lambda registered: _fit(registered, name))
    if added is None and not path.is_file():
        names = target_names()
        way_out = did_you_mean(name, [*names, *ALIASES], f"expected {', '.join(names)}, or the path of a JSON file")
        raise TargetError(f"unknown target {name!r}; {way_out}")
    return added or replace(_read(path), path=name)


def aliases_of(name: str) -> list[str]:
    """Return the other names of a target, sorted."""
    return sorted(alias for alias, target in ALIASES.items() if target == name)


def as_target(target: str | Target | None, *, strict: bool = False) -> Target | None:
    """Return the target itself, or the one of that name or path; None for None. Raises as `load_target` does.

    strict: without the fallback of a device.
    """
    chosen = target if target is None or isinstance(target, Target) else load_target(target)
    return chosen.strict() if strict and chosen is not None else chosen


def _own_names() -> list[str]:
    return sorted(path.stem for path in TARGETS_FOLDER.glob("*.json"))


def _fit(registered: object, name: str) -> Target:
    """Return a target as a package declares it: itself, or the path of its file."""
    if isinstance(registered, str | os.PathLike):
        registered = _read(Path(cast("str | os.PathLike[str]", registered)))
    if not isinstance(registered, Target):
        raise TypeError("it is neither a Target nor the path of a file")
    if registered.name != name:
        raise ValueError(f"the target's own name is {registered.name!r}")
    return registered


def _read(path: Path) -> Target:
    data = read_json(path, TargetError)
    try:
        if not isinstance(data, dict):
            raise TypeError("it is not an object")
        facts = _merged(cast("dict[str, Any]", data))
        return Target(**facts)
    except (TypeError, ValueError) as error:
        reason = _sentence(error).rpartition(" is not valid: ")[2]
        raise TargetError(f"{path} does not describe a target: {reason}") from None


def _sentence(error: Exception) -> str:
    text = str(error)
    return text if text.endswith("?") else f"{text.rstrip('.')}."


def _merged(data: dict[str, Any]) -> dict[str, Any]:
    """Return the statements of a file, with those of the one that it is based on."""
    base = data.pop("based_on", None)
    if base is not None:
        if base not in _own_names():
            raise ValueError(f"unknown target {base!r}; expected {', '.join(_own_names())}")
        inherited = cast("dict[str, Any]", read_json(TARGETS_FOLDER / f"{base}.json", TargetError))
        evidence = [read_evidence("evidence", file.get("evidence", "")) for file in (inherited, data)]
        data = {**inherited, **data, "evidence": {**evidence[0], **evidence[1]}}
    if "name" not in data:
        raise ValueError("'name' is missing")
    return data


KEYS = (*(name for name in Target.__annotations__ if name not in ("off_device", "path")), "lacks")
"""The statements that a file may have."""

_POSITIONAL, _NAMED = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
# What `help` shows: each statement by its name, the first four also by their place.
cast("Any", Target).__signature__ = Signature([
    *(p for p in signature(Target.__init__).parameters.values() if p.kind is _POSITIONAL and p.name != "self"),
    *(Parameter(name, _NAMED, default=None) for name in (*KEYS[4:], "off_device", "path")),
])  # fmt: skip
