"""The arguments of commands, declared by `add_to` of each module; nothing heavy is imported here.

A new command is a function here, and a module in `commands` that carries it out.

writing      fit, optimize, convert
reading      check, bounds, info, show, diff, verify, certificate
reference    cast, targets, passes, completion, explain, dev
"""
