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
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

from onnx_ir import DataType

import castsmith
import castsmith.lowering
import castsmith.passes
from castsmith.cli.catalogue import all_codes, head, parts, summary_of
from castsmith.cli.exit_codes import EXIT_CODES, WORST, meanings
from castsmith.cli.main import main, whole_parser
from castsmith.cli.parser import subcommands
from castsmith.ir.codes import Code
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
    """Every command with its --help-all, and every option of castsmith.optimize."""
    yield "# Commands and options\n"
    yield "Look up a command, its options and its exit codes. Commands accept invalid models too.\n"
    overview = _help()
    yield f"```text\n{overview}```\n"
    yield "## Exit codes\n"
    yield from _exit_codes()
    for words in _named(whole_parser()):
        yield f"## castsmith {' '.join(words)}\n"
        yield f"```text\n{_help(*words)}```\n"
    yield from _options()


def _named(parser: argparse.ArgumentParser) -> Iterator[tuple[str, ...]]:
    """Yield the words that name each command, those of a group after it."""
    for name, inner in subcommands(parser).items():
        yield (name,)
        yield from ((name, *words) for words in _named(inner))


_STREAMS = """
With several models, the exit code is the worst one: 2, then 1, then 3, then 0. An interrupt gives 130, a closed pipe
141, SIGTERM 143. Every error is one sentence on stderr. With `--json` it is also a document on stdout
([error-1.json](../schema/error-1.json)).

## Standard input and output

Pass `-` to read a model from standard input (`optimize`, `check`, `diff` and `verify`), or to write it to standard
output (`optimize -o -`). The output is a single ONNX file with all weights, and the summary moves to stderr. External
data is read from the current folder. A file named `-` is `./-`.

## Options of every command

| option | effect |
|---|---|
| `-h`, `--help` | show the common options; `castsmith help COMMAND` does the same |
| `--help-all` | show all options |
| `--json` | print a document for programs |
| `-q` | print only errors, no warnings, and what you asked for, such as `--diff` |
| `-v` | print each step and its time |
| `--no-color` | print no colors; the variable `NO_COLOR` does the same |

`--dry-run` of `optimize` and `convert` does all the work and all the checks, and writes nothing.
"""


def _exit_codes() -> Iterator[str]:
    heads = ("command", *(str(code) for code in sorted(WORST)))
    rows = (("any other" if not name else f"`{name}`", *_meanings(name)) for name in (*EXIT_CODES, ""))
    yield _table(heads, rows)
    yield _STREAMS


def _meanings(command: str) -> Iterator[str]:
    found = meanings(command)
    yield from (found.get(code, "") for code in sorted(WORST))


def _options() -> Iterator[str]:
    yield "## Options in Python\n"
    yield "Pass these to `castsmith.optimize(model, ...)`. The last column is the flag of `castsmith optimize`."
    yield "Invalid values raise `OptionError`, which lists the valid ones.\n"
    flags = {word.strip("[]") for word in _help("optimize").replace(",", " ").split() if word.startswith(("--", "[--"))}
    rows = ((*_option(field), _flag(field, flags)) for field in dataclasses.fields(Options))
    yield from _stacked(_table(("option", "values", "default", "what it does", "command line"), rows))


def _flag(field: dataclasses.Field[Any], known: set[str]) -> str:
    name = f"--{field.name.replace('_', '-')}"
    return next((f"`{flag}`" for flag in (name, name.replace("--", "--no-")) if flag in known), "")


def passes() -> Iterator[str]:
    """Every pass with its options, in the order of optimize."""
    yield _REFERENCE
    yield "# Passes\n"
    yield f"`optimize` runs them in this order: {', '.join(f'`{name}`' for name in PIPELINE)}.\n"
    yield "Set options as fields of the class, or with `--passes 'name{option=value option=value}'`.\n"
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
    yield _REFERENCE
    yield "# Targets\n"
    yield "See which types and operators each target supports. `castsmith targets show NAME` prints the same."
    yield "You can [describe your own runtime](../howto/target.md) too.\n"
    known = [load_target(name) for name in target_names()]
    rows = ((f"[{one.name}](#{one.name})", one.description, _newest(one), _lacks(one)) for one in known)
    yield _table(("target", "what it is", "newest opset", "unsupported types"), rows)
    for target in known:
        yield f"## {target.name}\n"
        yield f"{target.description}. Newest opset {_newest(target)}, newest IR version {target.newest_ir_version}.\n"
        if target.unknown:
            yield f"Unknown: {', '.join(target.unknown)}.\n"
        yield f"Unsupported types: {_lacks(target) or 'none'}.\n"
        rows = ((type_name(dtype), str(len(row)), _few(row)) for dtype, row in target.kernels.items())
        if target.kernels:
            yield "Types that only some operators support:\n"
            yield _table(("type", "operators", "which"), rows)
        if target.wrong_casts:
            yield "Casts that differ from the standard:\n"
            wrong = ((_types(one.sources), _types(one.targets), one.wrong) for one in target.wrong_casts)
            yield _table(("from", "to", "what happens"), wrong)
        if target.hazards:
            yield _table(("hazard", "what it does"), target.hazards.items())
        yield from (f"Evidence{f' ({key})' if key else ''}: {text}.\n" for key, text in target.evidence.items())


