"""The options of `optimize`, each in one place: its type, default, allowed values and help text.

`optimize`, the fields of the passes, the command line and the reference pages are made from the fields of `Options`.
A field is checked when the instance is made, by the check in its metadata (`option`). A pass takes over an option by
`shared(name)`; `RewritePass` checks the fields of every pass that derives from it.

Nothing heavy is imported here, because the command line is built from this module.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import partial, wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, cast, get_args

from castsmith.numerics.errors import ArgumentTypeError, ElementTypeError, OptionError, did_you_mean
from castsmith.numerics.runtimes.names import Runtime
from castsmith.verification.evaluate.names import EngineName

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx_ir import DataType
    from onnx_ir.passes import PassBase

    from castsmith.numerics.promotion.rules import PromotionRules
    from castsmith.numerics.types import TypeLike
    from castsmith.targets.target import Target

T = TypeVar("T")
Model = TypeVar("Model")
Given = TypeVar("Given")
Result = TypeVar("Result")
Fields = ParamSpec("Fields")
Check = Callable[[str, object], object]
"""Takes the name and the value of an option, and returns the value to keep. Raises OptionError."""

Encoding = Literal["auto", "table", "bitcast", "ladder"]
"""Encodings in which lower-float8 writes conversions."""
FoldAs = Literal["", Runtime]
"""The runtime whose casts fold-constants computes; empty for the schema's."""
Interface = Literal["stored", "wide"]
"""Replacement of inputs and outputs of a type that the target lacks."""
Narrowed = Literal["int64", "double"]
"""The types that narrow-types makes narrower."""
Storage = Literal["packed", "byte"]
"""Storage of weights of 4 and 2 bits."""
Vendor = Literal["", "com.microsoft", "trt"]
"""The domain whose operators use-vendor writes: those of ONNX Runtime or of TensorRT; empty for none."""


@dataclass(frozen=True)
class OptionInfo:
    """Facts about an option beside its type and default.

    Attributes:
        help: One phrase for the command line and the reference.
        check: Returns the value to keep, or raises OptionError.
        choices: The allowed values, if they can be listed.
        metavar: The placeholder for the value in the help of the command line.
    """

    help: str
    check: Check
    choices: tuple[str, ...] = ()
    metavar: str | None = None


_INFO = "castsmith"


def option(default: T, info: OptionInfo) -> T:
    """Return a dataclass field with the default and the information."""
    return field(default=default, metadata={_INFO: info})


def flag_of(name: str) -> str:
    """Return the option of the command line for a parameter of the function of that name."""
    return f"--{_OTHER_NAMES.get(name, name).replace('_', '-')}"


_OTHER_NAMES = {"lower": "force", "ranges": "range", "all_ways": "plan"}
"""Parameters whose options have another name."""


def required(info: OptionInfo) -> Any:
    """Return a dataclass field without a default, and with the information."""
    return field(metadata={_INFO: info})


def option_info(owner: type, name: str) -> OptionInfo:
    """Return the facts about the option of that name, a field of the dataclass."""
    return next(field.metadata[_INFO] for field in fields(owner) if field.name == name)


def info_of(option_field: Field[Any]) -> OptionInfo | None:
    """Return the facts about the field; None for a field that is not made by `option`."""
    return option_field.metadata.get(_INFO)


def shared(name: str) -> Any:
    """Return a dataclass field with the default and the check of the option of `Options`."""
    option_field = next(field for field in fields(Options) if field.name == name)
    return field(default=option_field.default, metadata=option_field.metadata)


def check_options(instance: Any) -> None:
    """Check every option of a frozen dataclass, and store the result of its check. Raises OptionError."""
    for option in fields(instance):
        info = info_of(option)
        if info is not None:
            object.__setattr__(instance, option.name, info.check(option.name, getattr(instance, option.name)))


def takes(
    options: Callable[Fields, Given],
) -> Callable[[Callable[[Model, Given], Result]], Callable[Concatenate[Model, Fields], Result]]:
    """Return a decorator of a function of a model and its options, which then takes each option by its name.

    Args:
        options: The class of the options, a dataclass.
    """

    def decorate(work: Callable[[Model, Given], Result]) -> Callable[Concatenate[Model, Fields], Result]:
        @wraps(work)
        def taking(model: Model, *values: Fields.args, **named: Fields.kwargs) -> Result:
            _require_names(work.__name__, values, named, by_name)
            return work(model, options(*values, **named))

        model, _ = signature(work).parameters.values()
        by_name = signature(options).parameters
        taking.__doc__ = _with_options(work.__doc__ or "", options.__doc__ or "")
        cast("Any", taking).__signature__ = signature(work).replace(parameters=[model, *by_name.values()])
        return taking

    return decorate


