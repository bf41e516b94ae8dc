"""Commands on the program itself.

castsmith passes lists the passes with their summaries, in the order in which optimize runs them; castsmith completion
prints a script, made by shtab, that lets a shell complete the command, its options and the names of types, targets,
passes and codes that are installed then. Completing starts no Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from castsmith.cli.catalogue import all_codes
from castsmith.cli.exit_codes import DONE, UNUSABLE
from castsmith.cli.extensions import usable
from castsmith.cli.main import whole_parser
from castsmith.cli.parser import subcommands
from castsmith.cli.text.json import print_json
from castsmith.cli.text.screen import print_lines
from castsmith.cli.text.terminal import Line, print_data
from castsmith.lowering.registry import PASSES, added_passes, needs_target, option_names, pass_class, summary
from castsmith.numerics.errors import OptionError
from castsmith.numerics.extensions import LOWERINGS, PROMOTIONS, extensions
from castsmith.numerics.promotion.rules import PRESETS
from castsmith.numerics.types import ELEMENT_TYPES, type_name
from castsmith.targets.target import target_names


def run_passes(arguments: argparse.Namespace) -> int:
    added, complete = usable(added_passes(), pass_class)
    if arguments.json:
        entries = [
            {"name": n, "summary": summary(n), "options": option_names(n), "needs_target": needs_target(n)}
            for n in (*PASSES, *added)
        ]
        operators = [{"name": extension.name, "package": extension.package} for extension in extensions(LOWERINGS)]
        print_json({"passes": entries, "lowered_operators": operators})
        return DONE if complete else UNUSABLE
    print_lines(line for name in (*PASSES, *added) for line in _lines(name, is_added=name in added))
    return DONE if complete else UNUSABLE


def _lines(name: str, *, is_added: bool) -> Iterator[Line]:
    when = f"{' (with --target)' if needs_target(name) else ''}{' (--passes only)' if is_added else ''}"
    yield Line((("bold", name), ("", when)), 4)
    texts = [summary(name)]
    if option_names(name):
        texts.append(f"options: {', '.join(option_names(name))}")
    if name == "lower-custom":
        texts += [f"lowers {extension.name} ({extension.package})" for extension in extensions(LOWERINGS)]
    yield from (Line((("", f"    {text}"),), 6) for text in texts)


def run_completion(arguments: argparse.Namespace) -> int:
    try:
        import shtab  # an extra
    except ImportError:
        raise OptionError("completion needs shtab: run `pip install shtab`, then try again.") from None
    parser = whole_parser()
    _list_values(parser, known_values(), shtab.FILE)
    script = shtab.complete(parser, arguments.shell)
    if arguments.json:
        print_json({"shell": arguments.shell, "script": script})
    else:
        print_data(script)
    return DONE


def known_values() -> dict[str, list[str]]:
    """Return the values of each metavar, if they can be listed."""
    passes = [*PASSES, *added_passes()]
    return {
        "T": target_names(),
        "NAME": target_names(),
        "PRESET": [*PRESETS, *(extension.name for extension in extensions(PROMOTIONS))],
        "PASS": passes,
        "LIST": passes,
        "CODE": [code.code for code in all_codes()],
        "CODES": [code.code for code in all_codes()],
        "TYPE": [type_name(dtype) for dtype in ELEMENT_TYPES],
    }


def _list_values(parser: argparse.ArgumentParser, values: Mapping[str, Sequence[str]], files: object) -> None:
    """Make the values that can be listed the choices of arguments, and `files` what shtab completes for the others."""
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]  # argparse has no public access
        if action.choices is None:
            action.choices = values.get(str(action.metavar))
        if action.choices is None and action.nargs != 0:
            action.complete = files  # type: ignore[attr-defined]
    for inner in subcommands(parser).values():
        _list_values(inner, values, files)
