"""The commands of castsmith, one module each: `add_to` declares the arguments, `run` executes the command.

`castsmith.cli.main` imports the one that is named. A new command is a module here, as short as `passes` or `explain`.
"""
