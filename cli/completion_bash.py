"""The completion script for bash. A value may stand after `=`, and may be one of several between commas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from castsmith.cli.completion_words import Command

_SCRIPT = """# castsmith in bash: put  eval "$(castsmith completion bash)"  into ~/.bashrc
_castsmith() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} command="" words="" head=""
    if [[ $cur == "=" ]]; then cur=""; elif [[ $prev == "=" ]]; then prev=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
    if ((COMP_CWORD > 1)); then command=${{COMP_WORDS[1]}}; fi
    case "$command $prev" in
{values}
    *)
        case "$command $cur" in
{words}
        esac ;;
    esac
    if [[ $cur == *,* ]]; then head=${{cur%,*}},; fi
    COMPREPLY=($(compgen -P "$head" -W "$words" -- "${{cur##*,}}"))
}}
complete -o default -F _castsmith castsmith
"""


def script(commands: Sequence[Command]) -> str:
    return _SCRIPT.format(values="\n".join(_values(commands)), words="\n".join(_words(commands)))


def _values(commands: Sequence[Command]) -> Iterator[str]:
    for command in commands:
        for option in command.options:
            if option.values is not None:
                places = " | ".join(f'"{command.name} {flag}"' for flag in option.flags)
                yield f'    {places}) words="{" ".join(option.values)}" ;;'


def _words(commands: Sequence[Command]) -> Iterator[str]:
    for command in commands:
        flags = " ".join(flag for option in command.options for flag in option.flags)
        yield f'        "{command.name} -"*) words="{flags}" ;;'
        if command.words:
            yield f'        "{command.name} "*) words="{" ".join(command.words)}" ;;'
