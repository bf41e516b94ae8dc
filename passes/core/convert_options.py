"""The options of `convert`, each in one place, as those of `optimize` are in `castsmith.passes.core.options`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

from castsmith.numerics.errors import OptionError
from castsmith.passes.core.options import (
    OptionInfo,
    check_options,
    checked,
    flag_info,
    invalid,
    option,
    required,
    shared,
    text_info,
)

if TYPE_CHECKING:
    from castsmith.numerics.types import TypeLike
    from castsmith.targets.target import Target
    from castsmith.verification.inputs.given import GivenInputs


def _precision(_: str, value: object) -> object:
    from castsmith.passes.precision.run import parse_precision

    return parse_precision(cast("TypeLike", value))


def _texts(name: str, value: object, *, or_flag: bool = False) -> object:
    """Return a text as it is, or the texts of a sequence; with `or_flag` None, True and False too."""
    if isinstance(value, str) or (or_flag and (value is None or isinstance(value, bool))):
        return value
    if isinstance(value, Iterable) and not isinstance(value, bytes | Mapping):
        texts = tuple(cast("Iterable[object]", value))
        if all(isinstance(text, str) for text in texts):
            return texts
    raise invalid(name, cast("object", value), "a str, or several", of_type=True)


def _ranges(name: str, value: object) -> dict[str, tuple[float, float]]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise invalid(name, value, "a mapping of names to two numbers", of_type=True)
    from castsmith.numerics.arguments import range_of

    for key in cast("Mapping[object, object]", value):
        if not isinstance(key, str):
            raise invalid(name, key, "the name of a value", of_type=True)
    return {key: range_of(key, ends) for key, ends in cast("Mapping[str, object]", value).items()}


def _error(name: str, value: object) -> float | None:
    if value is None:
        return None
    from castsmith.numerics.arguments import number

    return checked(partial(number, above=True), name, value, "a number above 0")


def _inputs(name: str, value: object) -> object:
    if value is None or isinstance(value, str | os.PathLike | Mapping | Iterable):
        return cast("object", value)
    raise invalid(name, value, "arrays by name, sets of them, a file, or made-up", of_type=True)


@dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """The options of `convert`, checked: `castsmith.convert(model, to="float16")` takes each by its name.

    Attributes:
        to: float16, bfloat16 or float.
        target: The runtime to convert for, or its name: a node is converted only if the target has a kernel.
        keep_io_types: Leave the types of inputs and outputs (True, the default), convert them (False), or leave only
            those named.
        keep: Patterns of nodes that keep their type, by name, operator, or path of modules.
        lower: Patterns of nodes that are converted although their operator is sensitive.
        ranges: Between which numbers values lie, by name; one beyond the precision is not converted.
        inputs: Arrays to measure the error on: by name, several sets, an .npz, a folder, or `made-up`.
        max_error: The relative error that outputs may have: the fewest nodes that reach it keep their type. It is
            measured on `inputs`, by default on generated ones.
        measure: Measure the error on generated inputs if no `inputs` are given.
        weights_only: Store the weights alone in float16 or bfloat16, each with one Cast back, so that the file has half
            the size and every node computes as before.
        rescale: Scale values by powers of two instead of computing nodes in float.
        dims: Sizes of symbolic dimensions, and shapes of inputs, by name, for generated inputs.
        io: `keep`, `convert`, or the names of inputs and outputs to convert, instead of `keep_io_types`.
        provenance: Note in the metadata of new nodes which rule made them.
        in_place: Change a model in memory itself.
        progress: Called with the name of each step before it runs.

    Raises:
        OptionError: An option does not support the value; the message names the option, the value, and what is
            expected.
    """

    to: TypeLike = required(OptionInfo("float16, bfloat16 or float", _precision, metavar="TYPE"))
    target: str | Target | None = shared("target")
    keep_io_types: bool | str | Sequence[str] | None = option(
        None, OptionInfo("leave the types of inputs and outputs, or of those named", partial(_texts, or_flag=True))
    )
    keep: str | Sequence[str] = option((), OptionInfo("patterns of nodes that keep their type", _texts))
    lower: str | Sequence[str] = option(
        (), OptionInfo("patterns of nodes to convert although their operator is sensitive", _texts)
    )
    ranges: Mapping[str, tuple[float, float]] | None = option(None, OptionInfo("ranges of values by name", _ranges))
    inputs: Literal["made-up"] | GivenInputs | None = option(
        None, OptionInfo("arrays to measure the error on", _inputs)
    )
    max_error: float | None = option(
        None, OptionInfo("keep the fewest nodes in their type that limit the relative error", _error, metavar="E")
    )
    measure: bool = option(False, flag_info("measure the error on generated inputs"))
    weights_only: bool = option(False, flag_info("store weights in 16 bits, and compute as before"))
    rescale: bool = option(False, flag_info("scale values by powers of two instead of computing in float"))
    dims: Mapping[str, int] | None = shared("verify_dims")
    io: str | None = option(
        None, text_info("keep or convert the types of inputs and outputs, or names of those to convert", optional=True)
    )
    provenance: bool = shared("provenance")
    in_place: bool = shared("in_place")
    progress: Callable[[str], None] | None = shared("progress")

    def __post_init__(self) -> None:
        check_options(self)
        if self.io is not None and self.keep_io_types is not None:
            raise OptionError(
                "`io` and `keep_io_types` both say which inputs and outputs keep their types: pass one of them."
            )
        changes_ports = self.io not in (None, "keep") or self.keep_io_types not in (None, True)
        if self.weights_only and (self.lower or changes_ports):
            other = "lower" if self.lower else "io" if self.io is not None else "keep_io_types"
            raise OptionError(f"`weights_only` changes weights alone: pass it without `{other}`.")
