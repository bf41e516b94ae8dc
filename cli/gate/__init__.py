"""Findings as a gate for changes: settings of a project, a baseline, and the formats in which code hosts show findings.

settings     `apply_settings`: castsmith.toml or [tool.castsmith], found from the working directory upwards
judging      `Checked`, `Rules`: codes that are ignored or have another severity; exit codes; findings as data
baseline     `Baseline`: findings that are accepted, by fingerprints that do not depend on their order
grouping     `groups_of`: findings by cause; `counts_text`
terminal     `grouped_lines`: findings by cause, for people
sarif        `sarif_text`: SARIF 2.1.0, for code scanning
comments     `workflow_commands`, `markdown_text`: annotations of a GitHub workflow, comments on a pull request
"""
