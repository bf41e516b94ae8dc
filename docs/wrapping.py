"""Code blocks that wrap between words: browsers also break a line behind a hyphen, as in `--target`."""

from __future__ import annotations

import re

LONGEST = 40
"""The longest word that stays in one piece, in characters; on a phone a longer one does not fit on a line."""

_BLOCK = re.compile(r"<pre>.*?</pre>", re.DOTALL)
_TEXT = re.compile(r"(?<=>)[^<]+(?=<)")
_WORD = re.compile(r"[^\s<]*-[^\s<]*")


def keep_words(html: str) -> str:
    """Return the page with each word with a hyphen, in a code block, in an element of the class "word"."""
    return _BLOCK.sub(lambda block: _TEXT.sub(lambda text: _WORD.sub(_kept, text[0]), block[0]), html)


def _kept(word: re.Match[str]) -> str:
    return f'<span class="word">{word[0]}</span>' if len(word[0]) <= LONGEST else word[0]
