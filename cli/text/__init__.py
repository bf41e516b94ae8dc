"""Results as text for a terminal.

Each command calls the module of its result, which gives lines; `print_lines` prints them.

    terminal             `print_lines`, `print_text` ...: escaped names, width, colours; `table_lines`; `progress`
    rewrites, summary    `print_result`: rewrites, refusals, counts and sizes of optimize and convert; measured errors
    alike                `folded`: of records that are alike, those that are shown
    findings             `finding_line`: what check found
    diff                 `comparison_lines`: the differences of two models
    model                `model_lines`: a whole model
    verify, bounds       `verdict_lines`, `bounds_lines`, and both as data
    cast                 the numbers that the command cast reads and prints
"""
