"""The arguments of castsmith targets."""

from __future__ import annotations

from castsmith.cli.arguments import Commands, add_command, add_json


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "targets", "targets:run", "list the known targets")
    add_json(parser)
    inner = parser.add_subparsers(metavar="[show NAME | probe NAME]")
    add_json(add_command(inner, "list", "targets:run", "list the known targets"))
    show = add_command(inner, "show", "targets:run_show", "show the facts about one target")
    show.add_argument("name", metavar="NAME", help="a target, or the path of a JSON file that describes one")
    add_json(show)
    probe = add_command(inner, "probe", "targets:run_probe", "probe the installed runtime, and print a new target file")
    probe.add_argument("name", metavar="NAME", help="onnxruntime-cpu or openvino-cpu")
    add_json(probe)
