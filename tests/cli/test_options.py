"""Every option of every command with values and beside others that it does not take: a sentence, and no output file."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
import pytest

from castsmith.cli.consistency import EXCLUDES, NEEDS, Pair
from castsmith.passes.core.options import flag_of
from tests.cli.helpers import CLEAN, Command, is_one_sentence, parsers, write_model
from tests.sampling import sampled

pytestmark = pytest.mark.usefixtures("engines_here")

T = TypeVar("T")
ALWAYS = {
    "optimize": ["in.onnx", "-o", "out.onnx"],
    "convert": ["in.onnx", "-o", "out.onnx", "--to", "float16"],
    "fit": ["in.onnx", "-o", "out.onnx", "--target", "onnxruntime-cpu"],
    "check": ["in.onnx"],
    "diff": ["in.onnx", "in.onnx"],
    "verify": ["in.onnx", "in.onnx", "--sets=1"],
    "bounds": ["in.onnx"],
    "cast": ["1", "--from", "f32", "--to", "i8"],
    "dev trunc": ["1", "--in-bitwidth", "8", "--out-bitwidth", "4"],
    "dev promote": ["f32", "f32"],
}
FILES = {
    "deep.json": b"[" * 200_000,
    "deep_object.json": b'{"name":' * 100_000,
    "not_utf8.json": b"\xff\xfe{",
    "empty.json": b"",
    "list.json": b"[]",
    "null.json": b"null",
    "digits.json": b'{"name": ' + b"9" * 10_000 + b"}",
    "infinite.json": b'{"name":"x","description":"d","newest_opset":1e999,"newest_ir_version":9}',
}
ODD = [
    *["", " ", "-1", "1.5", "1e3", "1_0", "9" * 5000, "nan", "True", "--"],
    *["\u00b2", "\u0663", "\u00e9", "\ud800", "a\0b"],
    *["N=\u00b2", "N=", "=4", "N=-1", "N=" + "9" * 30, "fold-constants{", "fold-constants{max_growth=\u00b2}"],
    *["/dev/null", "/dev/full", "folder", "folder.json", "missing.json", "loop.json", "pipe", "pipe.json"],
    *FILES,
]


def options(command: str) -> list[str]:
    found = _actions(parsers()[command])
    named = [action.option_strings[-1] for action in found if action.option_strings and action.nargs != 0]
    return [name for name in named if name != "--dask"]


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return parser._actions  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "in.onnx", CLEAN)
    (tmp_path / "settings.toml").write_text("")
    (tmp_path / "baseline.json").write_text('{"findings": []}')
    np.savez(tmp_path / "in.npz", x=np.ones(3, np.float32))
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    for name in ("folder", "folder.json"):
        (tmp_path / name).mkdir()
    (tmp_path / "loop.json").symlink_to("loop.json")
    for name in ("pipe", "pipe.json"):
        os.mkfifo(tmp_path / name)
    return tmp_path


def require_a_sentence(folder: Path, ended: Any, words: list[str]) -> None:
    assert ended.code in (0, 1, 2), words
    assert "internal error" not in ended.err, words
    assert "Traceback" not in ended.err, words
    if ended.code == 2:
        assert is_one_sentence(ended.err), words
        assert not (folder / "out.onnx").exists(), words
    (folder / "out.onnx").unlink(missing_ok=True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("command", ALWAYS)
def test_an_odd_value_of_an_option_is_refused_in_a_sentence(castsmith: Command, folder: Path, command: str) -> None:
    for option in options(command):
        for value in sampled(f"odd values of options [{command} {option}]", ODD, 8):
            words = [*command.split(), *ALWAYS[command], f"{option}={value}"]
            require_a_sentence(folder, castsmith(*words), words)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_an_odd_file_is_refused_in_a_sentence(castsmith: Command, folder: Path) -> None:
    for value in ODD:
        for words in (["check", value], ["optimize", value, "-o", "out.onnx"], ["verify", "in.onnx", value]):
            ended = castsmith(*words)
            assert ended.code == 2, words
            require_a_sentence(folder, ended, words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["verify", "in.onnx", "in.onnx", "--seed", "-1"], "--seed: must be at least 0"),
        (["verify", "in.onnx", "in.onnx", "--dim", "N=\u00b2"], "not of the form NAME=SIZE"),
        (["verify", "in.onnx", "in.onnx", "--inputs", "/dev/null"], "not an ordinary file"),
        (["verify", "in.onnx", "in.onnx", "--sets", "0"], "--sets: must be at least 1"),
        (["optimize", "in.onnx", "-o", "out.onnx", "--target", "deep.json"], "nested too deep"),
        (["optimize", "in.onnx", "-o", "out.onnx", "--promotion", "deep_object.json"], "nested too deep"),
        (["optimize", "in.onnx", "-o", "out.onnx", "--shard-bytes", "0"], "must be at least 1"),
        (["optimize", "in.onnx", "-o", "out.onnx", "-j", "0"], "must be at least 1"),
        (["check", "in.onnx", "--select=--"], "--select: expected a value"),
        (["check", "pipe"], "not an ordinary file"),
    ],
)
def test_what_is_wrong_is_named(castsmith: Command, folder: Path, words: list[str], said: str) -> None:
    ended = castsmith(*words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    require_a_sentence(folder, ended, words)


LEAST = {
    **dict.fromkeys(("jobs", "sets", "shard_bytes", "memory", "opset", "in_bitwidth", "out_bitwidth"), 1),
    **dict.fromkeys(("seed", "scalar", "max_growth", "max_total_growth", "largest_dim"), 0),
}
"""The least number that an option takes."""


def test_the_least_number_of_an_option() -> None:
    actions = [action for parser in parsers().values() for action in _actions(parser)]
    found = [(action.dest, action.type) for action in actions if "integer." in getattr(action.type, "__qualname__", "")]
    assert {name for name, _ in found} == LEAST.keys()
    for name, read in found:
        assert callable(read)
        assert read(str(LEAST[name])) == LEAST[name]
        with pytest.raises(argparse.ArgumentTypeError, match=f"at least {LEAST[name]}"):
            read(str(LEAST[name] - 1))


def test_the_largest_number_of_an_option(castsmith: Command, folder: Path) -> None:
    command = ["verify", folder / "in.onnx", folder / "in.onnx", "--sets=1", "--seed"]
    assert castsmith(*command, f"{2**63 - 1}").code == 0
    too_large = castsmith(*command, f"{2**63}")
    assert (too_large.code, f"'{2**63}' is not an integer" in too_large.err) == (2, True)


REQUIRED = {
    **{command: {"input"} for command in ("optimize", "check", "bounds", "info", "show")},
    "convert": {"input", "to"},
    "fit": {"input", "target"},
    "diff": {"a"},
    "verify": {"a", "b"},
    "certificate": {"a", "b", "certificate"},
    "cast": {"values", "to"},
    "completion": {"shell"},
    "explain": {"codes"},
    "dev trunc": {"values", "in_bitwidth", "out_bitwidth"},
    "dev promote": {"types"},
}


def test_what_each_command_must_have() -> None:
    found = {name: {each.dest for each in _actions(parser) if each.required} for name, parser in parsers().items()}
    assert {name: required for name, required in found.items() if required} == REQUIRED


@pytest.mark.parametrize("name", ["double", "f64", "float64", "11"])
def test_options_take_every_name_of_a_type(castsmith: Command, folder: Path, name: str) -> None:
    narrow = ["optimize", folder / "in.onnx", "-o", "out.onnx", "--narrow", name]
    assert castsmith(*narrow).code == 0
    assert castsmith("dev", "promote", name, name).out == "double\n"
    assert castsmith("cast", "1", "--from", name, "--to", name).code == 0
    target = ["--promote-unsafe", "--u64-integer-promotion-target", name]
    assert castsmith("dev", "promote", "u64", "i8", *target).out == "double\n"


# Options that mean nothing: at a nonsense value, beside one that they contradict, without one that they need. The
# options are those of the parser: a new one has to be refused at a nonsense value, or be listed here.

NONSENSE = ("", "-5", "nosuch", "Q=4", "x.pdf")
"""Empty, a negative number, a name of nothing, a dimension that no input has, and a file of another kind."""

ANY_VALUE = {
    "optimize --output": "any name is a file; an ending says nothing",
    "convert --output": "any name is a file; an ending says nothing",
    "optimize --external-data": "any name is a file",
    "convert --external-data": "any name is a file",
    "optimize --certificate": "any name is a file; an ending says nothing",
    "fit --output": "any name is a file; an ending says nothing",
    "fit --external-data": "any name is a file",
    "dev trunc --scale": "any number is computed with, as the standard would",
    "dev trunc --zero-point": "any number is computed with, as the standard would",
    "dev trunc --out-scale": "any number is computed with, as the standard would",
}
"""Options that take a value which looks like nonsense, with the reason; an empty one is refused for them too."""

ELSEWHERE = {"--dask": "an address is refused where no scheduler answers, after half a minute"}
VALUES = {
    "report": "r.json",
    "certificate": "c.json",
    "engine": "reference",
    "inputs": "in.npz",
    "dim": "N=2",
    "u64_integer_promotion_target": "float",
    "interface": "wide",
    "storage": "byte",
    "vendor": "com.microsoft",
    "narrow": "int64",
    "scalar": "0",
    "promotion": "torch",
    "target": "onnxruntime-cpu",
    "max_error": "0.1",
    "range": "x=0:1",
    "jobs": "2",
    "dask": "tcp://x:1",
    "sets": "2",
    "seed": "2",
    "out_scale": "2",
    "passes": "place-casts",
    "until": "place-casts",
    "fail_on": "error",
    "config": "settings.toml",
    "baseline": "baseline.json",
}
"""A value of each option that takes one and stands in a table."""


def with_values(parser: argparse.ArgumentParser) -> list[str]:
    return [each.option_strings[-1] for each in _actions(parser) if each.option_strings and each.nargs != 0]


def require_refused(castsmith: Command, folder: Path, words: list[str]) -> str:
    """Run the words, and return the sentence of the error; nothing is left in the folder."""
    before = set(os.listdir(folder))
    ended = castsmith(*words)
    assert (ended.code, set(os.listdir(folder)) - before) == (2, set()), words
    assert is_one_sentence(ended.err), words
    return ended.err


@pytest.mark.parametrize("command", ALWAYS)
def test_an_option_refuses_nonsense_or_is_listed_with_the_reason(
    castsmith: Command, folder: Path, command: str
) -> None:
    for option in with_values(parsers()[command]):
        if option in ELSEWHERE:
            continue
        for value in ("",) if f"{command} {option}" in ANY_VALUE else NONSENSE:
            require_refused(castsmith, folder, [*command.split(), *ALWAYS[command], f"{option}={value}"])


def test_every_command_with_such_options_is_among_them() -> None:
    assert {name for name, parser in parsers().items() if with_values(parser)} == set(ALWAYS)


def given(command: str, name: str) -> str:
    return f"{flag_of(name)}={VALUES[name]}" if flag_of(name) in with_values(parsers()[command]) else flag_of(name)


def needs(command: str) -> dict[str, str]:
    """Return the options of the command that need another, each with one that it needs."""
    names = [action.dest for action in _actions(parsers()[command])]
    rows = {name: NEEDS.get(f"{command.split()[-1]} {name}") or NEEDS.get(name) for name in names}
    return {name: row[0][0] for name, row in rows.items() if row is not None}


NEEDED = {
    "optimize engine": "verify", "optimize inputs": "verify", "optimize dim": "verify", "optimize range": "narrow",
    "convert dim": "measure max_error", "fit dim": "max_error plan", "fit inputs": "max_error plan",
    "trunc unsigned": "out_scale", "trunc narrow": "out_scale", "strict_device": "target", "interface": "target",
    "storage": "target", "emit_functions": "target", "vendor": "target", "narrow_interface": "narrow",
    "u64_integer_promotion_target": "promote_unsafe promotion", "scalar": "pytorch_scalar_promotion promotion",
    "write_baseline": "baseline",
}  # fmt: skip
EXCLUDING = """config no_config, quiet verbose, repair_only passes, repair_only until, repair_only target,
    exact max_error, diff json, explain json, full json, all json, jobs dask, dry_run report, dry_run certificate,
    fail_on exit_zero, dim inputs, measure inputs, sets inputs, seed inputs"""


def test_which_options_need_or_exclude_others() -> None:
    assert {name: " ".join(needed) for name, (needed, _) in NEEDS.items()} == NEEDED
    assert [f"{pair.one} {pair.other}" for pair in EXCLUDES] == [" ".join(e.split()) for e in EXCLUDING.split(",")]
    assert {pair.one: pair.commands for pair in EXCLUDES if pair.commands} == {"all": ("check", "bounds")}


@pytest.mark.usefixtures("one_process")
def test_an_option_that_needs_another_is_refused_without_it(castsmith: Command, folder: Path) -> None:
    checked = set[str]()
    for command in parsers():
        for name, needed in needs(command).items():
            said = require_refused(castsmith, folder, [*command.split(), *ALWAYS[command], given(command, name)])
            assert said.startswith(f"castsmith: {flag_of(name)} needs {flag_of(needed)}"), command
            ended = castsmith(*command.split(), *ALWAYS[command], given(command, name), given(command, needed))
            assert " needs " not in ended.err, (command, name)
            checked |= {name, f"{command.split()[-1]} {name}"}
    assert checked >= {*NEEDS}


def test_options_that_exclude_each_other_are_refused_together(castsmith: Command, folder: Path) -> None:
    checked = set[Pair]()
    for command, parser in parsers().items():
        names = {action.dest for action in _actions(parser)}
        for pair in EXCLUDES:
            if not {pair.one, pair.other} <= names or (pair.commands and command not in pair.commands):
                continue
            words = [word for word in ALWAYS[command] if not word.startswith("--sets")]
            needed = {given(command, other) for name, other in needs(command).items() if name in pair[:2]}
            said = require_refused(
                castsmith,
                folder,
                [*command.split(), *words, *needed, given(command, pair.one), given(command, pair.other)],
            )
            assert said.startswith(f"castsmith: {flag_of(pair.one)} and {flag_of(pair.other)} exclude each other"), pair
            checked.add(pair)
    assert checked == {*EXCLUDES}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "in.onnx", "--json", "--format", "sarif"], "--json and --format sarif exclude each other"),
        (["diff", "in.onnx", "in.onnx", "--json", "--format", "html"], "--json and --format html exclude each other"),
        (["diff", "in.onnx", "in.onnx", "--full", "--format", "html"], "--full and --format html exclude each other"),
        (["optimize", "in.onnx", "in.onnx"], "-o OUT is missing: name the file to write, or give --dry-run"),
        (["optimize", "in.onnx", "-o", "o.onnx", "-qv"], "--quiet and --verbose exclude each other"),
        (["optimize", "in.onnx", "-o", "o.onnx", "-vj2", "--dask=a:1"], "--jobs and --dask exclude each other"),
        (["check", "in.onnx", "--select=mixed-operand-types", "--ignore=mixed-operand-types"], "both name mixed-op"),
        (["convert", "in.onnx", "-o", "o.onnx", "--to=f16", "--keep=Relu", "--force=Relu"], "both name Relu"),
        (["verify", "in.onnx", "in.onnx", "--dim", "Q=4"], "--dim Q: unknown dimension; expected N"),
        (["optimize", "in.onnx", "-o", "o.onnx", "--verify", "--dim", "Q=4"], "--dim Q: unknown dimension"),
        (["convert", "in.onnx", "-o", "o.onnx", "--to=f16", "--measure", "--dim", "Q=4"], "--dim Q: unknown dim"),
        (
            ["verify", "in.onnx", "in.onnx", "--allow-type-change", "q"],
            "--allow-type-change q: unknown input or output; expected x, z",
        ),
        (["cast", "1", "--from", "f32", "--to", "f16", "--round-mode", "up"], "--round-mode is for casts to float8e8"),
        (["cast", "1", "--from", "f32", "--to", "f16", "--no-saturate"], "--no-saturate is for casts to float8"),
    ],
)
def test_what_contradicts_itself_is_named(castsmith: Command, folder: Path, words: list[str], said: str) -> None:
    assert said in require_refused(castsmith, folder, words)


@pytest.mark.usefixtures("one_process")
def test_of_many_models_each_has_some_of_the_dimensions(castsmith: Command, folder: Path) -> None:
    other = onnx.parser.parse_model(CLEAN.replace("[N]", "[M]"))
    (folder / "two").mkdir()
    onnx.save(other, folder / "two" / "b.onnx")
    write_model(folder / "two" / "a.onnx", CLEAN)
    assert castsmith("verify", "two", "two", "--sets=1", "--dim", "N=2", "--dim", "M=3").code == 0


@pytest.mark.usefixtures("one_process")
def test_options_may_stand_between_files(castsmith: Command, folder: Path) -> None:
    write_model(folder / "b.onnx", CLEAN)
    between = castsmith("optimize", "in.onnx", "--target", "onnxruntime-cpu", "b.onnx", "-o", "out/", "--json")
    assert (between.code, between.err) == (0, "")
    assert sorted(os.listdir("out")) == ["b.onnx", "in.onnx"]
    assert castsmith("verify", "in.onnx", "--sets=1", "b.onnx").code == 0
    assert castsmith("diff", "--json", "in.onnx", "--all", "b.onnx").code == 0
    assert castsmith("check", "in.onnx", "--ignore", "lossy-cast-chain", "--", "b.onnx").code == 0


@pytest.mark.usefixtures("one_process")
def test_a_dry_run_needs_no_output(castsmith: Command, folder: Path) -> None:
    write_model(folder / "b.onnx", CLEAN)
    before = sorted(os.listdir(folder))
    for words in (["optimize", "in.onnx"], ["convert", "in.onnx", "--to", "fp16"], ["optimize", "in.onnx", "b.onnx"]):
        ended = castsmith(*words, "--dry-run")
        assert (ended.code, ended.err) == (0, "")
        assert "dry-run.onnx" not in ended.out
        missing = castsmith(*words)
        assert (missing.code, is_one_sentence(missing.err), "-o OUT is missing" in missing.err) == (2, True, True)
    assert sorted(os.listdir(folder)) == before


def test_repair_only_repairs_and_does_nothing_else(castsmith: Command, folder: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (float[N] x, int16[N] y) => (float[N] z, float[N] i) {
        a = Cast <to = 11> (x) b = Cast <to = 1> (a) z = Add (b, y) n = Shape (x) r = Reshape (x, n) i = Relu (r) }"""
    write_model(folder / "m.onnx", text)
    assert castsmith("optimize", "m.onnx", "-o", "r.onnx", "--repair-only").code == 0
    kinds = [node.op_type for node in onnx.load("r.onnx").graph.node]
    assert kinds == ["Cast", "Cast", "Cast", "Add", "Shape", "Reshape", "Relu"]
    onnx.checker.check_model("r.onnx", full_check=True)


