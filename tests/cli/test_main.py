"""The command as a whole: help, version, bad usage, unexpected errors, and what starting it costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx.parser
import pytest

import castsmith as package
from castsmith.cli import exit_codes as outcome
from castsmith.cli.commands import reference
from castsmith.cli.main import _arguments  # pyright: ignore[reportPrivateUsage]
from tests.cli.helpers import CHAIN, CLEAN, MIXED, UNSAFE, Command, is_one_sentence, write_model
from tests.cli.process import CLOSED, STREAMS, has_ended, run_fork

MODELS = Path(__file__).parents[2] / "models"

COMMANDS = ("optimize", "check", "diff", "cast", "dev", "info", "targets", "passes")


def test_version(castsmith: Command) -> None:
    ended = castsmith("--version")
    assert (ended.code, ended.out) == (0, f"castsmith {package.__version__}\n")
    assert castsmith("version") == ended


@pytest.mark.parametrize("words", [("--help",), *((command, "--help") for command in COMMANDS)])
def test_help(castsmith: Command, words: tuple[str, ...]) -> None:
    ended = castsmith(*words)
    assert ended.code == 0
    assert ended.out.startswith("usage: castsmith")
    usage = ended.out.partition("\n\n")[0]
    named = [line.split()[0] for line in ended.out.partition("arguments:\n")[2].partition("\n\n")[0].splitlines()]
    assert all(name in usage for name in named if name.isupper()), "the usage lacks an argument"


@pytest.mark.parametrize(
    "words",
    [
        *[
            ("mend",),
            ("optimize",),
            ("optimize", "x.onnx"),
            ("cast", "1"),
            ("check",),
            ("diff", "a"),
            ("dev", "promote"),
        ],
        *[("check", "a", "--wrong"), ("diff", "a", "b", "--format", "svg"), ("targets", "show"), ("passes", "more")],
        ("optimize", "a", "-o", "b", "--max-growth", "much"),
        ("cast", "1", "--from", "f32", "--to", "i8", "--opset", "x"),
    ],
    ids=" ".join,
)
def test_bad_usage_is_one_line_and_exit_code_2(castsmith: Command, words: tuple[str, ...]) -> None:
    ended = castsmith(*words)
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)
    assert "--help" in ended.err


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("optimize", "--help")], ids=" ".join)
def test_starting_imports_nothing_heavy(words: tuple[str, ...]) -> None:
    code = f"import sys; from castsmith.cli.main import main; main({list(words)!r}); print(sorted(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("numpy", "onnx", "onnx_ir", "ml_dtypes", "rich", "networkx"):
        assert f"'{heavy}'" not in printed


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_functions_for_the_exit_are_called(first: bool) -> None:
    register = "atexit.register(print, 'the end')"
    code = f"import atexit, sys\n{register if first else ''}\nfrom castsmith.cli.entry import main\n"
    code += f"import castsmith.cli.main as inner\ninner.main = lambda: {'' if first else register + ' and '}7\n"
    code += "sys.exit(main())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "the end\n", "")


def test_optimize_imports_only_what_it_needs(tmp_path: Path) -> None:
    words = ["optimize", str(write_model(tmp_path / "a.onnx", CHAIN)), "-o", str(tmp_path / "b.onnx")]
    code = "import sys; from castsmith.cli.main import main; assert not main()\nprint(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", code, *words]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stderr.split())
    elsewhere = ["sympy.core", "networkx", "rich", "onnxscript", "onnxruntime", "numpy.ma", "multiprocessing", "html"]
    unused = ["lowering.float8", "conformance.probing", "verification.run", "verification.diff", "cli.page"]
    unused += ["cli.commands.check"]
    unused += ["lowering.conversion", "passes.precision", "analysis.bounds", "verification.evaluate.evaluator"]
    assert {"castsmith.passes.simplify.run", "onnx.helper"} <= loaded
    assert loaded.isdisjoint([*elsewhere, *(f"castsmith.{name}" for name in unused)])


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (RuntimeError("first\nsecond"), 2, "internal error (RuntimeError: first at test_main.py:"),
        (KeyError("x"), 2, "internal error (KeyError: 'x' at test_main.py:"),
        (RecursionError(), 2, "internal error (RecursionError at test_main.py:"),
        (MemoryError(), 2, "not enough memory"),
        (PermissionError(13, "Permission denied", "there"), 2, "there: Permission denied."),
        (package.PromotionError("No."), 1, "No."),
        (package.ModelError("No \x1b[31mmodel."), 2, "No \\x1b[31mmodel."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_raised_becomes_a_sentence(
    castsmith: Command, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, text: str
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(reference, "run_passes", fail)
    ended = castsmith("passes")
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith(f"castsmith: {text}")
    assert is_one_sentence(ended.err)


def test_interrupted(castsmith: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(reference, "run_passes", interrupt)
    ended = castsmith("passes")
    assert (ended.code, ended.out, ended.err) == (130, "", "")


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    write_model(tmp_path / "a.onnx", MIXED)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = run_fork("check a.onnx --json", tmp_path, streams={"stdout": writing})
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (outcome.BROKEN_PIPE, b"")


def test_names_that_the_encoding_lacks_are_escaped(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(MIXED)
    proto.graph.name = "mélange"
    onnx.save_model(proto, tmp_path / "a.onnx")
    ended = run_fork("check a.onnx", tmp_path, encoding="ascii")
    assert ended.returncode == 1
    assert b"m\\xe9lange" in ended.stdout


def test_the_installed_process_ends_with_the_code_of_main() -> None:
    """Also where it starts without streams, as a service does."""
    for closing, code in (("", 1), (" >&- 2>&- <&-", 2)):
        shell = f"{sys.executable} -m castsmith dev promote i64 f32 --json{closing}"
        ended = subprocess.run(shell, shell=True, capture_output=True, text=True, check=False)
        assert ended.returncode == code
        assert is_one_sentence(ended.stderr) or closing


FULL = "/dev/full"
CLOSINGS: list[dict[str, str]] = [
    *({name: CLOSED} for name in STREAMS),
    *({name: FULL} for name in STREAMS[1:]),
    *(dict.fromkeys(names, way) for names, way in ((STREAMS, CLOSED), (STREAMS[1:], FULL))),
]
COMMANDS_THAT_PRINT = (
    *("passes --json", "check A", "optimize A -o B", "optimize A -o B --json", "optimize A -o -"),
    "cast x --from f --to i8 --json",
)


@pytest.mark.skipif(not Path(FULL).exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", COMMANDS_THAT_PRINT)
def test_streams_that_are_closed_or_full_give_no_traceback(
    castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """What is lost on standard output is an error, but for a summary of a file that is written."""
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "A", MIXED)
    code = run_fork(words, tmp_path).returncode if words.endswith("-o -") else castsmith(*words.split()).code
    for streams in CLOSINGS:
        (tmp_path / "B").unlink(missing_ok=True)
        ended = run_fork(words, tmp_path, streams=streams)
        said = ended.stderr.decode()
        assert "Traceback" not in said
        assert (tmp_path / "B").exists() == ("-o B" in words)
        if "stdout" not in streams:
            unsaid = words.endswith("-o -") and streams == {"stderr": FULL}  # its summary goes there
            assert ended.returncode == (2 if unsaid else code)
            continue
        assert ended.returncode == (0 if words.endswith("-o B") else 2)
        assert is_one_sentence(said) or "stderr" in streams
        assert ("B is written, but standard output" in said) == ("-o B" in words and "stderr" not in streams)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to one process")
def test_an_interrupt_while_modules_are_imported_gives_no_traceback(tmp_path: Path) -> None:
    model = write_model(tmp_path / "a.onnx", MIXED)
    for module in ("argparse", "numpy", "onnx", "onnx_ir"):
        # Interrupt the process itself when it imports the module.
        code = (
            "import builtins, os, signal, sys; real = builtins.__import__\n"
            "def fake(name, *others):\n"
            f"    if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
            "    return real(name, *others)\n"
            "builtins.__import__ = fake; import castsmith.cli.entry as entry; sys.modules.pop('argparse', None)\n"
            "sys.exit(entry.main())"
        )
        command = [sys.executable, "-c", code, "optimize", str(model), "-o", str(tmp_path / "b.onnx")]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=_heed_signals)
        assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", ""), module
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.onnx"]


def _heed_signals() -> None:
    """Let a process end at an interrupt even if the tests themselves run in the background, where it is ignored."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _sent(number: signal.Signals, ready: Callable[[], bool]) -> Callable[[int], None]:
    """Return what sends the signal to a process once it is `ready`."""

    def send(process: int) -> None:
        while not ready() and not has_ended(process):
            time.sleep(0.005)
        os.kill(process, number)

    return send


