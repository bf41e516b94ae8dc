"""castsmith explain: for a code what it says, why it matters, how to fix it, and when to silence it."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from castsmith.cli.codes.catalogue import all_pages, page_of, page_text
from castsmith.cli.exit_codes import DONE
from castsmith.cli.text.json import print_json
from castsmith.cli.text.screen import print_lines
from castsmith.cli.text.terminal import Line, table_lines
from castsmith.numerics.errors import OptionError, did_you_mean


def run(arguments: argparse.Namespace) -> int:
    if not arguments.codes:
        pages = all_pages()
        if arguments.json:
            print_json({"pages": [asdict(page) for page in pages]})
        else:
            print_lines(table_lines((page.code, page.kind, page.what.partition(". ")[0]) for page in pages))
        return DONE
    # Of composed rewrites reports show the codes together: `promote-operands + resolve-promotion`.
    codes = [code for word in arguments.codes for code in word.replace(",", " ").split() if code != "+"] or [""]
    found = [page_of(code) for code in codes]
    for code, page in zip(codes, found, strict=True):
        if page is None:
            known = [page.code for page in all_pages()]
            raise OptionError(f"unknown code {code!r}; {did_you_mean(code, known, '`castsmith explain` lists them')}")
    pages = [page for page in found if page is not None]
    if arguments.json:
        print_json({"pages": [asdict(page) for page in pages]})
    else:
        texts = "\n".join(page_text(page) for page in pages).splitlines()
        print_lines(Line((("", text),), len(text) - len(text.lstrip())) for text in texts)
    return DONE
