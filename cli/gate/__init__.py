"""Findings as a gate for changes: settings of a project, a baseline, and the formats in which code hosts show findings.

settings     `apply_settings`: castsmith.toml or [tool.castsmith], found from the working directory upwards
judging      `Checked`, `Rules`: codes that are ignored or have another severity; exit codes; findings as data
baseline     `Baseline`: findings that are accepted, by fingerprints that do not depend on their order
grouping     `groups_of`: findings by cause; `counts_text`
terminal     `grouped_lines`: findings by cause, for people
sarif        `sarif_text`: SARIF 2.1.0, for code scanning
comments     `workflow_commands`, `markdown_text`: annotations of a GitHub workflow, comments on a pull request
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.cli.gate.baseline import Baseline, fingerprint
    from castsmith.cli.gate.comments import markdown_text, workflow_commands
    from castsmith.cli.gate.grouping import counts_text, groups_of
    from castsmith.cli.gate.judging import LEVELS, Checked, Rules, changed, codes_of, exit_code, from_data, to_data
    from castsmith.cli.gate.sarif import sarif_text
    from castsmith.cli.gate.settings import KEYS, Settings, apply_settings
    from castsmith.cli.gate.terminal import grouped_lines

__all__ = [
    "KEYS",
    "LEVELS",
    "Baseline",
    "Checked",
    "Rules",
    "Settings",
    "apply_settings",
    "changed",
    "codes_of",
    "counts_text",
    "exit_code",
    "fingerprint",
    "from_data",
    "grouped_lines",
    "groups_of",
    "markdown_text",
    "sarif_text",
    "to_data",
    "workflow_commands",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "baseline": ("Baseline", "fingerprint"),
            "comments": ("markdown_text", "workflow_commands"),
            "grouping": ("counts_text", "groups_of"),
            "judging": ("LEVELS", "Checked", "Rules", "changed", "codes_of", "exit_code", "from_data", "to_data"),
            "sarif": ("sarif_text",),
            "settings": ("KEYS", "Settings", "apply_settings"),
            "terminal": ("grouped_lines",),
        },
    )
