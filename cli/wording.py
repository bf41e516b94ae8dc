"""Messages of the library in the words of the command line."""

from __future__ import annotations

import ast
import re
import shlex
from typing import cast

from castsmith.passes.core.options import flag_of


def with_command_options(sentence: str) -> str:
    """Return the sentence with Python options and calls in the syntax of the command line.

    `promote_unsafe` becomes --promote-unsafe, `seconds=` --time-limit, and `optimize(target='qonnx')` becomes
    optimize --target qonnx.
    """
    return _PYTHON.sub(lambda match: _as_command(match[1]), sentence)


_PYTHON = re.compile(r"`([a-z]+=(?:'[a-z]+')?|[a-z0-9]+(?:_[a-z0-9]+)+|(?:optimize|convert|fit)\([^`]*\))`")
_PARAMETERS = {
    "seconds=": "--time-limit",
    "dims=": "--dim NAME=SIZE",
    "shapes=": "--shape NAME=1x512",
    "inputs=": "--inputs FILE.npz",
}
"""Parameters of library functions whose options have another form on the command line, as messages name them."""


def _as_command(code: str) -> str:
    name, equals, word = code.partition("=")
    if equals and "(" not in name:
        return _PARAMETERS.get(code) or f"{flag_of(name)} {word[1:-1]}".rstrip()
    tree = ast.parse(code, mode="eval").body
    if not isinstance(tree, ast.Call):
        return flag_of(code)
    words = [ast.unparse(tree.func)]
    for keyword in tree.keywords:
        options = keyword.value.keywords if isinstance(keyword.value, ast.Call) else [keyword]  # of PromotionRules
        for option in options:
            value = ast.literal_eval(option.value)
            values = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
            flag = flag_of(option.arg or "")
            words += [flag] if value is True else [word for part in values for word in (flag, shlex.quote(str(part)))]
    return " ".join(words)
