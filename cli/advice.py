"""Ways out that a command prints after it was refused: each was tried on the model, and works."""

from __future__ import annotations

import onnx_ir

from castsmith.cli.report.fit import command_file
from castsmith.cli.streams import shown
from castsmith.cli.wording import with_command_options
from castsmith.lowering.fit.run import fit
from castsmith.numerics.errors import CastsmithError


def tried_way_out(model: onnx_ir.Model, source: str, output: str, target: str) -> str:
    """Return a clause that says what makes the model run on the target, or that nothing was found.

    Args:
        model: The model, which is not changed.
        source: The file that holds it.
        output: The file to write.
        target: The runtime.
    """
    try:
        fitted = fit(model, target=target)
    except CastsmithError:  # the model has another error, which the command itself reports
        return ""
    if fitted.plan:
        return f"this makes it run there: {' && '.join(fitted.commands(shown(source), command_file(output)))}"
    if fitted.hint:
        return f"with castsmith fit, {with_command_options(fitted.hint)}"
    return f"castsmith fit finds no other way either: {len(fitted.ways)} tried"
