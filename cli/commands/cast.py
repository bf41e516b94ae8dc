"""castsmith cast: cast values, and show the status of each result in the standard."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import asdict

from castsmith.cli.arguments import Commands, add_command, add_json, integer, print_json
from castsmith.cli.exit_codes import DONE
from castsmith.cli.text import columns, printable

_NEGATIVE = re.compile(r"-(\d|\.\d|inf|nan)", re.IGNORECASE)


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "cast", run, "cast values as the ONNX standard defines it")
    help_text = "a number (-1.5, 6e-8), inf, nan, or 0x and the code bits of the source type"
    parser.add_argument("values", metavar="VALUE", nargs="+", help=help_text)
    parser.add_argument("--from", dest="source", metavar="TYPE", required=True, help="the type of the values")
    parser.add_argument("--to", metavar="TYPE", required=True, help="the type to cast to")
    parser.add_argument("--no-saturate", action="store_true", help="do not saturate, as the attribute saturate = 0")
    parser.add_argument(
        "--round-mode", metavar="MODE", default="up", help="rounding to float8e8m0: up, down or nearest"
    )
    parser.add_argument(
        "--opset", metavar="N", type=integer(1), help="the opset whose Cast is computed (default: the newest)"
    )
    add_json(parser)


def spell_out(words: Sequence[str]) -> list[str]:
    """Return the arguments with a blank before negative values: argparse takes -inf and -1e5 for options otherwise."""
    return [f" {word}" if _NEGATIVE.match(word) else word for word in words]


def given_texts(words: Sequence[str]) -> list[str]:
    """Return the values as given, without the blanks of `spell_out`."""
    return [word.removeprefix(" ") if _NEGATIVE.match(word[1:]) else word for word in words]


def run(arguments: argparse.Namespace) -> int:
    from castsmith.cli.text import convert, read_value
    from castsmith.numerics.cast import NEWEST_OPSET
    from castsmith.numerics.types import parse_type, type_name

    source, to = parse_type(arguments.source), parse_type(arguments.to)
    opset = NEWEST_OPSET if arguments.opset is None else arguments.opset
    texts = given_texts(arguments.values)
    values = [read_value(text, source) for text in texts]
    results = [
        convert(text, value, to, saturate=not arguments.no_saturate, round_mode=arguments.round_mode, opset=opset)
        for text, value in zip(texts, values, strict=True)
    ]
    if arguments.json:
        print_json(
            {
                "from": type_name(source),
                "to": type_name(to),
                "saturate": not arguments.no_saturate,
                "round_mode": arguments.round_mode,
                "opset": opset,
                "casts": [asdict(result) for result in results],
            }
        )
        return DONE
    heads = ("value", f"as {type_name(source)}", "code", f"as {type_name(to)}", "code", "standing")
    rows = [(r.text, r.value, r.code, r.result, r.result_code, _standing(r.standing, r.reason)) for r in results]
    print(printable("\n".join(columns([heads, *rows], indent=""))))
    return DONE


def _standing(standing: str, reason: str) -> str:
    return f"{standing}: {reason}" if reason else standing
