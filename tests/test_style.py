"""The language of every text: docstrings, comments, messages, help and pages, against a list of forbidden patterns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house import statements

ROOT = Path(__file__).parents[1]

# Findings that each part still has; the numbers only go down.
ALLOWED = {
    "castsmith": 0,
    "cli": 0,
    "conformance": 0,
    "ir": 0,
    "lowering": 0,
    "numerics": 0,
    "passes": 0,
    "docs": 0,
    "tests": 0,
}

# Each pattern with what to write in its place.
QUESTION = re.compile(r"(Whether|What|How|Which|Where|Why|Who|When)\b")
FORBIDDEN = {
    r"(?<![Tt]here )\b(is|are|was|were|be) (no|none)\b(?! (longer|more|less|fewer|later|earlier|larger|smaller|greater"
    r"|wider|better))": "say what it is, or 'is not'",
    r"\bthere (is|are|was|were) none\b": "say what happens",
    r"\bnone (of|is|are|can|does|do|may|has|have|that|other)\b": "'no X', 'not any', or 'without'",
    r"\b([Nn]obody|[Ss]omebody|[Aa]nybody|[Ww]hoever|one's)\b": "name what acts, or use the passive",
    r"\b([Tt]rouble|[Cc]ircles?|[Hh]angs? together|[Bb]eliev\w+|[Ff]orgets?|[Ff]ate|[Ll]ent|[Ll]ends?)\b": "the word"
    " of the field: broken, cycle, malformed, trust, drop, share",
    r"\b(takes? back|lets? go|goes along|goes? round|hands? on|comes? about|the like)\b": "the plain verb",
    r"\b(as|the way) (\w+ ){1,4}(has|have) (it|them)\b": "'as in X', 'as X defines it'",
    r"\b(can tell|cannot tell|as (it|they) likes?|what there (is|was))\b": "say what happens",
    r"\ball else\b|\bnothing else than\b|\bother \w+ than it\b": "'everything else'; give both numbers",
    r"\b(in|on|out of) (the|its|their) way\b": "'intermediate', 'in between', 'obstacle'",
    r"\b(comes|come|came) to\b": "'amounts to', 'is'",
    r"\bno \w+ (that )?(anything|any) knows\b|\bthat nobody\b|\bknown here\b": "unsupported, unknown",
    r"\bways? out\b|\bbecomes? of\b|\bless than nothing\b|\bhands? \w+ to each other\b|\bhardly\b": "the fix; the"
    " result; say what happens",
    r"\b(tells?|knows?) (more|what|which)\b|\bas [\w-]+ asks\b|\bits? \w+ wants\b": "lists, holds, requires: a program"
    " does not know, ask or want",
    r"\bhere and now\b|\bthen and there\b|\bat hand\b|\bmade anew\b|\banew\b": "immediately, given, again",
}
PATTERNS = {re.compile(pattern): advice for pattern, advice in FORBIDDEN.items()}

# Forbidden in pages and messages alone; the change log keeps the words of its releases.
FOR_READERS = {
    r"\bof which\b": "a new sentence, or 'X of the Y'",
    r"\b[Ww]hatever\b": "'for every X', 'any'",
    r"\bknows\b": "supports, infers, holds: a program does not know",
    r"\bas asked\b|\basks for\b": "'as requested', 'requires'",
    r"\bby way of\b": "through",
    r"\b(counted|kept|put) apart\b": "'separately'",
    r"\b(wants|gives way|goes by)\b": "needs; is replaced; uses",
}
PATTERNS_FOR_READERS = {re.compile(pattern): advice for pattern, advice in FOR_READERS.items()}

Text = tuple[int, str, str]  # the line, the kind of text, the text


COMMENT = re.compile(
    r"""#[^\n]*|\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
"""A comment, or a string, which may have its sign inside."""


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.Constant, str]]:
    """Every docstring of modules, classes, functions, attributes and constants."""
    for node in statements(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)) as constant):
                yield constant, text
            case _:
                pass


def comments(source: str) -> Iterator[Text]:
    """The comments of a module."""
    for found in COMMENT.finditer(source):
        if found[0].startswith("#"):
            yield source.count("\n", 0, found.start()) + 1, "comment", found[0]


