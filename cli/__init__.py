"""The command line: arguments, exit codes, and checks of where files may be written.

`entry` starts the process, `main` reads the arguments and runs one of `commands`, and `exit_codes` turns every error
into a sentence. `text`, `report` and `page` render results; nothing here computes one.
"""
