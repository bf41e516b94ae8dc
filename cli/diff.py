from castsmith.cli.arguments import Commands


def add_to(commands: Commands) -> None: ...