def _wait(*_names: object) -> None:
    """Wait in short steps: a signal just before a system call does not interrupt the call."""
    for _ in range(90000):
        time.sleep(0.01)


SIGNALS = {signal.SIGTERM: (143, -15), signal.SIGINT: (130,)}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_a_model_is_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The command waits before the file that it wrote gets its name."""
    write_model(tmp_path / "a.onnx", MIXED)
    monkeypatch.setattr("castsmith.ir.io.saving.replace", _wait)
    sent = _sent(number, lambda: any(path.stat().st_size for path in tmp_path.glob(".b.onnx*")))
    ended = run_fork("optimize a.onnx -o b.onnx", tmp_path, meanwhile=sent)
    assert ended.returncode in SIGNALS[number], ended
    assert (ended.stdout, ended.stderr) == (b"", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["a.onnx"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_the_processes_of_a_batch_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    for name in "abc":
        write_model(tmp_path / f"{name}.onnx", MIXED)
    slow = tmp_path / "slow.py"
    slow.write_text(
        f"import os, time; open({str(tmp_path)!r} + f'/started.{{os.getpid()}}', 'w').close(); time.sleep(900)"
    )
    monkeypatch.setattr("castsmith.cli.batch.pool.WORKER", slow)
    sent = _sent(number, lambda: any(tmp_path.glob("started.*")))
    ended = run_fork("optimize --jobs 2 a.onnx b.onnx c.onnx -o out", tmp_path, meanwhile=sent)
    assert ended.returncode in SIGNALS[number], ended
    assert ended.stderr == b""
    for path in tmp_path.glob("started.*"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.suffix[1:]), 0)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("chekc", "a.onnx"), "unknown command 'chekc'; did you mean 'check'?"),
        (("x", "a.onnx"), "unknown command 'x'; see castsmith --help."),
        (("targets", "qonnx"), "unknown command 'qonnx'; try castsmith targets show qonnx."),
        (("check", "a.onnx", "--targt", "iree"), "unknown option --targt; did you mean --target?"),
        (("targets", "show", "x", "--jsno"), "unknown option --jsno; did you mean --json?"),
        (
            ("optimize", "a.onnx", "--xyzzy=1"),
            "unknown option --xyzzy; see castsmith optimize --help-all.",
        ),
        (("repair", "a.onnx"), "unknown command 'repair'; castsmith optimize --repair-only does that."),
        (("convert", "a.onnx", "--fp16"), "unknown option --fp16; did you mean --to float16?"),
        (("convert", "a.onnx", "--op_block_list=Relu"), "unknown option --op_block_list; did you mean --keep?"),
        (("check", "a.onnx", "-t", "iree"), "unknown option -t; did you mean --target?"),
        (("fit", "a.onnx", "-x", "--target=iree"), "unknown option -x (see castsmith fit --help)."),
        (("convert", "a.onnx"), "--to is missing: float16, bfloat16 or float (see castsmith convert --help)."),
        (("optimize", "a.onnx", "b.onnx"), "-o OUT is missing: castsmith optimize a.onnx -o b.onnx."),
        (
            ("optimize", "a.onnx", "b"),
            "-o OUT is missing: name the file to write, or give --dry-run (see castsmith optimize --help).",
        ),
        (("show", "a.onnx", "b.onnx"), "unexpected argument: b.onnx (see castsmith show --help)."),
        (("show", "--", "--jsno"), "--jsno: no such file."),
        (("show", "a=--"), "a=--: no such file."),
        (("show", "--jsno=--"), "argument --jsno: expected a value (see castsmith --help)."),
        (
            ("optimize", "a.onnx", "-o", "b.onnx", "--output", "c.onnx"),
            "--output is given twice, with two values; pass it once (see castsmith optimize --help).",
        ),
        (
            ("check", "a.onnx", "--target", "qonnx", "--target=iree"),
            "--target is given twice, with two values; pass it once (see castsmith check --help).",
        ),
        (("explain", "fold-constnt"), "unknown code 'fold-constnt'; did you mean 'fold-constant'?"),
        (("check", "a.onnx", "--select", "xyzzy"), "'xyzzy' of a finding; `castsmith explain` lists them."),
        (("dev", "promote", "i8", "--promotion", "trch"), "unknown promotion preset 'trch'; did you mean 'torch'?"),
    ],
    ids=str,
)
def test_an_unknown_name_is_answered_by_the_most_similar(castsmith: Command, words: tuple[str, ...], text: str) -> None:
    ended = castsmith(*words)
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)
    assert ended.err.endswith(f"{text}\n")


@pytest.mark.parametrize("words", ["a -q b -- c", "-q -- a b c", "-q a b c", "-q -- --jsno -b -", "-- a -b"])
def test_files_after_two_hyphens(words: str) -> None:
    """Each is a file, with whatever it begins."""
    arguments = _arguments(["check", *words.split()])
    after = words.partition("-- ")[2] or "a b c"
    assert arguments.input == (after.split() if words.startswith("-") else ["a", "b", "c"])


OF_OTHER_TOOLS = {
    "compare": "castsmith diff or verify does that.",
    "inspect": "castsmith info does that.",
    "lint": "castsmith check does that.",
    "repair": "castsmith optimize --repair-only does that.",
    "rule": "castsmith explain does that.",
    "run": "castsmith verify does that.",
    "simplify": "castsmith optimize does that.",
    "slim": "castsmith optimize does that.",
    "convert --fp16": "did you mean --to float16?",
    "convert --half": "did you mean --to float16?",
    "convert --bf16": "did you mean --to bfloat16?",
    "convert --dtype=float16": "did you mean --to?",
    "convert --precision=fp16": "did you mean --to?",
    "convert --keep-io-types": "did you mean --io keep?",
    "convert --op-block-list=Relu": "did you mean --keep?",
    "convert --input-shape=x:1": "did you mean --shape?",
    "check --fix": "did you mean castsmith optimize?",
    "optimize --check-n=3": "did you mean --verify?",
}
"""Commands and options of onnxsim, onnxslim, Polygraphy, onnxconverter-common and linters, and what is said of them."""


@pytest.mark.parametrize("words", OF_OTHER_TOOLS)
def test_names_of_other_tools_lead_to_ours(castsmith: Command, words: str) -> None:
    command, *options = words.split()
    ended = castsmith(command, "a.onnx", *options)
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)
    assert ended.err.endswith(f" {OF_OTHER_TOOLS[words]}\n")


PLUGIN = """<ir_version: 10, opset_import: ["" : 18, "com.microsoft" : 1]>
plugin (float[3, 3] x) => (float[3, 3] z) {
    y = Relu (x)
    z = com.microsoft.Inverse (y)
}"""


@pytest.mark.usefixtures("one_process")
def test_quiet_prints_errors_alone(castsmith: Command, tmp_path: Path) -> None:
    a, b = write_model(tmp_path / "a.onnx", MIXED), write_model(tmp_path / "b.onnx", CLEAN)
    out = tmp_path / "out.onnx"
    for words, code in (
        *((("optimize", a, "-o", out), 0), (("convert", b, "-o", out, "--to", "float16"), 0), (("check", a), 1)),
        *((("diff", a, b), 1), (("verify", b, b, "--sets", "1"), 0), (("optimize", a, b, "-o", tmp_path / "o"), 0)),
    ):
        loud, quiet = castsmith(*words), castsmith(*words, "-q")
        assert loud.out
        assert (loud.code, quiet.code, quiet.out, quiet.err) == (code, code, "", "")
    plugin = [write_model(tmp_path / f"{name}.onnx", PLUGIN) for name in ("one", "two")]
    warned = ("convert", plugin[0], "-o", out, "--to=half", "--target=tensorrt", "--lower=*")
    assert [text in castsmith(*warned).err for text in ("is now --force", "tensorrt-11.", "a plugin")] == [True] * 3
    several = ("convert", *plugin, *warned[4:])
    assert "a plugin" in castsmith(*several, "-o", tmp_path / "many").err
    for words in (warned, (*several, "-o", tmp_path / "many")):
        ended = castsmith(*words, "-q")
        assert (ended.out, ended.err) == ("", "")
    ended = castsmith("optimize", tmp_path / "none", "-o", out, "-q")
    assert (ended.code, is_one_sentence(ended.err)) == (2, True)
    assert castsmith("optimize", a, "-o", out, "-q", "--diff").out.count("(Add)") == 1
    assert '"rewrites"' in castsmith("optimize", a, "-o", out, "-q", "--json").out


@pytest.mark.usefixtures("one_process")
def test_a_dry_run_writes_nothing(castsmith: Command, tmp_path: Path) -> None:
    a, b = write_model(tmp_path / "a.onnx", MIXED), write_model(tmp_path / "b.onnx", CLEAN)
    before = sorted((path, path.read_bytes()) for path in tmp_path.rglob("*"))
    one = ("optimize", a, "-o", tmp_path / "folder" / "c.onnx", "--dry-run")
    for words, said in {
        one: "c.onnx (--dry-run: nothing is written)",
        (*one, "--verify", "--sets=1")[:-1]: "verified: equal",
        (*one, "--json"): '"output": null',
        ("convert", b, "-o", b, "--to", "float16", "--dry-run"): "nothing is written",
        ("optimize", a, "-o", f"{tmp_path}/new/", "--dry-run"): "new/a.onnx (--dry-run",
        ("optimize", a, b, "-o", tmp_path / "new", "--dry-run", "--skip-unchanged"): "2 models: 2 would be written",
        ("optimize", a, b, "-o", tmp_path / "new", "--dry-run"): "2 models: 2 would be written",
    }.items():
        ended = castsmith(*words)
        assert (ended.code, ended.err) == (0, "")
        assert said in ended.out
        assert sorted((path, path.read_bytes()) for path in tmp_path.rglob("*")) == before
    assert castsmith("optimize", a, "-o", tmp_path, "--dry-run").code == 2
    refused = castsmith(*one, "--report", tmp_path / "r.html")
    assert (refused.code, is_one_sentence(refused.err)) == (2, True)
    partly = castsmith("optimize", a, write_model(tmp_path / "c.onnx", UNSAFE), "-o", tmp_path / "new", "--dry-run")
    assert (partly.code, "2 models: 1 would be written, 1 failed" in partly.out) == (1, True)


def test_no_colours_and_the_version(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert castsmith("-V").out == castsmith("--version").out
    a, b = write_model(tmp_path / "a.onnx", MIXED), write_model(tmp_path / "b.onnx", CLEAN)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    red = "\x1b[31m"
    assert red in castsmith("diff", a, b).out
    assert red not in castsmith("diff", a, b, "--no-color").out
    assert red in castsmith("diff", a, b).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert red not in castsmith("diff", a, b).out
    assert "\x1b" not in castsmith("--help").out
    for before in ("1", None):
        if before is None:
            monkeypatch.delenv("NO_COLOR")
        assert castsmith("diff", a, b, "--no-color").code == 1
        assert os.environ.get("NO_COLOR") == before
