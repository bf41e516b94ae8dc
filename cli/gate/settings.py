"""Settings of a project: castsmith.toml, or [tool.castsmith] in pyproject.toml.

The file is looked for in the working directory and upwards, to the root of the repository or, outside a repository, to
the user's home; elsewhere only the working directory is looked at. A key is an option of `check` without its dashes,
and is checked as that option is. What is given on the command line wins.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from castsmith.cli.gate.codes import LEVELS, require_findings
from castsmith.numerics.errors import CastsmithError, OptionError, did_you_mean
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import parse_type
from castsmith.targets.target import load_target

OWN, SHARED, TABLE = "castsmith.toml", "pyproject.toml", "castsmith"

KEYS = (
    *("target", "promotion", "promote-unsafe", "pytorch-scalar-promotion", "u64-integer-promotion-target"),
    *("select", "ignore", "fail-on", "baseline"),
)
"""The options that the file may set; each command takes those that it has."""
_TABLES = _SEVERITY, _PER_FILE = "severity", "per-file-ignores"


@dataclass(frozen=True)
class Settings:
    """The settings that are not options.

    Attributes:
        severities: The severity of a code, instead of its own.
        ignored: The codes that are ignored in the files that match a pattern, relative to `folder`.
        folder: The folder of the file.
    """

    severities: Mapping[str, str] = field(default_factory=dict[str, str])
    ignored: tuple[tuple[str, frozenset[str]], ...] = ()
    folder: Path = Path()

    def ignored_in(self, file: str) -> frozenset[str]:
        """Return the codes that are ignored in the file; `*` matches any characters, also `/`."""
        path = Path(os.path.relpath(os.path.abspath(file), self.folder)).as_posix()
        return frozenset(
            code for pattern, codes in self.ignored for code in codes if fnmatch.fnmatchcase(path, pattern)
        )


def apply_settings(arguments: argparse.Namespace) -> Settings:
    """Set the options that were not given to those of the file, and return what only the file sets.

    A process that does a part of a run reads no file: it was told all options.

    Raises:
        OptionError: The file cannot be read, or has an unknown key or an invalid value; the message names both.
    """
    if arguments.outcome is not None or getattr(arguments, "no_config", False):
        return Settings()
    given_path = getattr(arguments, "config", None)
    path = _find(Path.cwd()) if given_path is None else Path(given_path)
    if path is None:
        return Settings()
    table = _table(path, required=given_path is not None)
    for key, value in table.items():
        with _named(path, key):
            if key in KEYS:
                _apply(arguments, path.parent, key, value)
            elif key not in _TABLES:
                names = (*KEYS, *_TABLES)
                way_out = did_you_mean(key, names, f"expected {', '.join(names)}")
                raise OptionError(f"unknown key; {way_out}")
    severities, ignored = dict[str, str](), list[tuple[str, frozenset[str]]]()
    for code, level in _inner(path, table, _SEVERITY).items():
        with _named(path, f"{_SEVERITY}.{code}"):
            require_findings([code])
            if level not in LEVELS:
                raise OptionError(f"unknown severity {level!r}; expected {', '.join(LEVELS)}.")
            severities[code] = level
    for pattern, codes in _inner(path, table, _PER_FILE).items():
        with _named(path, f"{_PER_FILE}.{pattern}"):
            ignored.append((pattern, frozenset(_codes(codes))))
    return Settings(severities, tuple(ignored), path.parent.absolute())


@contextmanager
def _named(path: Path, key: str) -> Generator[None]:
    """Name the file and the key in an error within the block."""
    try:
        yield
    except CastsmithError as error:
        raise OptionError(f"{path}: {key}: {error}") from None


def _find(start: Path) -> Path | None:
    folders = [start, *start.parents]
    last = next((index for index, folder in enumerate(folders) if (folder / ".git").exists()), None)
    if last is None:
        home = Path(os.path.expanduser("~"))
        last = folders.index(home) if home in folders else 0
    for folder in folders[: last + 1]:
        if (folder / OWN).is_file():
            return folder / OWN
        if (folder / SHARED).is_file() and _table(folder / SHARED, required=False):
            return folder / SHARED
    return None


def _table(path: Path, *, required: bool) -> Mapping[str, Any]:
    """Return the settings of the file; none if pyproject.toml has no such table, and they are not required."""
    if path.exists() and not path.is_file():
        raise OptionError(f"{path}: the settings cannot be read, because this is not an ordinary file.")
    import tomllib

    try:
        content = path.read_bytes()
        if not required and path.name == SHARED and TABLE.encode() not in content:
            return {}
        data = tomllib.loads(content.decode())
    except OSError as error:
        raise OptionError(f"{path}: the settings cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OptionError(f"{path}: not TOML ({str(error).rstrip('.')}).") from None
    if path.name != SHARED:
        return data
    table = data.get("tool", {}).get(TABLE)
    if table is None and required:
        raise OptionError(f"{path}: no table [tool.{TABLE}].")
    if table is not None and not isinstance(table, dict):
        raise OptionError(f"{path}: tool.{TABLE} must be a table.")
    return cast("Mapping[str, Any]", table or {})


def _apply(arguments: argparse.Namespace, folder: Path, key: str, value: object) -> None:
    """Check the value as the option of the command is checked, and set it unless the option was given."""
    name = key.replace("-", "_")
    actions = arguments.parser._actions  # argparse has no public access
    action = next((action for action in actions if action.dest == name and action.option_strings), None)
    if action is None:
        return  # of another command
    parsed = _value(folder, key, value, action)
    if name not in arguments.given and parsed is not False:
        setattr(arguments, name, parsed)
        arguments.given |= {name}


def _value(folder: Path, key: str, value: object, action: argparse.Action) -> object:
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise OptionError(f"must be true or false, not {value!r}.")
        return value
    if key in ("select", "ignore"):
        return ",".join(_codes(value))
    if not isinstance(value, str):
        raise OptionError(f"must be a string, not {value!r}.")
    if action.choices is not None and value not in action.choices:
        choices = list(map(str, action.choices))
        way_out = did_you_mean(value, choices, f"expected {', '.join(choices)}")
        raise OptionError(f"unknown value {value!r}; {way_out}")
    if key == "baseline" or (key in ("target", "promotion") and (folder / value).is_file()):
        value = os.path.relpath(folder / value)
    readers: Mapping[str, Any] = {
        "target": load_target,
        "promotion": PromotionRules.preset,
        "u64-integer-promotion-target": parse_type,
    }
    readers.get(key, str)(value)
    return value


def _inner(path: Path, table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise OptionError(f"{path}: {key}: must be a table.")
    return cast("Mapping[str, Any]", value)


def _codes(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    codes = [item for item in items if isinstance(item, str)]
    if not codes or len(codes) != len(items):
        raise OptionError(f"must be a list of codes, not {value!r}.")
    require_findings(codes)
    return codes
