"""The public names are those in tests/packaging/public_api.txt: a change is deliberate, and shows in the version.

Names are compared exactly; parameters may be added, since callers keep working, but not removed.

`make package` builds the wheel and the source distribution, and installs the wheel in an empty environment.
`python -m tests.packaging.test_packaging` writes the file again.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import castsmith
import castsmith.lowering
import castsmith.passes
from tests.house import texts

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("public_api.txt")
NOT_CALLED_BY_USERS = {"call", "requires", "requires_in", "ensures", "rewrite", "run"}
"""Methods of passes that onnx_ir calls, or `optimize`."""
TOOLS = {
    "modelopt": ["nvidia-modelopt"],
    "model_explorer": ["ai-edge-model-explorer"],
    "olive": ["olive-ai"],
    "optimum": ["optimum-onnx"],
}
"""The packages of the modules that `integrations` imports: they are not installed here."""
WAY_OUT = "run python -m tests.packaging.test_packaging, and say so in CHANGELOG.md"


def described(name: str, thing: object) -> str:
    """The name with what a caller relies on: parameters of functions, fields of dataclasses."""
    if inspect.isclass(thing):
        # The parameters of the constructor, which most dataclasses make of their fields.
        fields = [*inspect.signature(thing).parameters] if dataclasses.is_dataclass(thing) else []
        return f"class {name} ({', '.join(fields)})" if fields else f"class {name}"
    if inspect.isfunction(thing):
        marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        parts: list[str] = []
        starred = False
        for parameter in inspect.signature(thing).parameters.values():
            starred |= parameter.kind is inspect.Parameter.VAR_POSITIONAL
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
                parts, starred = [*parts, "*"], True
            optional = "" if parameter.default is inspect.Parameter.empty else "=..."
            parts.append(marks.get(parameter.kind, "") + parameter.name + optional)
        return f"def {name} ({', '.join(parts)})"
    return name


def methods(name: str, kind: type) -> list[str]:
    """The methods that Castsmith gives the class, less those that only onnx_ir and `optimize` call."""
    found: dict[str, object] = {}
    for base in reversed([base for base in kind.__mro__ if base.__module__.startswith("castsmith")]):
        found |= {key: getattr(thing, "__func__", thing) for key, thing in vars(base).items() if key[0] != "_"}
    functions = {key: thing for key, thing in found.items() if inspect.isfunction(thing)}
    return [described(f"{name}.{key}", functions[key]) for key in sorted(functions.keys() - NOT_CALLED_BY_USERS)]


def public_api() -> str:
    lines: list[str] = []
    for module in (castsmith, castsmith.passes, castsmith.lowering):
        for name in sorted(module.__all__):
            thing, full = getattr(module, name), f"{module.__name__}.{name}"
            lines += [described(full, thing), *(methods(full, thing) if inspect.isclass(thing) else ())]
    return "".join(f"{line}\n" for line in lines)


def read(text: str) -> dict[str, list[str]]:
    """Parameters by name; a parameter that became required is another parameter."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, parameters = line.partition(" (")
        found[name] = parameters.removesuffix(")").split(", ") if parameters else []
    return found


def test_the_public_names_are_those_agreed() -> None:
    assert list(read(public_api())) == list(read(GOLDEN.read_text())), f"if this is meant, {WAY_OUT}"


def test_no_parameter_that_was_agreed_is_gone() -> None:
    now = read(public_api())
    for name, parameters in read(GOLDEN.read_text()).items():
        missing = [parameter for parameter in parameters if parameter not in now[name]]
        assert not missing, f"{name}: {missing}; if this is meant, {WAY_OUT}"


IMPORT = re.compile(r'^ *from (\w+)[\w.]* import |^ *import (\w+)|import_module\(\s*"(\w+)', re.MULTILINE)


def imported() -> set[str]:
    """The top-level modules that library files import, wherever in a file that is."""
    names = {name for text in texts().values() for groups in IMPORT.findall(text) for name in groups if name}
    return names - sys.stdlib_module_names - {"castsmith"}


def required(requirements: list[str]) -> set[str]:
    names = (re.match(r"[\w-]+", requirement) for requirement in requirements)
    return {name[0].lower().replace("_", "-") for name in names if name}


def test_each_dependency_is_declared_and_imported() -> None:
    """An import that is only there because of a dependency's dependency breaks when that one changes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = required(project["dependencies"])
    optional = {name for each in project["optional-dependencies"].values() for name in required(each)}
    homes = {**packages_distributions(), **TOOLS}
    found = {module: {name.lower().replace("_", "-") for name in homes.get(module, [module])} for module in imported()}
    assert {module for module, names in found.items() if not names & (needed | optional)} == set()
    assert needed - {name for names in found.values() for name in names} == set()


def test_the_version_is_said_once_and_is_semantic() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == castsmith.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", castsmith.__version__)


def test_the_package_says_that_it_is_typed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert "py.typed" in settings["castsmith"]
    assert (ROOT / "castsmith" / "py.typed").is_file()


if __name__ == "__main__":
    GOLDEN.write_text(public_api())