def _with_options(text: str, options: str) -> str:
    """Return the docstring of a function with the attributes of its options among its arguments, for `help`."""
    described = options.partition("    Attributes:\n")[2].partition("\n\n")[0]
    before, title, rest = text.partition("    Args:\n")
    model, blank, after = rest.partition("\n\n")
    return f"{before}{title}{model}\n{described}{blank}{after}" if title and described else text


def _require_names(
    function: str, values: Sequence[object], named: Mapping[str, object], parameters: Mapping[str, Parameter]
) -> None:
    """Raise the TypeError of a call with other options than the function has, in its words."""
    if values:
        raise TypeError(f"{function}() takes one model; pass its options by name.")
    for name in named:
        if name not in parameters:
            way_out = did_you_mean(name, parameters, f"help(castsmith.{function}) lists them")
            raise TypeError(f"{function}() has no option {name!r}; {way_out}")
    for name, parameter in parameters.items():
        if parameter.default is Parameter.empty and name not in named:
            raise TypeError(f"{function}() needs the option {name!r}.")


class OptionTypeError(OptionError, ArgumentTypeError):
    """An option of the wrong Python type."""


def invalid(name: str, value: object, expected: str, *, of_type: bool = False) -> OptionError:
    """Return the error for an unsupported value of the option, a TypeError too if its Python type is wrong."""
    text = f"invalid value {reprlib.repr(value)} for {name}; expected {expected}."
    return OptionTypeError(text) if of_type else OptionError(text)


def checked(check: Callable[[str, object], T], name: str, value: object, expected: str) -> T:
    """Return what an argument check returns; its refusal is the error for an option."""
    try:
        return check(name, value)
    except (ArgumentTypeError, OptionError) as error:
        raise invalid(name, value, expected, of_type=isinstance(error, TypeError)) from None


# Checks.


def _flag(name: str, value: object) -> bool:
    """Return a bool: True or False, or the 1 or 0 of an ONNX attribute."""
    if type(value) is bool:
        return value
    from castsmith.numerics.arguments import flag

    return checked(partial(flag, error=OptionError), name, value, "True or False")


def _optional_flag(name: str, value: object) -> bool | None:
    return None if value is None else _flag(name, value)


def _number(name: str, value: object) -> int:
    if type(value) is int and value >= 0:
        return value
    from castsmith.numerics.arguments import count

    return checked(count, name, value, "an integer of at least 0")


def _one_of(name: str, value: object, *, choices: tuple[str, ...], optional: bool) -> object:
    if (optional and value is None) or (isinstance(value, str) and value in choices):
        return value
    quoted = [repr(choice) for choice in choices]
    expected = " or ".join(quoted) if len(quoted) < 3 else f"one of {', '.join(quoted)}"
    if not isinstance(value, str):
        raise invalid(name, value, expected, of_type=True)
    raise OptionError(f"unknown {name} {value!r}; expected {expected}.")


def _text(name: str, value: object, *, optional: bool) -> object:
    if isinstance(value, str) or (optional and value is None):
        return value
    raise invalid(name, value, "a str", of_type=True)


def _promotion(name: str, value: object) -> object:
    if value is None or isinstance(value, str):
        return value
    from castsmith.numerics.promotion.rules import PromotionRules

    if isinstance(value, PromotionRules):
        return value
    raise invalid(name, value, "PromotionRules or the name of a preset", of_type=True)


def _type(name: str, value: Any) -> DataType | None:
    from castsmith.numerics.types import parse_type

    try:
        return None if value is None else parse_type(value)
    except ArgumentTypeError:
        raise invalid(name, value, "an element type", of_type=True) from None
    except ElementTypeError as error:
        raise OptionError(f"{name}: {error}") from None


