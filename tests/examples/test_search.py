"""What people look for is the first page that a search of the site lists."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from math import log
from pathlib import Path
from typing import NamedTuple

from docs import reference

DOCS = Path(__file__).parents[2] / "docs"
TITLE, COMMON, LENGTH = 1000.0, 1.2, 0.75
"""The weight of a title and the parameters of BM25, as in the search of the site (lunr, as Material sets it up)."""

QUERIES = {
    "install": "install.md",
    "offline": "install.md",
    "netron": "howto/changes.md",
    "git diff": "howto/changes.md",
    "narrow": "answers/int64.md",
    "int64": "answers/int64.md",
    "mixed precision": "howto/precision.md",
    "batch": "howto/many.md",
    "fp16 nan": "answers/float16-nan.md",
    "tensorrt 11": "answers/tensorrt-11.md",
    "bfloat16 cpu": "tutorials/bfloat16.md",
    "onnxsim": "comparison.md",
    "quantize int8": "faq.md",
    "bound to different types": "answers/bound-to-different-types.md",
    "pre-commit": "howto/gate.md",
    "ci": "howto/gate.md",
    "core ml": "tutorials/coreml.md",
    "float8 phone": "howto/float8.md",
    "brevitas": "howto/qonnx.md",
    "exit codes": "reference/commands.md",
}


class Section(NamedTuple):
    """What the search finds: a heading with the text below it."""

    page: str
    title: Counter[str]
    text: Counter[str]
    boost: float


def words(text: str) -> Counter[str]:
    """The words of a text, without a plural s."""
    return Counter(re.sub(r"(?<=[a-z]{3})(?:es|s)$", "", word) for word in re.findall(r"[a-z0-9]+", text.lower()))


@cache
def sections() -> list[Section]:
    """Every section of every page, those that are made from the code too."""
    texts = {str(path.relative_to(DOCS)): path.read_text() for path in DOCS.rglob("*.md")}
    texts |= {path: "\n".join(page()) for path, page in reference.pages().items() if path != "howto/notebook.md"}
    found: list[Section] = []
    for page, text in texts.items():
        boost = 0.1 if text.startswith("---\nsearch:") else 1.0
        outside = re.sub(r"```.*?```", lambda block: block[0].replace("\n#", "\n"), text, flags=re.DOTALL)
        for part in re.split(r"^#+ ", outside, flags=re.MULTILINE)[1:]:
            title, _, rest = part.partition("\n")
            found.append(Section(page, words(title), words(rest), boost))
    return found


def pages_for(query: str) -> list[str]:
    """The pages for a query, that with the best section first; sections with all words are before those with some."""
    wanted = words(query)
    scores = [0.0] * len(sections())
    for field, weight in (("title", TITLE), ("text", 1.0)):
        bags: list[Counter[str]] = [getattr(section, field) for section in sections()]
        mean = sum(bag.total() for bag in bags) / len(bags)
        for word in wanted:
            rare = log(1 + len(bags) / (1 + sum(word in bag for bag in bags)))
            for place, bag in enumerate(bags):
                size = 1 - LENGTH + LENGTH * bag.total() / mean
                scores[place] += weight * rare * bag[word] * (COMMON + 1) / (bag[word] + COMMON * size)
    best: dict[str, float] = {}
    for section, score in zip(sections(), scores, strict=True):
        share = sum(word in section.title or word in section.text for word in wanted) / len(wanted)
        best[section.page] = max(best.get(section.page, 0.0), section.boost * score * share**4)
    return sorted((page for page, score in best.items() if score), key=lambda page: -best[page])


def test_what_people_look_for_is_the_first_page() -> None:
    first = {query: pages_for(query)[:3] for query in QUERIES}
    assert {query: pages for query, pages in first.items() if pages[0] != QUERIES[query]} == {}


def test_a_word_that_no_page_has_finds_nothing() -> None:
    assert pages_for("xylophone") == []
