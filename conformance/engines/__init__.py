"""Engines that the suite is run against, each in a process of its own: `run(engine, vectors)` yields the outcomes.

worker     the other process, which needs nothing of this program: an engine is a function there
running    the process, its list of vectors, and what happens when it ends early
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.conformance.engines.running import Run, run
    from castsmith.conformance.engines.worker import ENGINES

__all__ = ["ENGINES", "Run", "run"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, {"running": ("Run", "run"), "worker": ("ENGINES",)})
