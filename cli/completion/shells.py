"""The completion scripts for bash, fish and zsh; fish and zsh show the help of commands and options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from castsmith.cli.completion.words import Command, Option

# bash: a value may follow `=`, and may be one of several between commas.

_BASH = """# castsmith in bash: put  eval "$(castsmith completion bash)"  into ~/.bashrc
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


def bash_script(commands: Sequence[Command]) -> str:
    values = (
        f'    {" | ".join(places)}) words="{" ".join(option.values or ())}" ;;' for places, option in _values(commands)
    )
    words = (f'        {place}) words="{" ".join(word for word, _ in words)}" ;;' for place, words in _words(commands))
    return _BASH.format(values="\n".join(values), words="\n".join(words))


def _values(commands: Sequence[Command]) -> Iterator[tuple[list[str], Option]]:
    """Yield each option that takes a value, with the commands and flags that ask for it, for bash and zsh."""
    for command in commands:
        for option in command.options:
            if option.values is not None:
                yield [f'"{command.name} {flag}"' for flag in option.flags], option


def _words(commands: Sequence[Command]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the flags and the words of each command, each with its help, and the pattern that asks for them."""
    helps = {command.name: command.help for command in commands}
    for command in commands:
        yield f'"{command.name} -"*', [(flag, option.help) for option in command.options for flag in option.flags]
        if command.words:
            yield f'"{command.name} "*', [(word, "" if command.name else helps.get(word, "")) for word in command.words]


# fish: a line for each command and option.

_HEAD = "# castsmith in fish: castsmith completion fish > ~/.config/fish/completions/castsmith.fish"


def fish_script(commands: Sequence[Command]) -> str:
    return "\n".join([_HEAD, *_lines(commands)]) + "\n"


def _lines(commands: Sequence[Command]) -> Iterator[str]:
    for command in commands:
        where = f"__fish_seen_subcommand_from {command.name}" if command.name else "__fish_use_subcommand"
        start = f"complete -c castsmith -n {_fish_quoted(where)}"
        if command.name:
            yield f"complete -c castsmith -n __fish_use_subcommand -f -a {command.name} -d {_fish_quoted(command.help)}"
            if command.words:
                yield f"{start} -a {_fish_quoted(' '.join(command.words))}"
        for option in command.options:
            yield f"{start} {_option(option)}"


def _option(option: Option) -> str:
    parts = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags]
    if option.values:
        parts.append(f"-x -a {_fish_quoted(' '.join(option.values))}")
    elif option.values is not None:
        parts.append("-r")
    return " ".join([*parts, f"-d {_fish_quoted(option.help)}"])


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_ZSH = """#compdef castsmith
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


def zsh_script(commands: Sequence[Command]) -> str:
    values = (
        f"    ({'|'.join(places)}) found=({' '.join(map(_zsh_quoted, option.values or ()))}) ;;"
        for places, option in _values(commands)
    )
    words = (
        f"        ({place}) found=({' '.join(_zsh_quoted(*word) for word in words)}) ;;"
        for place, words in _words(commands)
    )
    return _ZSH.format(values="\n".join(values), words="\n".join(words))


def _zsh_quoted(word: str, help: str = "") -> str:
    """Quote `word:help` for _describe in single quotes; other colons are escaped, as the first one separates."""
    text = word.replace(":", "\\:") + (f":{help}" if help else "")
    return "'" + text.replace("'", "'\\''") + "'"
