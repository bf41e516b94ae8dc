"""What commands do, in the modules whose functions `usage` names; `castsmith.cli.running` imports the one that runs."""
