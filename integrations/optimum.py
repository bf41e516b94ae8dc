"""Hugging Face Optimum: the command `optimum-cli onnx castsmith`, and `slim` for a step after an export.

`optimum/commands/register/register_castsmith.py` registers the command. Optimum imports this module whenever its
command line starts, so that everything else is imported when the command runs.
"""

# The tool is not installed where types are checked: what it leaves unknown is not our error.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import shutil
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimum.commands.base import BaseOptimumCLICommand, CommandInfo

if TYPE_CHECKING:
    import onnx

    from castsmith.ir.io.loading import ModelLike


def slim(model: ModelLike, *, to: str | None = None, **options: Any) -> onnx.ModelProto:
    """Optimize a model, as `onnxslim.slim` is called after an export, or convert it if `to` names a precision.

    Args:
        model: A path or a model.
        to: float16 or bfloat16, as in `castsmith.convert`.
        options: Options of `castsmith.convert`, or without `to` of `castsmith.optimize`.

    Returns:
        The model with all its weights, as `optimum.onnx.graph_transformations.check_and_save_model` takes it.
    """
    import castsmith

    return (castsmith.optimize(model, **options) if to is None else castsmith.convert(model, to=to, **options)).proto


class CastsmithCommand(BaseOptimumCLICommand):
    """Convert or optimize every model of an exported folder, and copy its other files."""

    COMMAND = CommandInfo(name="castsmith", help="Fix the element types of ONNX models for a runtime.")

    @staticmethod
    def parse_args(parser: ArgumentParser) -> None:
        parser.add_argument("--onnx_model", type=Path, required=True, help="Folder of the exported models.")
        parser.add_argument("-o", "--output", type=Path, required=True, help="Folder to write to.")
        parser.add_argument("--to", help="Precision to convert to: float16 or bfloat16. Without it no value changes.")
        parser.add_argument("--target", help="Runtime to lower for; `castsmith targets` lists them.")
        parser.add_argument("--keep", action="append", help="Nodes that keep their type: names, operators, modules.")
        parser.add_argument("--max_error", type=float, help="The relative error that outputs may have; needs --to.")

    def run(self) -> None:
        from castsmith.cli.main import main

        source, output = self.args.onnx_model, self.args.output
        if not source.is_dir():
            sys.exit(f"optimum-cli: --onnx_model {source} is no folder.")
        command = ["optimize"] if self.args.to is None else ["convert", "--to", self.args.to]
        for name in ("target", "keep", "max_error"):
            values = getattr(self.args, name)
            for value in values if isinstance(values, list) else () if values is None else (values,):
                command.append(f"--{name.replace('_', '-')}={value}")
        status = main([*command, str(source), "-o", f"{output}/"])
        if status:
            sys.exit(status)
        if output.resolve() != source.resolve():
            _copy_others(source, output)


class OnnxCommand(BaseOptimumCLICommand):
    """The group of the command."""

    COMMAND = CommandInfo(name="onnx", help="Tools for ONNX models.")
    SUBCOMMANDS = (
        CommandInfo(CastsmithCommand.COMMAND.name, CastsmithCommand.COMMAND.help, subcommand_class=CastsmithCommand),
    )


def _copy_others(source: Path, output: Path) -> None:
    """Copy the configuration and tokenizers beside the models, without the models and their weights."""
    import castsmith
    from castsmith.ir.walks import files_read

    models = map(castsmith.load, source.rglob("*.onnx"))
    weights = set[Path]().union(*map(files_read, models))
    for file in source.rglob("*"):
        inside = output.resolve() in file.resolve().parents
        if file.is_file() and file.suffix != ".onnx" and file.resolve() not in weights and not inside:
            copy = output / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy)
