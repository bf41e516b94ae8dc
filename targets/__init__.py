"""Facts about runtimes as data: one JSON file per target in `data/`, the only place where kernels are listed.

target      `Target` answers questions: `has_kernel`, `wrong_cast`; `load_target` reads one by name or path
statements  what a file, or a call of `Target`, may state, and how it is read
kernels     `takes_type` and `takes_operator` decide for a rewrite whether it may give a node another type
"""
