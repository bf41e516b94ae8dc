"""What is wrong with the types of a model, for any runtime or for a target; nothing is changed.

Call `findings(model, rules, target)`. `target_findings` and `trunc_findings` are also the last step of
`optimize`, which reports every error that a later check would find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.lowering.check.run import findings
    from castsmith.lowering.check.target import unreported_errors

__all__ = ["findings", "unreported_errors"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "run": ("findings",),
            "target": ("unreported_errors",),
        },
    )
