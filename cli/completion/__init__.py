"""Completion scripts for bash, zsh and fish, generated from the argument parser.

`bash_script`, `zsh_script` and `fish_script` give a script each; `words` reads the commands and the values of options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.cli.completion.shells import bash_script, fish_script, zsh_script
    from castsmith.cli.completion.words import commands_of, known_values

__all__ = ["bash_script", "commands_of", "fish_script", "known_values", "zsh_script"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "shells": ("bash_script", "fish_script", "zsh_script"),
            "words": ("commands_of", "known_values"),
        },
    )
