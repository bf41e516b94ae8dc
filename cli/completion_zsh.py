"""The completion script for zsh, with the help of commands and options beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from castsmith.cli.completion_words import Command

_SCRIPT = """#compdef castsmith
# castsmith in zsh: put  eval "$(castsmith completion zsh)"  into ~/.zshrc, after compinit
_castsmith() {{
    local cur=${{words[CURRENT]}} prev=${{words[CURRENT - 1]}} command=""
    local -a found
    if ((CURRENT > 2)); then command=${{words[2]}}; fi
    if [[ $cur == --*=* ]]; then prev=${{cur%%=*}} cur=""; compset -P '*='; fi
    case "$command $prev" in
{values}
    *)
        case "$command $cur" in
{words}
        esac ;;
    esac
    if (($#found)); then compset -P '*,'; _describe castsmith found; else _files; fi
}}
if [[ ${{funcstack[1]}} == _castsmith ]]; then _castsmith "$@"; else compdef _castsmith castsmith; fi
"""


def script(commands: Sequence[Command]) -> str:
    return _SCRIPT.format(values="\n".join(_values(commands)), words="\n".join(_words(commands)))


def _values(commands: Sequence[Command]) -> Iterator[str]:
    for command in commands:
        for option in command.options:
            if option.values is not None:
                places = "|".join(f'"{command.name} {flag}"' for flag in option.flags)
                yield f"    ({places}) found=({' '.join(map(_quoted, option.values))}) ;;"


def _words(commands: Sequence[Command]) -> Iterator[str]:
    helps = {command.name: command.help for command in commands}
    for command in commands:
        flags = [_quoted(flag, option.help) for option in command.options for flag in option.flags]
        yield f'        ("{command.name} -"*) found=({" ".join(flags)}) ;;'
        if command.words:
            words = (_quoted(word, helps.get(word, "") if not command.name else "") for word in command.words)
            yield f'        ("{command.name} "*) found=({" ".join(words)}) ;;'


def _quoted(word: str, help: str = "") -> str:
    """`word:help` for _describe, which takes the first colon for the one between them, in single quotes."""
    text = word.replace(":", "\\:") + (f":{help}" if help else "")
    return "'" + text.replace("'", "'\\''") + "'"