@pytest.mark.usefixtures("folder")
def test_verbose_prints_each_step_on_stderr(castsmith: Command) -> None:
    ended = castsmith("optimize", "in.onnx", "-o", "out.onnx", "-v")
    steps = [line.split()[-1] for line in ended.err.splitlines()]
    assert steps[0] == "in.onnx"
    assert {"fold-constants", "place-casts", "out.onnx"} <= {*steps}
    assert all(line.startswith("castsmith: ") and " s  " in line for line in ended.err.splitlines())


def test_help_in_every_way_that_people_ask_for_it(castsmith: Command) -> None:
    for words in (["help"], ["--help"], ["-h"], []):
        ended = castsmith(*words)
        assert (ended.code, ended.err, ended.out) == (0, "", castsmith("--help").out)
    for command in parsers():
        ended = castsmith("help", *command.split())
        assert (ended.code, ended.out) == (0, castsmith(*command.split(), "--help").out)
    assert castsmith("dev").out == castsmith("dev", "--help").out
    assert castsmith("help", "mend").code == 2


def test_the_type_of_values_to_cast_is_that_of_python(castsmith: Command) -> None:
    assert castsmith("cast", "0.1", "--to", "f16").out == castsmith("cast", "0.1", "--from", "f64", "--to", "f16").out
    assert castsmith("cast", "-7", "300", "--to", "u8").out == (
        castsmith("cast", "-7", "300", "--from", "i64", "--to", "u8").out
    )
    refused = castsmith("cast", "0x3c00", "--to", "f16")
    assert (refused.code, is_one_sentence(refused.err), "--from" in refused.err) == (2, True, True)


SHOWN = (
    "--diff --dry-run --explain --help --help-all --inputs --json --output --quiet --range --report --target --verbose"
)
SHOWN_BY = {
    "optimize": "--narrow --promote-unsafe --repair-only --verify",
    "convert": "--force --io --keep --max-error --measure --rescale --to --weights-only",
    "fit": "--exact --max-error --plan",
}


@pytest.mark.parametrize("command", SHOWN_BY)
def test_the_help_of_what_writes_models_shows_these_options(command: str) -> None:
    """All others are shown by --help-all."""
    shown = re.findall(r"^  (?:-\w[^-]*)?(--[a-z-]+)", parsers()[command].format_help(), re.MULTILINE)
    assert sorted(shown) == sorted(f"{SHOWN} {SHOWN_BY[command]}".split())
