"""The arguments of commands, declared by `add_to` in a module each; nothing heavy is imported here.

`castsmith.cli.main` imports the module of the command that is named. A new command is a module here, as short as that
of `explain`, and one in `commands` that carries it out.
"""
