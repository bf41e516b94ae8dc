"""Commands on values and types, without a model.

castsmith cast casts values and shows the status of each result, castsmith dev trunc computes QONNX Trunc of them, and
castsmith dev promote gives the common type of some element types, or the reason for a refusal.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import asdict

from onnx_ir import DataType

from castsmith.cli.exit_codes import DONE, REFUSED
from castsmith.cli.messages import complain
from castsmith.cli.promotion import promotion_rules
from castsmith.cli.text.cast import convert, read_value, shown
from castsmith.cli.text.json import print_json
from castsmith.cli.text.screen import print_lines
from castsmith.cli.text.terminal import print_line, table_lines
from castsmith.cli.wording import with_command_options
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.numerics.errors import OptionError, PromotionError, present
from castsmith.numerics.promotion.common import common_type
from castsmith.numerics.trunc import trunc
from castsmith.numerics.types import Kind, element_type, parse_type, type_name

_WIDEST = 64


def run_cast(arguments: argparse.Namespace) -> int:
    texts = arguments.values
    source, to = _source(arguments.source, texts), parse_type(arguments.to)
    _require_meaning(arguments, to)
    round_mode = arguments.round_mode or "up"
    opset = NEWEST_OPSET if arguments.opset is None else arguments.opset
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
    heads = ("value", f"as {type_name(source)}", "code", f"as {type_name(to)}", "code", "status")
    rows = [(r.text, r.value, r.code, r.result, r.result_code, _standing(r.standing, r.reason)) for r in results]
    print_lines(table_lines([heads, *rows], head=True))
    return DONE


def _source(name: str | None, texts: Sequence[str]) -> DataType:
    """Return the type of the values: the one that is named, or the one of such numbers in Python and numpy."""
    if name is not None:
        return parse_type(name)
    codes = [text for text in texts if "0x" in text.lower()]
    if codes:
        raise OptionError(f"{codes[0]} is a code: name its type with --from TYPE.")
    return DataType.INT64 if all(re.fullmatch(r"[+-]?\d+", text) for text in texts) else DataType.DOUBLE


def _require_meaning(arguments: argparse.Namespace, to: DataType) -> None:
    """Raise OptionError for an option that Cast to this type does not look at."""
    row = element_type(to)
    if arguments.round_mode is not None and to != DataType.FLOAT8E8M0:
        raise OptionError(f"--round-mode is for casts to float8e8m0, not to {type_name(to)}.")
    if arguments.no_saturate and (row.kind, row.bits) != (Kind.FLOATING, 8):
        raise OptionError(f"--no-saturate is for casts to float8 types, not to {type_name(to)}.")


def run_trunc(arguments: argparse.Namespace) -> int:
    dtype = parse_type(arguments.type)
    if dtype not in (DataType.FLOAT, DataType.DOUBLE):
        raise OptionError(f"--type must be float or double, not {type_name(dtype)}.")
    for option, width in (("--in-bitwidth", arguments.in_bitwidth), ("--out-bitwidth", arguments.out_bitwidth)):
        if width > _WIDEST:
            raise OptionError(f"{option} must be at most {_WIDEST}, not {width}.")
    scale, zero = (read_value(text, dtype) for text in (arguments.scale, arguments.zero_point))
    out_scale = None if arguments.out_scale is None else read_value(arguments.out_scale, dtype)
    texts = arguments.values
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
