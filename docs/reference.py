"""The reference pages, made from the code whenever the site is built: nothing in them can be out of date.

Each public function is a page of Markdown; docs/hook.py gives them to mkdocs.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import html
import inspect
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from onnx_ir import DataType

import castsmith
import castsmith.lowering
import castsmith.passes
from castsmith.cli.exit_codes import EXIT_CODES, WORST, meanings
from castsmith.cli.main import main, whole_parser
from castsmith.cli.parser import subcommands
from castsmith.lowering.registry import PASSES, PIPELINE, needs_target, pass_class, summary
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import ELEMENT_TYPES, type_name
from castsmith.passes.core.options import Options, info_of
from castsmith.targets.target import Target, load_target, target_names
from docs.docstrings import as_markdown, descriptions, resolved, without
from docs.notebooks import HOWTO, notebook_page

ROOT = Path(__file__).parents[1]
_URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
SITE = f"{_URLS['Documentation']}/"
REPOSITORY = _URLS["Repository"].removesuffix(".git")

GROUPS = {
    "Models": (
        "load",
        "save",
        "fit",
        "FitResult",
        "Step",
        "Way",
        "optimize",
        "Options",
        "convert",
        "ConvertOptions",
        "Result",
        "check",
        "diff",
        "ModelDiff",
        "Change",
        "verify",
        "Verdict",
        "bounds",
        "Bound",
    ),
    "Promotion": ("PromotionRules", "common_type", "promote_types"),
    "Numbers": ("cast", "cast_status", "Definedness", "is_exact", "chain_collapses", "trunc"),
    "Records": (
        "Rewrite",
        "Effect",
        "Refusal",
        "Diagnostic",
        "Severity",
        "Site",
        "Records",
        "RewriteResult",
        "recording",
    ),
    "Targets": ("load_target", "Target"),
}


def commands() -> Iterator[str]:
    """Every command with its --help-all."""
    yield "# Commands\n"
    yield "Each command accepts a model, also an invalid one, prints what it found, and ends with an exit code.\n"
    overview = _help()
    yield f"```text\n{overview}```\n"
    yield "## Exit codes\n"
    yield from _exit_codes()
    for words in _named(whole_parser()):
        yield f"## castsmith {' '.join(words)}\n"
        yield f"```text\n{_help(*words)}```\n"


def _named(parser: argparse.ArgumentParser) -> Iterator[tuple[str, ...]]:
    """Yield the words that name each command, those of a group after it."""
    for name, inner in subcommands(parser).items():
        yield (name,)
        yield from ((name, *words) for words in _named(inner))


_STREAMS = """
Of several models the exit code is that of the worst: 2, then 1, then 3, then 0. An interrupt is 130, a reader that goes
away 141, SIGTERM 143. Every error is one sentence on stderr, and with `--json` a document on stdout too
([error-1.json](../schema/error-1.json)). Where a model is written and the report of it cannot be printed, the sentence
says so; the exit code is then 2 with `--json`, and 0 without.

## Standard input and output

`-` in the place of a model is standard input, which `optimize`, `check`, `diff` and `verify` take once, or the standard
output of `optimize -o -`: the bytes of one ONNX file with all its weights, and nothing else. The summary then goes to
stderr, and `--report` to its file. External data of a model from standard input is looked for in the current folder. A
file named `-` is `./-`.

## Options of every command