def types() -> Iterator[str]:
    """Every element type, and what the presets of promotion are."""
    yield _REFERENCE
    yield "# Types\n"
    yield "Look up the name of an element type. Commands also take short names (`f16`, `bf16`, `i64`, `f8e4m3fn`)."
    yield "See [numbers](../numerics.md) for formats and ranges, and [promotion](../promotion.md) for common types.\n"
    rows = ((type_name(dtype), str(int(dtype)), str(row.bits or ""), row.kind.name.lower()) for dtype, row in _rows())
    yield _table(("type", "number in `to`", "bits", "kind"), rows)
    yield "## Promotion presets\n"
    fields = [field.name for field in dataclasses.fields(PromotionRules)]
    presets = {name: PromotionRules.preset(name) for name in ("openvino", "torch", "numpy", "jax", "tensorflow")}
    yield _table(("preset", *fields), ((name, *(_value(getattr(r, f)) for f in fields)) for name, r in presets.items()))


def api() -> Iterator[str]:
    """The public names by group, each with a link to its page."""
    yield "# Python\n"
    yield "Look up a function or class. All errors that Castsmith raises deliberately are `CastsmithError`s.\n"
    for title, module, names in _api():
        yield f"## {title}\n"
        yield _table(("name", "what it is"), ((f"[{name}](python/{name}.md)", _first(module, name)) for name in names))


def _api() -> Iterator[tuple[str, Any, list[str]]]:
    """Yield each group of public names: its title, their module, and those that no group before it has."""
    grouped = {name for names in GROUPS.values() for name in names}
    errors = [name for name in castsmith.__all__ if name.endswith("Error")]
    rest = [name for name in castsmith.__all__ if name not in grouped and name not in errors]
    for title, names in {**GROUPS, "Others": rest, "Errors": errors}.items():
        if names:
            yield title, castsmith, [*names]
    for module in (castsmith.passes, castsmith.lowering):
        yield module.__name__, module, [name for name in module.__all__ if not hasattr(castsmith, name)]


def _first(module: Any, name: str) -> str:
    """Return the first line of the docstring of a public name."""
    thing = getattr(module, name)
    documented = inspect.isclass(thing) or inspect.isfunction(thing)
    return (inspect.getdoc(thing) or "").partition("\n")[0].replace("|", "\\|") if documented else ""


def codes() -> Iterator[str]:
    """Every code with a link to its page."""
    yield "# Codes\n"
    yield "Look up a finding, a rewrite or a skipped change by its code. `castsmith explain CODE` prints the same page."
    yield "Codes stay the same from version to version.\n"
    kinds = {"finding": "Findings", "rewrite": "Rewrites", "refusal": "Skipped changes"}
    for kind, title in kinds.items():
        yield f"## {title}\n"
        rows = ((f"[{code.code}]({_slug(code)}.md)", summary_of(code)) for code in all_codes() if code.kind == kind)
        yield _table(("code", "what it means"), rows)


def code_page(code: Code) -> Iterator[str]:
    """The page of a code."""
    (first, what), *others = parts(code)
    yield _REFERENCE
    yield f"# {code.code}\n"
    yield f"{head(code)}\n"
    yield f"## {first}\n\n{what}\n"
    language = "diff" if code.example.startswith(("- ", "+ ")) else "text"
    yield f"```{language}\n{code.example.strip()}\n```\n"
    yield from (f"## {title}\n\n{text}\n" for title, text in others)
    if code.kind == "finding":
        yield f"To silence it, pass `check --ignore {code.code}`, or add it to your"
        yield "[settings](../howto/gate.md#settings-of-a-project) or [baseline](../howto/gate.md#a-baseline).\n"


_REFERENCE = """---
search:
  boost: 0.1
---
"""
"""The head of a page that a search lists after guides with the same words."""


def _slug(code: Code) -> str:
    return code.code.replace("*", "operator")


def notebook() -> Iterator[str]:
    """The notebook, run."""
    return notebook_page(HOWTO / "notebook.ipynb")


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "reference/python.md": api,
    "reference/commands.md": commands,
    "reference/passes.md": passes,
    "reference/targets.md": targets,
    "reference/types.md": types,
    "codes/index.md": codes,
    "howto/notebook.md": notebook,
}
"""The pages that stand in the navigation."""


def pages() -> dict[str, Callable[[], Iterator[str]]]:
    """Return every page that is made from the code, with those of codes and of public names."""
    of_codes = {f"codes/{_slug(code)}.md": partial(code_page, code) for code in all_codes()}
    of_names = {
        f"reference/python/{name}.md": partial(_object, module, name) for _, module, names in _api() for name in names
    }
    return {**PAGES, **of_codes, **of_names}


def _help(*command: str) -> str:
    before, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), "82"
    with redirect_stdout(StringIO()) as out:
        main([*command, "--help-all"])
    os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return out.getvalue()


def _object(module: Any, name: str) -> Iterator[str]:
    yield _REFERENCE
    yield from _entry(module, name)


def _entry(module: Any, name: str) -> Iterator[str]:
    home = getattr(getattr(module, name), "__module__", "")
    if not home.startswith("castsmith."):  # the name of a type made of others
        home = _module_of(name) or module.__name__
    yield f"::: {home}.{name}"
    yield f"    options:\n      heading_level: 1\n      toc_label: {name}\n"
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
    return "unknown" if "types" in target.unknown else _types(target.lacks)


def _newest(target: Target) -> str:
    return "unknown" if "newest_opset" in target.unknown else str(target.newest_opset)


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
