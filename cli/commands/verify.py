"""castsmith verify: run two models on inputs chosen to find differences, and compare them bit by bit."""

from __future__ import annotations

import argparse
import io
import os
import re
from typing import TYPE_CHECKING, Any, get_args

from castsmith.cli.arguments import (
    Commands,
    add_command,
    add_jobs,
    add_json,
    add_promotion,
    add_quiet,
    integer,
    print_json,
    promotion_rules,
)
from castsmith.cli.batch.inputs import models_of
from castsmith.cli.exit_codes import DONE, INCONCLUSIVE, REFUSED
from castsmith.ir.evaluate.names import MEMORY, EngineName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import numpy as np
    import onnx_ir

    from castsmith.ir.verify.verdict import Verdict

_CODES = {"equal": DONE, "different": REFUSED, "inconclusive": INCONCLUSIVE}

_EPILOG = (
    "Each model is run one operator at a time. Conversions (Cast, CastLike, BitCast, QuantizeLinear, DequantizeLinear),"
    " promotions and QONNX Trunc are computed exactly by Castsmith, since ONNX Runtime merges chains of casts even with"
    " its optimization off; everything else is run by the engine. The result of a runtime for B as a whole is"
    " reported separately."
)


def add_to(commands: Commands) -> None:
    summary = "run two models on adversarial inputs and compare them bit by bit"
    parser = add_command(commands, "verify", run, summary)
    parser.epilog = f"{_EPILOG} {parser.epilog}"
    parser.add_argument(
        "a", metavar="A", help="an ONNX model, which may have operands of different types; - for standard input"
    )
    parser.add_argument(
        "b", metavar="B", help="the model that must give the same bits; of two folders the models of one path"
    )
    add_engine(parser)
    parser.add_argument(
        "--sets", metavar="N", type=integer(1), default=12, help="number of sets of adversarial inputs (default: 12)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=integer(0), default=0, help="seed of the random inputs (default: 0)"
    )
    add_inputs(parser)
    parser.add_argument(
        "--time", metavar="SECONDS", type=_seconds, help="stop after this processor time (default: 20 to 120, by size)"
    )
    parser.add_argument(
        "--memory",
        metavar="MIB",
        type=integer(1),
        default=MEMORY,
        help=f"skip what takes more memory, the models apart (default: {MEMORY})",
    )
    parser.add_argument(
        "--accept",
        metavar="NAME",
        action="append",
        default=[],
        help="an input or output whose element type may differ, compared through its code or value; `all` for any",
    )
    parser.add_argument("--prove", action="store_true", help="report equality only if it is proven for all inputs")
    parser.add_argument("--nan-bits", action="store_true", help="distinguish NaN by sign and payload")
    add_promotion(parser)
    add_jobs(parser)
    add_quiet(parser)
    add_json(parser)


def add_engine(parser: Any) -> None:
    """Add the option that chooses the engine to a parser or a group of one."""
    help_text = (
        "engine for everything except conversions: onnxruntime (default), openvino, or reference, which is slower"
    )
    parser.add_argument("--engine", choices=get_args(EngineName), default="onnxruntime", help=help_text)


def add_inputs(parser: Any) -> None:
    """Add the options that choose the inputs on which models are run."""
    parser.add_argument("--dim", metavar="NAME=SIZE", action="append", default=[], help="size of a symbolic dimension")
    parser.add_argument(
        "--inputs",
        metavar="FILE.npz",
        help="run on these arrays instead: `name`, or `set/name` for many; or a folder of such files",
    )


