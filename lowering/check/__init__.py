"""Findings about the element types of a model, for any runtime or for a target; nothing is changed.

Call `check(model, target=...)`. `result_findings`, `trunc_findings` and `unreported_errors` are the last step of
`optimize`, which reports every error that a later check would find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.lowering.check.device import device_findings
    from castsmith.lowering.check.run import check
    from castsmith.lowering.check.target import unreported_errors
    from castsmith.lowering.check.trunc import trunc_findings
    from castsmith.lowering.check.types import result_findings

__all__ = ["check", "device_findings", "result_findings", "trunc_findings", "unreported_errors"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "device": ("device_findings",),
            "run": ("check",),
            "target": ("unreported_errors",),
            "trunc": ("trunc_findings",),
            "types": ("result_findings",),
        },
    )
