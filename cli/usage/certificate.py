"""The arguments of castsmith certificate."""

from __future__ import annotations

from castsmith.cli.arguments import Commands, add_command, add_json, add_quiet


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "certificate", "certificate:run", "check a certificate of castsmith optimize")
    parser.description = (
        "Replay the rewrites in a certificate on the model IN, require that they lead to OUT, and check that each keeps"
        " every value. castsmith optimize --certificate writes one."
    )
    parser.epilog = (
        "The checker is one file that uses nothing else of Castsmith, castsmith/verification/checker.py; you can also"
        f" run it alone: python checker.py IN OUT C.json. {parser.epilog}"
    )
    parser.add_argument("a", metavar="IN", help="the model before castsmith optimize")
    parser.add_argument("b", metavar="OUT", help="the model after it")
    parser.add_argument("certificate", metavar="C.json", help="the certificate")
    add_quiet(parser, "what is certified")
    add_json(parser)