def texts_of_python(path: Path, *, strings: bool) -> Iterator[Text]:
    """Docstrings, comments and the strings of a module; an interpolated field of a string is `{}`."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    described = dict(docstrings(tree))
    for node, text in described.items():
        yield node.lineno, "docstring", text
    yield from comments(source)
    if strings:
        inside: set[ast.AST] = set(described)
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                inside |= set(ast.walk(node)) - {node}
                yield node.lineno, "string", "".join(str(getattr(part, "value", "{}")) for part in literal(node))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
                yield node.lineno, "string", node.value


def literal(node: ast.JoinedStr) -> Iterator[ast.AST]:
    """The parts of an f-string, with an empty node in place of each field."""
    for part in node.values:
        yield part if isinstance(part, ast.Constant) else ast.Constant("{}")


def texts_of_page(path: Path) -> Iterator[Text]:
    """The prose of a Markdown page, a line at a time: without code."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, "page", line


def files_of(part: str) -> list[Path]:
    if part == "docs":
        return [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"]
    return [path for path in sorted((ROOT / part).rglob("*.py")) if not path.is_symlink()]


def findings(part: str) -> Iterator[str]:
    """Each forbidden pattern in the texts of a part of the project, with its place and what to write instead."""
    for path in files_of(part):
        if path.name == Path(__file__).name:
            continue
        place = path.relative_to(ROOT)
        texts = texts_of_page(path) if path.suffix == ".md" else texts_of_python(path, strings=part != "tests")
        for line, kind, text in texts:
            if kind == "string" and text.count(" ") < 2:
                continue
            flat = re.sub(r"`[^`]*`", "`x`", re.sub(r"\s+", " ", text))
            if kind == "docstring" and (asked := QUESTION.match(flat)):
                yield f"{place}:{line}: docstring starts with {asked[0]!r}: use an imperative or a noun phrase"
            summary = text.strip().partition("\n\n")[0]
            if kind == "docstring" and part != "tests" and ("\n" in summary or not summary.endswith((".", ":", ")"))):
                yield f"{place}:{line}: the first line of the docstring does not stand alone: {summary[:60]!r}"
            read = kind == "string" or (kind == "page" and path.name != "CHANGELOG.md")
            for pattern, advice in (PATTERNS | PATTERNS_FOR_READERS if read else PATTERNS).items():
                for found in pattern.finditer(flat):
                    around = flat[max(0, found.start() - 30) : found.end() + 30]
                    yield f"{place}:{line}: {kind} has {found[0]!r} in {around!r}: {advice}"
            if kind == "string" and part not in ("cli", "tests") and (option := re.search(r"(?<![-\w])--[a-z]", flat)):
                yield f"{place}:{line}: names the option {flat[option.start() :][:20]!r}: name the parameter"
        if path.suffix == ".py":
            for line in docstring_comments(path):
                yield f"{place}:{line}: a docstring as a comment: make it a short comment or part of the docstring"


def docstring_comments(path: Path) -> Iterator[int]:
    """The first lines of comments in paragraphs that start at the margin: docstrings of modules that were merged."""
    block: list[str] = []
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        if line.startswith("#"):
            block.append(line)
        else:
            if "#" in block:
                yield number - len(block)
            block = []


@pytest.mark.parametrize("part", ALLOWED)
@pytest.mark.every_case
def test_texts_are_plain(part: str) -> None:
    found = list(findings(part))
    assert len(found) <= ALLOWED[part], "\n".join(found)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("'x' is no interface", 1),
        ("which is none of its keys", 2),
        ("opset -1: there is none of that number", 2),
        ("believe the models, and forget nobody", 3),
        ("the type is no longer needed; there is no kernel for it", 0),
        ("unknown interface 'x'; expected 'stored' or 'wide'", 0),
        ("check tells what it lacks, and the way out", 2),
        ("the type that its operator wants; what becomes of it, as --io asks", 4),
        ("two types, of which one knows the other, whatever asks for it by way of float: kept apart, as asked", 7),
    ],
)
def test_the_patterns_match_what_they_are_for(text: str, count: int) -> None:
    assert sum(len(pattern.findall(text)) for pattern in PATTERNS | PATTERNS_FOR_READERS) == count


if __name__ == "__main__":
    for name in ALLOWED:
        listed = list(findings(name))
        print(*listed, f"{name}: {len(listed)}", sep="\n")
