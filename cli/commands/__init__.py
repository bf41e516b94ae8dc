"""The commands of castsmith, one module each: `add_to` declares the arguments, `run` executes the command."""