def given_inputs(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options that `add_inputs` parsed, as options of `castsmith.verify`."""
    inputs = None if arguments.inputs is None else list(read_inputs(arguments.inputs))
    return {"dims": dict(map(_size, arguments.dim)), "inputs": inputs}


def run(arguments: argparse.Namespace) -> int:
    from castsmith.cli.models import read_model, require_one_stdin, shown, source_of
    from castsmith.cli.text.terminal import print_lines, progress
    from castsmith.cli.text.verify import verdict_data, verdict_lines
    from castsmith.ir.verify.run import verify

    if os.path.isdir(arguments.a) and os.path.isdir(arguments.b):
        require_names_somewhere(arguments, (arguments.a, arguments.b))
        from castsmith.cli.batch.many import run_pairs

        return run_pairs(arguments)
    require_one_stdin((arguments.a, arguments.b, arguments.inputs))
    given, names = given_inputs(arguments), (shown(arguments.a), shown(arguments.b))
    with progress(
        len(given["inputs"]) + 1 if given["inputs"] is not None else arguments.sets + 4, quiet=arguments.quiet
    ) as announce:
        announce(f"reading {names[0]} and {names[1]}")
        models = read_model(source_of(arguments.a)), read_model(source_of(arguments.b))
        require_dims(arguments, *models)
        _require_accepted(arguments, *models)
        verdict: Verdict = verify(
            *models,
            engine=arguments.engine,
            promotion=promotion_rules(arguments),
            sets=arguments.sets,
            seed=arguments.seed,
            nan_bits=arguments.nan_bits,
            accept=arguments.accept,
            seconds=arguments.time,
            memory=arguments.memory,
            prove=arguments.prove,
            progress=announce,
            **given,
        )
    data = {"a": arguments.a, "b": arguments.b, **verdict_data(verdict)}
    if arguments.outcome is not None:
        arguments.outcome.report = data
    if arguments.json:
        print_json(data)
    elif not arguments.quiet:
        print_lines(verdict_lines(*names, verdict))
    return _CODES[verdict.outcome]


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("--time must be more than 0 seconds")
    return number


def _size(text: str) -> tuple[str, int]:
    from castsmith.lowering.registry import OptionError

    name, _, size = text.partition("=")
    if not name or not re.fullmatch("[0-9]{1,18}", size):
        raise OptionError(f"--dim {text} is not of the form NAME=SIZE, such as batch=4.")
    return name, int(size)


def require_dims(arguments: argparse.Namespace, *models: onnx_ir.Model) -> None:
    """Raise OptionError if --dim names a dimension that no input has; of many models each has some."""
    from castsmith.lowering.registry import OptionError

    if arguments.outcome is not None:
        return
    known = _dimensions(models)
    for name in dict(map(_size, arguments.dim)):
        if name not in known:
            raise OptionError(f"--dim {name}: {_unknown('dimension', known)}.")


def require_names_somewhere(arguments: argparse.Namespace, words: Sequence[str], outside: Path | None = None) -> None:
    """Raise OptionError if --dim or --accept names what is in no model; reads models until each is found."""
    from castsmith.ir.errors import ModelError
    from castsmith.ir.io.loading import load_structure
    from castsmith.lowering.registry import OptionError

    dims, ports = set(dict(map(_size, arguments.dim))), set[str](getattr(arguments, "accept", ())) - {"all"}
    for file, _ in models_of(words, outside=outside) if dims or ports else ():
        try:
            model = load_structure(file)
        except ModelError:  # reported where it is processed
            continue
        dims -= _dimensions([model])
        ports -= _ports([model])
        if not dims and not ports:
            return
    for option, what, left in (("--dim", "dimension", dims), ("--accept", "input or output", ports)):
        if left:
            raise OptionError(f"{option} {min(left)}: unknown {what}; the models do not have it.")


def _dimensions(models: Iterable[onnx_ir.Model]) -> set[str]:
    shapes = [value.shape for model in models for value in model.graph.inputs if value.shape is not None]
    return {dim.value for shape in shapes for dim in shape if not isinstance(dim, int) and dim.value}


def _ports(models: Iterable[onnx_ir.Model]) -> set[str]:
    return {value.name or "" for model in models for value in (*model.graph.inputs, *model.graph.outputs)}


def _require_accepted(arguments: argparse.Namespace, *models: onnx_ir.Model) -> None:
    """Raise OptionError if --accept names neither an input nor an output; of many models each has some of them."""
    from castsmith.lowering.registry import OptionError

    known = _ports(models)
    for name in arguments.accept:
        if name not in known | {"all"} and arguments.outcome is None:
            raise OptionError(f"--accept {name}: {_unknown('input or output', known)}.")


def _unknown(what: str, known: set[str]) -> str:
    names = ", ".join(sorted(known)[:_NAMED]) + (f" and {len(known) - _NAMED} more" if len(known) > _NAMED else "")
    return f"unknown {what}; expected {names}" if known else f"unknown {what}; the model has none with a name"


_NAMED = 8


def read_inputs(path: str) -> Iterator[tuple[str, dict[str, np.ndarray[Any, Any]]]]:
    """Yield the sets of inputs in a file, a folder or standard input, as `castsmith.verify` reads them."""
    from castsmith.cli.models import STREAM, read_stdin
    from castsmith.ir.verify.given import stored_sets

    return stored_sets(io.BytesIO(read_stdin()) if path == STREAM else path)
