"""Commands on values and types, without a model.

castsmith cast casts values and shows the status of each result, castsmith trunc computes QONNX Trunc of them, and
castsmith promote gives the common type of some element types, or the reason for a refusal.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from castsmith.cli.arguments import Commands, add_command, add_json, add_promotion, integer, print_json, promotion_rules
from castsmith.cli.exit_codes import DONE, REFUSED, complain, with_command_options
from castsmith.cli.text.terminal import print_line, print_lines, table_lines
from castsmith.numerics.errors import present

if TYPE_CHECKING:
    from onnx_ir import DataType

_WIDEST = 64
_NEGATIVE = re.compile(r"-(\d|\.\d|inf|nan)", re.IGNORECASE)


def add_to(commands: Commands) -> None:
    _add_cast(commands)
    _add_trunc(commands)
    _add_promote(commands)


def _add_cast(commands: Commands) -> None:
    parser = add_command(commands, "cast", run_cast, "cast values as the ONNX standard defines it")
    help_text = "a number (-1.5, 6e-8), inf, nan, or 0x and the code bits of the source type"
    parser.add_argument("values", metavar="VALUE", nargs="+", help=help_text)
    parser.add_argument("--from", dest="source", metavar="TYPE", required=True, help="the type of the values")
    parser.add_argument("--to", metavar="TYPE", required=True, help="the type to cast to")
    parser.add_argument("--no-saturate", action="store_true", help="do not saturate, as the attribute saturate = 0")
    parser.add_argument(
        "--round-mode", metavar="MODE", help="rounding to float8e8m0: up (the default), down or nearest"
    )
    parser.add_argument(
        "--opset", metavar="N", type=integer(1), help="the opset whose Cast is computed (default: the newest)"
    )
    add_json(parser)


def _add_trunc(commands: Commands) -> None:
    parser = add_command(commands, "trunc", run_trunc, "compute QONNX Trunc of values: drop their low bits")
    help_text = "a number (-1.5, 6e-8), inf, nan, or 0x and the code bits of the type"
    parser.add_argument("values", metavar="VALUE", nargs="+", help=help_text)
    parser.add_argument("--scale", metavar="X", default="1", help="the scale of the input (default: 1)")
    parser.add_argument("--zero-point", metavar="X", default="0", help="the zero point of the input (default: 0)")
    parser.add_argument("--in-bitwidth", metavar="N", type=integer(1), required=True, help="bits of the input")
    parser.add_argument("--out-bitwidth", metavar="N", type=integer(1), required=True, help="bits of the output")
    parser.add_argument("--out-scale", metavar="X", help="the scale of the output (version 2 only)")
    parser.add_argument(
        "--rounding-mode",
        metavar="MODE",
        default="FLOOR",
        help="ROUND, CEIL, FLOOR (the default), UP, DOWN, HALF_UP or HALF_DOWN",
    )
    parser.add_argument("--unsigned", action="store_true", help="version 2: clip to unsigned integers, as signed = 0")
    parser.add_argument("--narrow", action="store_true", help="version 2: clip to the narrow range, as narrow = 1")
    parser.add_argument(
        "--type", metavar="TYPE", default="float", help="type of the numbers: float (the default) or double"
    )
    add_json(parser)


def _add_promote(commands: Commands) -> None:
    parser = add_command(commands, "promote", run_promote, "print the common type of operands of several types")
    parser.add_argument("types", metavar="TYPE", nargs="+", help="an element type, such as float16, bf16 or i64")
    help_text = "indices of scalar operands, from 0 (used by --pytorch-scalar-promotion)"
    parser.add_argument("--scalar", metavar="INDEX", nargs="+", type=integer(0), default=[], help=help_text)
    add_promotion(parser)
    add_json(parser)


def spell_out(words: Sequence[str]) -> list[str]:
    """Return the arguments with a blank before negative values: argparse takes -inf and -1e5 for options otherwise."""
    if words[0] == "promote":
        return list(words)
    return [f" {word}" if _NEGATIVE.match(word) else word for word in words]


def given_texts(words: Sequence[str]) -> list[str]:
    """Return the values as given, without the blanks of `spell_out`."""
    return [word.removeprefix(" ") if _NEGATIVE.match(word[1:]) else word for word in words]


def run_cast(arguments: argparse.Namespace) -> int:
    from castsmith.cli.text.cast import convert, read_value
    from castsmith.numerics.cast.settings import NEWEST_OPSET
    from castsmith.numerics.types import parse_type, type_name

    source, to = parse_type(arguments.source), parse_type(arguments.to)
    _require_meaning(arguments, to)
    round_mode = arguments.round_mode or "up"
    opset = NEWEST_OPSET if arguments.opset is None else arguments.opset
    texts = given_texts(arguments.values)
    values = [read_value(text, source) for text in texts]
    results = [
        convert(text, value, to, saturate=not arguments.no_saturate, round_mode=round_mode, opset=opset)
        for text, value in zip(texts, values, strict=True)
    ]
    if arguments.json:
        print_json(
            {
                "from": type_name(source),
                "to": type_name(to),
                "saturate": not arguments.no_saturate,
                "round_mode": round_mode,
                "opset": opset,
                "casts": [asdict(result) for result in results],
            }
        )
        return DONE
    heads = ("value", f"as {type_name(source)}", "code", f"as {type_name(to)}", "code", "standing")
    rows = [(r.text, r.value, r.code, r.result, r.result_code, _standing(r.standing, r.reason)) for r in results]
    print_lines(table_lines([heads, *rows], head=True))
    return DONE


def _require_meaning(arguments: argparse.Namespace, to: DataType) -> None:
    """Raise OptionError for an option that Cast to this type does not look at."""
    from onnx_ir import DataType

    from castsmith.lowering.registry import OptionError
    from castsmith.numerics.types import Kind, element_type, type_name

    row = element_type(to)
    if arguments.round_mode is not None and to != DataType.FLOAT8E8M0:
        raise OptionError(f"--round-mode is for casts to float8e8m0, not to {type_name(to)}.")
    if arguments.no_saturate and (row.kind, row.bits) != (Kind.FLOATING, 8):
        raise OptionError(f"--no-saturate is for casts to float8 types, not to {type_name(to)}.")


def run_trunc(arguments: argparse.Namespace) -> int:
    from onnx_ir import DataType

    from castsmith.cli.text.cast import read_value, shown
    from castsmith.lowering.registry import OptionError
    from castsmith.numerics.trunc import trunc
    from castsmith.numerics.types import parse_type, type_name

    dtype = parse_type(arguments.type)
    if dtype not in (DataType.FLOAT, DataType.DOUBLE):
        raise OptionError(f"--type must be float or double, not {type_name(dtype)}.")
    for option, width in (("--in-bitwidth", arguments.in_bitwidth), ("--out-bitwidth", arguments.out_bitwidth)):
        if width > _WIDEST:
            raise OptionError(f"{option} must be at most {_WIDEST}, not {width}.")
    texts = given_texts(arguments.values)
    scale, zero = (read_value(text, dtype) for text in given_texts([arguments.scale, arguments.zero_point]))
    out_scale = None if arguments.out_scale is None else read_value(given_texts([arguments.out_scale])[0], dtype)
    values = [read_value(text, dtype) for text in texts]
    results = [
        trunc(
            *(value, scale, zero, arguments.in_bitwidth, arguments.out_bitwidth, out_scale),
            rounding_mode=arguments.rounding_mode,
            signed=not arguments.unsigned,
            narrow=arguments.narrow,
        )
        for value in values
    ]
    rows = [(text, shown(value), shown(result)) for text, value, result in zip(texts, values, results, strict=True)]
    if arguments.json:
        print_json(
            {
                "version": 1 if out_scale is None else 2,
                "type": type_name(dtype),
                "scale": shown(scale),
                "zero_point": shown(zero),
                "in_bitwidth": arguments.in_bitwidth,
                "out_bitwidth": arguments.out_bitwidth,
                "out_scale": None if out_scale is None else shown(out_scale),
                "rounding_mode": arguments.rounding_mode.upper(),
                "signed": not arguments.unsigned,
                "narrow": arguments.narrow,
                "truncs": [dict(zip(("text", "value", "result"), row, strict=True)) for row in rows],
            }
        )
        return DONE
    print_lines(table_lines([("value", f"as {type_name(dtype)}", "truncated"), *rows], head=True))
    return DONE


def run_promote(arguments: argparse.Namespace) -> int:
    from castsmith.lowering.registry import OptionError
    from castsmith.numerics.errors import PromotionError
    from castsmith.numerics.promotion.common import common_type
    from castsmith.numerics.types import parse_type, type_name

    types = [parse_type(name) for name in arguments.types]
    for index in arguments.scalar:
        if not 0 <= index < len(types):
            raise OptionError(f"--scalar {index} is out of range: the operands are 0 to {len(types) - 1}.")
    operands = [(dtype, 0 if index in arguments.scalar else 1) for index, dtype in enumerate(types)]
    names = [type_name(dtype) for dtype in types]
    try:
        common = common_type(operands, promotion_rules(arguments))
    except PromotionError as error:
        if arguments.json:
            refusal = {"rule": error.rule, "option": error.option, "reason": str(error)}
            print_json({"types": names, "common": None, "refusal": refusal})
        complain(with_command_options(str(error)))
        return REFUSED
    common = present(common, "the common type")
    if arguments.json:
        print_json({"types": names, "common": type_name(common)})
    else:
        print_line(type_name(common))
    return DONE


def _standing(standing: str, reason: str) -> str:
    return f"{standing}: {reason}" if reason else standing
