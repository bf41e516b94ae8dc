"""The code blocks of a page of documentation, and running them as a reader would, in the directory that is current.

    python tests/examples/pages.py PAGE ...             # each in an empty directory, with the castsmith on the PATH
    python tests/examples/pages.py --write PAGE ...     # and show what is printed now; to be read before it is kept

- `python`: run in order, in one namespace a page.
- `console`: lines after `$ ` are commands; the other lines are what they print, a line `...` standing for any lines.
- `output`: what the block before it printed.
- `json`, `toml`: data, which must parse.
- a block that is `--8<-- "FILE"` shows a file, which has a test of its own.

Any other block is an error, but for one after `<!-- not run: REASON -->`.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

SNIPPET = re.compile(r'--8<-- "(.+)"\n?')
NOT_RUN = re.compile(r"<!-- not run: (.+) -->\n?")
WIDTH = "100"
WAY_OUT = "If that is meant: python tests/examples/pages.py --write PAGE, and read what it wrote."

Command = Callable[[str], tuple[str, int]]
"""Runs a line of the shell: what it prints, and its exit code."""


@dataclass(frozen=True)
class Block:
    """A block with its place, the file that it shows, if it does, and why it is not run, if it is not."""

    line: int
    language: str
    text: str
    file: str = ""
    not_run: str = ""


class PageError(AssertionError):
    """A block that does not do what the page says."""


def blocks(page: str) -> Iterator[Block]:
    """Every block of code, whether fenced or indented."""
    reason = ""
    for token in MarkdownIt("commonmark").enable("table").parse(page):
        if token.type in ("fence", "code_block") and token.map is not None:
            snippet, said = SNIPPET.fullmatch(token.content), NOT_RUN.fullmatch(reason)
            language = token.info.split()[0] if token.info.strip() else ""
            file = snippet[1] if snippet else ""
            yield Block(token.map[0] + 1, language, token.content, file, said[1] if said else "")
        if token.level == 0:
            reason = token.content if token.type == "html_block" else ""


def run_page(page: str, name: str, command: Command) -> None:
    """Run the blocks in the current directory. Raises PageError for one that prints other than the page shows."""
    for block, text in replay(page, name, command):
        if not same(text, block.text):
            raise PageError(f"{name}:{block.line}: the page shows\n{block.text}\nbut it prints\n{text}\n{WAY_OUT}")


def rewritten(page: str, name: str, command: Command) -> str:
    """The page with what its blocks print."""
    lines = page.splitlines(keepends=True)
    for block, text in reversed([*replay(page, name, command)]):
        if not same(text, block.text):
            lines[block.line : block.line + block.text.count("\n")] = [text]
    return "".join(lines)


def replay(page: str, name: str, command: Command) -> Iterator[tuple[Block, str]]:
    """Run the blocks in the current directory, and give each that shows output with what it should be."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed, last = "", 0
    for block in blocks(page):
        if block.not_run or (block.file and block.language != "output"):
            printed = f'--8<-- "{Path(block.file).with_suffix(".out")}"\n' if block.file else ""
        elif block.language == "python":
            with redirect_stdout(io.StringIO()) as out:
                exec(compile("\n" * block.line + block.text, name, "exec"), names)
            printed = out.getvalue()
        elif block.language == "console" and block.text.startswith("$ "):
            text, last = _console(block.text, command, last)
            yield block, text
        elif block.language == "output":
            yield block, printed
        elif block.language in ("json", "toml"):
            (json if block.language == "json" else tomllib).loads(block.text)
        else:
            raise PageError(f"{name}:{block.line}: a block of {block.language or 'no language'} that nothing runs")


def _console(text: str, command: Command, last: int) -> tuple[str, int]:
    """The block with what its commands print now; what a line `...` stands for stays as it is shown."""
    found: list[str] = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, shown = re.sub(r"\\\n", "\0", part).partition("\n")
        typed, line = line.replace("\0", "\\\n"), line.replace("\0", "")
        out, last = (f"{last}\n", last) if line == "echo $?" else command(line)
        out = "".join(f"{row.rstrip()}\n" for row in out.splitlines())
        found.append(f"$ {typed}\n{shown if same(out, shown) else out}")
    return "".join(found), last


def same(printed: str, shown: str) -> bool:
    """True if this equals the page; spaces at the ends of lines and empty lines at the end are ignored.

    Of a table of measured errors the names are compared, and not the figures, which differ between processors.
    """
    have, want = ([line.rstrip() for line in text.rstrip().splitlines()] for text in (printed, shown))
    return re.fullmatch("".join(_patterns(want)), "".join(f"{line}\n" for line in have)) is not None


def _patterns(shown: list[str]) -> Iterator[str]:
    """The pattern of each line that is shown."""
    margin = -1  # of the title of a table of errors, inside it
    for line in shown:
        indent = len(line) - len(line.lstrip())
        if indent <= margin:
            margin = -1
        if line == "...":
            yield r"(?:.*\n)*"
        elif margin >= 0 and (name := line.split()[0]) != "output":
            yield rf" +{re.escape(name)} .*\n"
        else:
            yield re.sub(r"(?:\\ )+", " +", re.escape(line)) + r"\n" if margin >= 0 else re.escape(line) + r"\n"
        if line.lstrip().startswith("error on ") and line.endswith(":"):
            margin = indent


def shell(line: str) -> tuple[str, int]:
    """Return the output of a command, including errors, and its exit code; `castsmith` is that beside this Python."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    environment = {**os.environ, "COLUMNS": WIDTH, "PATH": path}
    done = subprocess.run(
        ["sh", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environment
    )
    return done.stdout, done.returncode


def in_this_process(line: str) -> tuple[str, int]:
    """A `castsmith` command without the cost of a new process; anything else by the shell."""
    words = line.split()
    if words[0] != "castsmith" or re.search(r"[|<>&;$*`'\"]", line):
        return shell(line)
    from castsmith.cli.main import main

    before, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), WIDTH
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(out):
        code = main(words[1:])
    os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return out.getvalue(), code


def main(words: list[str]) -> int:
    failed = 0
    for page in (Path(word).absolute() for word in words if word != "--write"):
        try:
            if "--write" in words:
                with tempfile.TemporaryDirectory() as empty, chdir(empty):
                    page.write_text(rewritten(page.read_text(), page.name, shell))
            with tempfile.TemporaryDirectory() as empty, chdir(empty):
                run_page(page.read_text(), page.name, shell)
        except PageError as error:
            print(error, file=sys.stderr)
            failed += 1
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
