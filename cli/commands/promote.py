"""castsmith promote: the common type of some element types, or the reason for a refusal."""

from __future__ import annotations

import argparse

from castsmith.cli.arguments import Commands, add_command, add_json, add_promotion, integer, print_json, promotion_rules
from castsmith.cli.exit_codes import DONE, REFUSED, complain, with_command_options
from castsmith.numerics.errors import present


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "promote", run, "the common type of operands of several types")
    parser.add_argument("types", metavar="TYPE", nargs="+", help="an element type, such as float16, bf16 or i64")
    help_text = "indices of scalar operands, from 0 (used by --pytorch-scalar-promotion)"
    parser.add_argument("--scalar", metavar="INDEX", nargs="+", type=integer(0), default=[], help=help_text)
    add_promotion(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from castsmith.lowering.registry import OptionError
    from castsmith.numerics.errors import PromotionError
    from castsmith.numerics.promotion import common_type
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
        print(type_name(common))
    return DONE