def _target(name: str, value: object) -> object:
    if value is None or isinstance(value, str):
        return value
    from castsmith.targets.target import Target

    if isinstance(value, Target):
        return value
    raise invalid(name, value, "a Target or the name of one", of_type=True)


def _passes(name: str, value: object) -> object:
    if value is None:
        return None
    from onnx_ir.passes import PassBase

    items = items_of(value)
    if items is None or not all(isinstance(item, str | PassBase) for item in items):
        raise invalid(name, value, "a sequence of passes and names of passes", of_type=True)
    return items


def items_of(value: object) -> tuple[object, ...] | None:
    """Return the elements, or None for a value that is not a sequence of things."""
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        return None
    return tuple(cast("Iterable[object]", value))


def _mapping(name: str, value: object) -> object:
    if value is None or isinstance(value, Mapping):
        return cast("object", value)
    raise invalid(name, value, "a mapping", of_type=True)


def _ranges(name: str, value: object) -> object:
    """Return two finite numbers for each name, the lower first."""
    for key, ends in cast("Mapping[object, object]", _mapping(name, value) or {}).items():
        pair = items_of(ends) or ()
        numbers = [end for end in pair if isinstance(end, int | float) and abs(end) < float("inf")]
        if not isinstance(key, str) or len(pair) != 2 or len(numbers) != 2 or numbers[0] > numbers[1]:
            raise invalid(f"{name}[{key!r}]", ends, "two finite numbers, the lower first")
    return value


def _callable(name: str, value: object) -> object:
    if value is None or callable(value):
        return value
    raise invalid(name, value, "a function of the name of a pass", of_type=True)


def _sets(name: str, value: object) -> object:
    items = items_of(value)
    if value is not None and items is None:
        raise invalid(name, value, "a sequence of pairs: a name, and arrays by input", of_type=True)
    return items


def narrowed_types(name: str, value: TypeLike | Iterable[TypeLike]) -> tuple[DataType, ...]:
    """Return the types to narrow, each once.

    Args:
        name: The name of the option, for errors.
        value: One type, several, or names with `+` between them, `int64+double`; none if empty.

    Raises:
        OptionError: For a type that cannot be narrowed, or an unknown one.
    """
    from castsmith.numerics.types import parse_type, type_name

    names = " and ".join(get_args(Narrowed))
    try:
        dtypes = [parse_type(name) for name in _each_type(value)]
    except ArgumentTypeError:
        raise invalid(name, value, f"one or more of {names}", of_type=True) from None
    except ElementTypeError as error:
        raise OptionError(f"{name}: {str(error).rstrip('.?')}; {names} can be narrowed.") from None
    for dtype in dtypes:
        if type_name(dtype) not in get_args(Narrowed):
            raise OptionError(f"{name}: {type_name(dtype)} is not narrowed; {names} can be.")
    return tuple(dict.fromkeys(dtypes))


def _each_type(value: TypeLike | Iterable[TypeLike]) -> list[TypeLike]:
    if isinstance(value, str):
        return [part for part in value.split("+") if part]
    if isinstance(value, Iterable) and not isinstance(value, type | bytes):
        return [part for item in value for part in (_each_type(item) if isinstance(item, str) else [item])]
    return [cast("TypeLike", value)]


# Rows.


def flag_info(text: str) -> OptionInfo:
    """Return the row of an option that is True or False."""
    return OptionInfo(text, _flag)


def count_info(text: str, metavar: str = "N") -> OptionInfo:
    """Return the row of an option that is an integer from 0 on."""
    return OptionInfo(text, _number, metavar=metavar)


def choice_info(text: str, values: object, *, optional: bool = False, metavar: str | None = None) -> OptionInfo:
    """Return the row of an option that is one of the values of a Literal."""
    choices = get_args(values)
    return OptionInfo(text, partial(_one_of, choices=choices, optional=optional), choices, metavar=metavar)


