"""Facts about runtimes as data: one JSON file per target in `data/`, the only place where kernels are listed.

target      `Target` answers questions: `has_kernel`, `wrong_cast`; `load_target` reads one by name or path
statements  what a file, or a call of `Target`, may state, and how it is read
kernels     `takes_type` and `takes_operator` decide for a rewrite whether it may give a node another type
probing     `probe` measures an installed runtime, with the models in `probe_models`, and makes its file
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.targets.kernels import (
        DEFAULT_TARGET,
        broken_block_rule,
        operands_of_several_types,
        takes_identity,
        takes_operator,
        takes_type,
        varied_input,
    )
    from castsmith.ir.targets.probing import probe, target_text
    from castsmith.ir.targets.statements import QUANTIZATION_RULES, TargetError, WrongCast, WrongFusion
    from castsmith.ir.targets.target import ALIASES, TARGETS_FOLDER, Target, as_target, load_target, target_names

__all__ = [
    "ALIASES",
    "DEFAULT_TARGET",
    "QUANTIZATION_RULES",
    "TARGETS_FOLDER",
    "Target",
    "TargetError",
    "WrongCast",
    "WrongFusion",
    "as_target",
    "broken_block_rule",
    "load_target",
    "operands_of_several_types",
    "probe",
    "takes_identity",
    "takes_operator",
    "takes_type",
    "target_names",
    "target_text",
    "varied_input",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "kernels": (
                "DEFAULT_TARGET",
                "broken_block_rule",
                "operands_of_several_types",
                "takes_identity",
                "takes_operator",
                "takes_type",
                "varied_input",
            ),
            "probing": ("probe", "target_text"),
            "statements": ("QUANTIZATION_RULES", "TargetError", "WrongCast", "WrongFusion"),
            "target": ("ALIASES", "TARGETS_FOLDER", "Target", "as_target", "load_target", "target_names"),
        },
    )
