"""The commands of castsmith, one module each: `add_to` declares the arguments, `run` executes the command.

`castsmith.cli.main` imports the one that is named. A new command is a module as short as `passes` or `explain`, and its
name in `castsmith.cli.main`.
"""
