"""The result of a run as JSON data: the rewrites, refusals and diagnostics, with sizes and the savings of each rule.

savings    `measure` sizes a model (`ModelSizes`); `Watched` counts what each rule saves while `optimize` runs
data       `report_data` makes the JSON of a run, `comparison_data` that of a diff, `diagnostic_data` one finding
"""
