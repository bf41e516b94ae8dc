"""Completion scripts for bash, zsh and fish, generated from the argument parser.

`bash_script`, `zsh_script` and `fish_script` give a script each; `words` reads the commands and the values of options.
"""