def text_info(text: str, metavar: str | None = None, *, optional: bool = False) -> OptionInfo:
    """Return the row of an option that is any text."""
    return OptionInfo(text, partial(_text, optional=optional), metavar=metavar)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `optimize`, checked: `castsmith.optimize(model, storage="byte")` takes each by its name.

    Attributes:
        target: The runtime to legalize the model for, or its name; none by default.
        strict_device: Refuse types that a device, such as the GPU of `onnxruntime-webgpu`, leaves to the CPU; otherwise
            a note counts them.
        promotion: The rules for operands that disagree, or the name of a preset of PromotionRules; by default those of
            ConvertPromoteTypes, without unsafe promotion.
        promote_unsafe: As in PromotionRules. This and the next five options override a preset; if you pass
            PromotionRules, set them there.
        pytorch_scalar_promotion: As in PromotionRules.
        u64_integer_promotion_target: As in PromotionRules.
        library: As in PromotionRules.
        weak_scalars: As in PromotionRules.
        half_constants: As in PromotionRules.
        keep_output_types: Cast outputs back to their declared types.
        max_growth: Bytes by which folding one node may grow the file.
        max_total_growth: Bytes by which all folding may grow the file.
        fold_disputed: Fold casts on which runtimes disagree, too.
        fold_as: Fold casts that the standard leaves open as `onnxruntime` or `reference` computes them.
        fold_quantized: Fold the weights of quantized operators, too.
        interface: Replacement of graph inputs and outputs of a type that the target lacks: `stored` keeps them as
            stored, uint8 codes or, of 16 bits, floats; `wide` makes those of at most 8 bits that the target lacks, and
            all float16 and bfloat16, floats, or bytes for integers.
        storage: Storage of weights of 4 and 2 bits that the target lacks: `packed` or `byte`.
        emit_functions: Emit lowered conversions as model-local functions.
        vendor: Write quantized formats in the operators of ONNX Runtime (`com.microsoft`) or of TensorRT (`trt`), which
            the target must run. Weights stay exact; MatMulNBits adds the products in another order than MatMul.
        narrow: The types to narrow, `int64`, `double` or both, where the result is identical for every input; none by
            default.
        ranges: Between which numbers the integers of inputs lie, by name: more of them are known to fit.
        narrow_interface: Narrow graph inputs too, and outputs that are known to fit.
        largest_dim: Upper bound of every dimension that the model does not fix; 0 if unknown.
        in_place: Change a model in memory itself, which saves the time of copying it.
        passes: The passes to run, in order, by name, with options as `name{option=value}`, or as objects; by default
            all that apply.
        lowerings: Lowerings of custom operators by operator name, as in LowerCustom.
        until: The name of the last pass to run.
        progress: Called with the name of each pass before it runs.
        verify: An engine (`onnxruntime`, `openvino` or `reference`) that compares the model before and after each pass,
            as read from a file; the result lists what was compared.
        verify_dims: Sizes of symbolic dimensions by name, as in `castsmith.verify`.
        verify_inputs: The inputs to compare on, as in `castsmith.verify`.
        provenance: Note in the metadata of new nodes which rule made them.
        certificate: Make a certificate of the run, which anybody can check: `result.certificate`.

    Raises:
        OptionError: An option does not support the value; the message names the option, the value, and what is
            expected.
    """

    target: str | Target | None = option(
        None, OptionInfo("the runtime that should run the model (see castsmith targets)", _target, metavar="T")
    )
    strict_device: bool = option(False, flag_info("reject types that the device leaves to the CPU"))
    promotion: PromotionRules | str | None = option(
        None,
        OptionInfo("the rules for operands of mixed types, or the name of a preset", _promotion, metavar="PRESET"),
    )
    promote_unsafe: bool | None = option(None, OptionInfo("allow promotions that can lose precision", _optional_flag))
    pytorch_scalar_promotion: bool | None = option(
        None, OptionInfo("ignore the type of scalars next to operands with dimensions", _optional_flag)
    )
    u64_integer_promotion_target: TypeLike | None = option(
        None, OptionInfo("common type of uint64 and a signed integer", _type)
    )
    library: str | None = option(None, text_info("the library whose common types are used", optional=True))
    weak_scalars: bool | None = option(
        None, OptionInfo("keep scalar constants from widening operands that can hold them", _optional_flag)
    )
    half_constants: bool | None = option(
        None, OptionInfo("give constants the 16-bit type of the other operands", _optional_flag)
    )
    keep_output_types: bool = option(False, flag_info("cast outputs back to their declared types"))
    max_growth: int = option(4096, count_info("largest growth of the file by folding one node", "BYTES"))
    max_total_growth: int = option(1 << 20, count_info("largest growth of the file by all folding", "BYTES"))
    fold_disputed: bool = option(False, flag_info("also fold casts on which runtimes disagree"))
    fold_as: FoldAs = option(
        "",
        choice_info(
            "fold casts that the standard leaves open as onnxruntime or reference computes them",
            FoldAs,
            metavar="RUNTIME",
        ),
    )
    fold_quantized: bool = option(False, flag_info("also fold the weights of quantized operators"))
    interface: Interface = option(
        "stored",
        choice_info("inputs and outputs of unsupported types: codes, or wider numbers", Interface),
    )
    storage: Storage = option(
        "packed",
        choice_info(
            "unsupported weights of 4 and 2 bits: packed, or one per byte",
            Storage,
        ),
    )
    emit_functions: bool = option(False, flag_info("write lowered conversions as model-local functions"))
    vendor: Vendor = option(
        "",
        choice_info(
            "use the operators of com.microsoft or trt for quantized formats",
            Vendor,
            metavar="DOMAIN",
        ),
    )
    narrow: TypeLike | Sequence[TypeLike] = option(
        (),
        OptionInfo(
            "use int32 for int64, or float for double, where every result is identical",
            cast("Check", narrowed_types),
            get_args(Narrowed),
            metavar="TYPE",
        ),
    )
    ranges: Mapping[str, tuple[float, float]] | None = option(
        None, OptionInfo("the range of the integers in each input, by name", _ranges)
    )
    narrow_interface: bool = option(False, flag_info("also narrow inputs, and outputs that fit"))
    largest_dim: int = option(0, count_info("largest size of any unknown dimension", "N"))
    in_place: bool = option(False, flag_info("change the model itself instead of a copy"))
    passes: Sequence[str | PassBase] | None = option(
        None,
        OptionInfo(
            "passes to run, separated by commas: name or module:Class, or name{option=value}", _passes, (), "LIST"
        ),
    )
    lowerings: Mapping[str, Callable[..., Any]] | None = option(
        None, OptionInfo("how to lower custom operators, by name", _mapping)
    )
    until: str | None = option(None, text_info("stop after this pass", "PASS", optional=True))
    progress: Callable[[str], None] | None = option(None, OptionInfo("called with the name of each pass", _callable))
    verify: EngineName | None = option(
        None, choice_info("the engine that compares the model after each pass, bit for bit", EngineName, optional=True)
    )
    verify_dims: Mapping[str, int] | None = option(None, OptionInfo("sizes of symbolic dimensions, by name", _mapping))
    verify_inputs: Sequence[tuple[str, Mapping[str, NDArray[Any]]]] | None = option(
        None, OptionInfo("the inputs to compare on: names, and arrays by input", _sets)
    )
    provenance: bool = option(True, flag_info("write to each new node's metadata which rule made it"))
    certificate: bool = option(False, flag_info("make a certificate of the run, which anybody can check"))

    def __post_init__(self) -> None:
        check_options(self)
        stated = sorted(stated_rules(self))
        if stated and not isinstance(self.promotion, str | None):
            raise OptionError(
                f"`promotion` and `{stated[0]}` both state rules: set {stated[0]} in the PromotionRules instead."
            )
        if self.strict_device and self.target is None:
            raise OptionError("strict_device needs a target.")
        if self.vendor and self.target is None:
            raise OptionError("vendor needs a target that runs operators of that domain.")
        if self.lowerings and self.target is None:
            raise OptionError("lowering passes need a target.")


RULES = (
    *("promote_unsafe", "pytorch_scalar_promotion", "u64_integer_promotion_target", "library"),
    *("weak_scalars", "half_constants"),
)
"""The fields of PromotionRules, each of which is an option too."""


def stated_rules(options: Options) -> dict[str, Any]:
    """Return the fields of PromotionRules that are given as options."""
    return {name: value for name in RULES if (value := getattr(options, name)) is not None}


RUN_OPTIONS = frozenset({
    *RULES,
    *("strict_device", "promotion", "in_place", "passes", "until", "progress"),
    *("verify", "verify_dims", "verify_inputs", "provenance", "certificate"),
})  # fmt: skip
"""The options of the whole run, which passes do not have."""
PASS_OPTIONS = tuple(field.name for field in fields(Options) if field.name not in RUN_OPTIONS)
"""The options that are fields of passes."""
