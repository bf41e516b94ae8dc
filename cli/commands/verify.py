"""castsmith verify: run two models, and compare their results bit by bit or within a tolerance."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from castsmith.cli.collisions import require_no_datafile
from castsmith.cli.exit_codes import DONE, INCONCLUSIVE, REFUSED
from castsmith.cli.inputs import given_inputs, require_names, structures
from castsmith.cli.models import read_model, source_of
from castsmith.cli.output import page_wanted, report_path, write_report
from castsmith.cli.promotion import promotion_rules
from castsmith.cli.streams import STREAM, require_one_stdin, shown
from castsmith.cli.text.json import print_json
from castsmith.cli.text.screen import print_lines, progress
from castsmith.cli.text.verify import verdict_data, verdict_lines
from castsmith.ir.errors import ModelError
from castsmith.ir.walks import files_read
from castsmith.numerics.errors import OptionError
from castsmith.verification.run import verify

if TYPE_CHECKING:
    import onnx_ir

    from castsmith.verification.verdict import Verdict

_CODES = {"equal": DONE, "different": REFUSED, "inconclusive": INCONCLUSIVE}


def run(arguments: argparse.Namespace) -> int:
    if arguments.certificate is not None and STREAM in (arguments.a, arguments.b, arguments.certificate):
        raise OptionError("--certificate cannot read standard input: name files for A, B and the certificate.")
    report = report_path(arguments, (arguments.a, arguments.b))
    if os.path.isdir(arguments.a) and os.path.isdir(arguments.b):
        if arguments.certificate is not None:
            raise OptionError("--certificate compares two models, not two folders: name the models.")
        require_names(arguments, structures((arguments.a, arguments.b)))
        from castsmith.cli.batch.many import run_pairs

        return run_pairs(arguments)
    require_one_stdin((arguments.a, arguments.b, arguments.inputs))
    inputs, names = given_inputs(arguments), (shown(arguments.a), shown(arguments.b))
    with progress(
        len(inputs["inputs"]) + 1 if inputs["inputs"] is not None else arguments.sets + 4, quiet=arguments.quiet
    ) as announce:
        announce(f"reading {names[0]} and {names[1]}")
        models = read_model(source_of(arguments.a)), read_model(source_of(arguments.b))
        require_no_datafile("--report", report, [file for model in models for file in files_read(model)])
        require_names(arguments, models)
        verdict = None if arguments.certificate is None else _certified(arguments, models[1])
        verdict = verdict or verify(
            *models,
            engine=arguments.engine,
            promotion=promotion_rules(arguments),
            sets=arguments.sets,
            seed=arguments.seed,
            nan_bits=arguments.nan_bits,
            rtol=_tolerances(arguments.rtol),
            atol=_tolerances(arguments.atol),
            accept=arguments.allow_type_change,
            allow_unreached=arguments.allow_unreached,
            seconds=arguments.time_limit,
            memory=arguments.memory,
            prove=arguments.prove,
            trace=page_wanted(arguments, report),
            progress=announce,
            **inputs,
        )
    data = {"a": arguments.a, "b": arguments.b, **verdict_data(verdict)}
    page = None
    if page_wanted(arguments, report):
        from castsmith.cli.page.verify import verify_page

        page = verify_page(names, *models, verdict)
    if report is not None:
        write_report(report, data, page)
    if arguments.outcome is not None:
        arguments.outcome.report, arguments.outcome.page = data, page
    if arguments.json:
        print_json(data)
    elif not arguments.quiet:
        print_lines(verdict_lines(*names, verdict))
    return _CODES[verdict.outcome]


def _certified(arguments: argparse.Namespace, b: onnx_ir.Model) -> Verdict | None:
    """Return the verdict by the certificate; None if it does not certify all of the second model.

    Raises:
        ModelError: It is no certificate of these models.
    """
    from castsmith.verification import checker
    from castsmith.verification.verdict import Verdict

    try:
        report = checker.check_files(arguments.a, arguments.b, arguments.certificate)
    except OSError as error:
        raise ModelError(f"{arguments.certificate}: the file cannot be read ({error.strerror}).") from None
    except checker.RefusedError as error:
        raise ModelError(f"{arguments.certificate}: refused: {error}; without --certificate both are run.") from None
    proven = {value.name or "": "by the certificate" for value in b.graph.outputs}
    return Verdict(arguments.engine, proven=proven) if report.certified else None


def _tolerances(texts: Sequence[str]) -> dict[str, float]:
    """Return the numbers by the name of the output, those of all others by the empty name."""
    return {name: float(number) for name, _, number in (text.rpartition("=") for text in texts)}
