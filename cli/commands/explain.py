"""castsmith explain: for a code what it says, why it matters, how to fix it, and when to silence it."""

from __future__ import annotations

import argparse

from castsmith.cli.catalogue import all_codes, code_data, code_named, code_text, summary_of
from castsmith.cli.exit_codes import DONE
from castsmith.cli.text.json import print_json
from castsmith.cli.text.screen import print_lines
from castsmith.cli.text.terminal import Line, table_lines
from castsmith.ir.codes import Code
from castsmith.numerics.errors import OptionError, did_you_mean


def run(arguments: argparse.Namespace) -> int:
    if not arguments.codes:
        if arguments.json:
            print_json({"pages": [code_data(code) for code in all_codes()]})
        else:
            print_lines(table_lines((code.code, code.kind, summary_of(code)) for code in all_codes()))
        return DONE
    # Of composed rewrites reports show the codes together: `promote-operands + resolve-promotion`.
    names = [name for word in arguments.codes for name in word.replace(",", " ").split() if name != "+"] or [""]
    codes = [_code_named(name) for name in names]
    if arguments.json:
        print_json({"pages": [code_data(code) for code in codes]})
    else:
        texts = "\n".join(code_text(code) for code in codes).splitlines()
        print_lines(Line((("", text),), len(text) - len(text.lstrip())) for text in texts)
    return DONE


def _code_named(name: str) -> Code:
    code = code_named(name)
    if code is None:
        codes = [code.code for code in all_codes()]
        raise OptionError(f"unknown code {name!r}; {did_you_mean(name, codes, '`castsmith explain` lists them')}")
    return code
