"""castsmith certificate: check that a run of optimize kept every value, without trusting Castsmith."""

from __future__ import annotations

import argparse
import os

from castsmith.cli.exit_codes import DONE, INCONCLUSIVE, REFUSED
from castsmith.cli.streams import STREAM
from castsmith.cli.text.json import print_json
from castsmith.cli.text.screen import progress
from castsmith.cli.text.terminal import print_text
from castsmith.ir.errors import ModelError
from castsmith.numerics.errors import OptionError
from castsmith.verification import checker


def run(arguments: argparse.Namespace) -> int:
    files = arguments.a, arguments.b, arguments.certificate
    if STREAM in files:
        raise OptionError("certificate reads files: name IN, OUT and the certificate, not -.")
    for file in files:
        if not os.path.isfile(file):
            raise ModelError(f"{file}: no such file.")
    report, lines = None, list[str]()
    with progress(quiet=arguments.quiet) as announce:
        announce("checking the certificate")
        try:
            report = checker.check_files(*files)
            lines = checker.lines(report)
        except checker.RefusedError as error:
            lines = [f"refused: {error}"]
    outcome = "refused" if report is None else "certified" if report.certified else "partly"
    if arguments.json:
        open_steps = [] if report is None else report.left
        steps = [{"pass": name, "rules": rules, "values": values} for name, rules, values in open_steps]
        codes = [] if report is None else report.codes
        outcomes = {"outcome": outcome, "not_certified": steps, "codes": codes, "text": lines}
        print_json({"a": files[0], "b": files[1], **outcomes})
    elif not arguments.quiet:
        for line in lines:
            print_text(line)
    return {"refused": REFUSED, "partly": INCONCLUSIVE, "certified": DONE}[outcome]
