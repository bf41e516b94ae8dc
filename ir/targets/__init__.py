"""What runtimes take, as data: one JSON file a target in `data/`, the one place where kernels are written down.

`load_target` reads a target by name or path, `target_names` lists them, and a Target answers questions: `has_kernel`,
`takes`, `wrong_cast`. `probe` measures an installed runtime and makes its file.
"""

from castsmith.ir.targets.reading import TARGETS_FOLDER, load_target, target_names
from castsmith.ir.targets.target import Target, TargetError, WrongCast, WrongFusion

__all__ = ["TARGETS_FOLDER", "Target", "TargetError", "WrongCast", "WrongFusion", "load_target", "target_names"]