`-h` and `--help` show the options that people use, `--help-all` all of them; `castsmith help COMMAND` is the same as
`--help`. `--json` prints a document for programs. `-q` prints only errors, and the output of other options, such as
`--diff` or `--json`; the exit code gives the result. `-v` prints each step and its time. `--no-color`, as the variable
`NO_COLOR`, prints no colours; without a terminal there are none. `optimize --dry-run` and `convert --dry-run` do all
the work, with the checks of where files would be written, and write nothing, also no report.
"""


def _exit_codes() -> Iterator[str]:
    heads = ("command", *(str(code) for code in sorted(WORST)))
    rows = (("any other" if not name else f"`{name}`", *_meanings(name)) for name in (*EXIT_CODES, ""))
    yield _table(heads, rows)
    yield _STREAMS


def _meanings(command: str) -> Iterator[str]:
    found = meanings(command)
    yield from (found.get(code, "") for code in sorted(WORST))


def options() -> Iterator[str]:
    """Every option of castsmith.optimize."""
    yield "# Options\n"
    yield "What `castsmith.optimize(model, ...)` takes, and `castsmith optimize` by the names in the last column;"
    yield "a value that an option does not take is an `OptionError`, which names the values that it takes.\n"
    known = {word for word in _help("optimize").replace(",", " ").split() if word.startswith(("--", "[--"))}
    flags = {word.strip("[]") for word in known}
    rows = ((*_option(field), _flag(field, flags)) for field in dataclasses.fields(Options))
    yield from _stacked(_table(("option", "values", "default", "what it does", "command line"), rows))


def _flag(field: dataclasses.Field[Any], known: set[str]) -> str:
    name = f"--{field.name.replace('_', '-')}"
    return next((f"`{flag}`" for flag in (name, name.replace("--", "--no-")) if flag in known), "")


def passes() -> Iterator[str]:
    """Every pass with its options, in the order of optimize."""
    yield "# Passes\n"
    yield f"`optimize` runs them in this order: {', '.join(f'`{name}`' for name in PIPELINE)}.\n"
    yield "Options are fields of the class, and on the command line `--passes 'name{option=value option=value}'`.\n"
    for name in PASSES:
        kind = pass_class(name)
        home = "castsmith.lowering" if needs_target(name) else "castsmith.passes"
        yield f"## {name}\n"
        docstring = resolved(kind.__doc__ or "", kind.__name__)
        yield f"{summary(name)}\n"
        yield f"In Python `{home}.{kind.__name__}` ([source]({_source(kind)})).\n"
        _, _, rest = as_markdown(without(docstring, "Attributes")).partition("\n\n")
        yield f"{rest}\n"
        fields = dataclasses.fields(kind)  # pyright: ignore[reportArgumentType]
        if fields:
            known = descriptions(docstring)
            rows = ((*_option(field)[:3], known[field.name]) for field in fields)
            yield from _stacked(_table(("option", "type", "default", "what it does"), rows))


def targets() -> Iterator[str]:
    """Every target with what is known of it."""
    yield "# Targets\n"
    yield "What `castsmith targets show NAME` prints, for all. A target is a JSON file in `targets/data`, or"
    yield "[one of your own](../howto/target.md).\n"
    known = [load_target(name) for name in target_names()]
    rows = ((f"[{one.name}](#{one.name})", one.description, _newest(one), _lacks(one)) for one in known)
    yield _table(("target", "what it is", "newest opset", "types that it lacks"), rows)
    for target in known:
        yield f"## {target.name}\n"
        yield f"{target.description}. Newest opset {_newest(target)}, newest IR version {target.newest_ir_version}.\n"
        if target.unknown:
            yield f"Not known: {', '.join(target.unknown)}.\n"
        yield f"Types that it lacks: {_lacks(target) or 'none'}.\n"
        rows = ((type_name(dtype), str(len(row)), _few(row)) for dtype, row in target.kernels.items())
        if target.kernels:
            yield "Types that not every operator takes:\n"
            yield _table(("type", "operators that take it", "which"), rows)
        if target.wrong_casts:
            yield "Casts that it computes otherwise than the standard:\n"
            wrong = ((_types(one.sources), _types(one.targets), one.wrong) for one in target.wrong_casts)
            yield _table(("from", "to", "what happens"), wrong)
        if target.hazards:
            yield _table(("hazard", "what it does"), target.hazards.items())
        yield from (f"Evidence{f' ({key})' if key else ''}: {text}.\n" for key, text in target.evidence.items())


def types() -> Iterator[str]:
    """Every element type, and what the presets of promotion are."""
    yield "# Types\n"
    yield "Names are those of ONNX text; each command takes the short forms too (`f16`, `bf16`, `i64`, `f8e4m3fn`)."
    yield "Formats, ranges and special values are in [numbers](../numerics.md), the tables of common types in"
    yield "[promotion](../promotion.md).\n"
    rows = ((type_name(dtype), str(int(dtype)), str(row.bits or ""), row.kind.name.lower()) for dtype, row in _rows())
    yield _table(("type", "number in `to`", "bits", "kind"), rows)
    yield "## Presets of promotion\n"
    fields = [field.name for field in dataclasses.fields(PromotionRules)]
    presets = {name: PromotionRules.preset(name) for name in ("openvino", "torch", "numpy", "jax", "tensorflow")}
    yield _table(("preset", *fields), ((name, *(_value(getattr(r, f)) for f in fields)) for name, r in presets.items()))


def api() -> Iterator[str]:
    """Every public name, by mkdocstrings."""
    yield "# Python\n"
    yield "Every public name, with parameters, results and errors. Errors raised deliberately are `CastsmithError`s.\n"
    grouped = {name for names in GROUPS.values() for name in names}
    errors = [name for name in castsmith.__all__ if name.endswith("Error")]
    rest = [name for name in castsmith.__all__ if name not in grouped and name not in errors]
    for title, names in {**GROUPS, "Others": rest, "Errors": errors}.items():
        if names:
            yield f"## {title}\n"
        for name in names:
            yield from _entry(castsmith, name)
    for module in (castsmith.passes, castsmith.lowering):
        yield f"## {module.__name__}\n"
        for name in module.__all__:
            if not hasattr(castsmith, name):
                yield from _entry(module, name)


def notebook() -> Iterator[str]:
    """The notebook, run."""
    return notebook_page(HOWTO / "notebook.ipynb")


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "reference/python.md": api,
    "reference/commands.md": commands,
    "reference/options.md": options,
    "reference/passes.md": passes,
    "reference/targets.md": targets,
    "reference/types.md": types,
    "howto/notebook.md": notebook,
}


def _help(*command: str) -> str:
    before, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), "82"
    with redirect_stdout(StringIO()) as out:
        main([*command, "--help-all"])
    os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return out.getvalue()


def _entry(module: Any, name: str) -> Iterator[str]:
    home = getattr(getattr(module, name), "__module__", "")
    if not home.startswith("castsmith."):  # the name of a type made of others
        home = _module_of(name) or module.__name__
    yield f"::: {home}.{name}"
    yield f"    options:\n      heading_level: 3\n      toc_label: {name}\n"
    if (source := _source(getattr(module, name))) is not None:
        yield f"[Source of {name}]({source}){{ .source }}\n"


def _module_of(name: str) -> str | None:
    """Return the module from which the package imports a public name."""
    for statement in ast.parse(Path(castsmith.__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ImportFrom) and name in (alias.name for alias in statement.names):
            return f"castsmith.{statement.module}"
    return None


def _source(thing: Any) -> str | None:
    """Return the address of the lines that define a class or a function, None for anything else."""
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return None
    thing = inspect.unwrap(thing)
    path = Path(inspect.getsourcefile(thing) or "").resolve().relative_to(ROOT)
    return f"{REPOSITORY}/blob/main/{path}#L{inspect.getsourcelines(thing)[1]}"


def _option(field: dataclasses.Field[Any]) -> tuple[str, str, str, str]:
    default = field.default if field.default is not dataclasses.MISSING else field.default_factory
    info = info_of(field)
    return (
        f"`{field.name}`",
        " or ".join(map(_value, info.choices)) if info and info.choices else _code(str(field.type)),
        "required" if default is dataclasses.MISSING else "none" if default is None else _value(default),
        info.help if info else "",
    )


def _value(value: object) -> str:
    if callable(value):  # a factory, whose value is what the option has by default
        value = value()
    return f"`{type_name(value) if isinstance(value, DataType) else repr(value)}`"


def _code(text: str) -> str:
    """Return code for a cell of a table: a bar in backticks would keep the backslash that it needs there."""
    return f"<code>{html.escape(text).replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


def _rows() -> Iterable[tuple[DataType, Any]]:
    return ELEMENT_TYPES.items()


def _types(types: Iterable[DataType]) -> str:
    chosen = set(types)
    return ", ".join(type_name(dtype) for dtype in ELEMENT_TYPES if dtype in chosen)


def _lacks(target: Target) -> str:
    return "not known" if "types" in target.unknown else _types(target.lacks)


def _newest(target: Target) -> str:
    return "not known" if "newest_opset" in target.unknown else str(target.newest_opset)


def _few(row: Iterable[str]) -> str:
    names = sorted(row)
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:12])} and others"


def _stacked(table: str) -> tuple[str, str, str]:
    """Return a table whose cells stand one below the other on a narrow screen."""
    return ('<div class="stacked" markdown>\n', table, "</div>\n")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(head), *map(tuple, rows)]
    cells = ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines]
    return "\n".join((cells[0], "|" + "---|" * len(lines[0]), *cells[1:])) + "\n"
