"""`python -m castsmith`: the same as the `castsmith` command.

The folder in which it is started is where the models are, not a place to import from: Python puts it first on the path.
"""

from __future__ import annotations

import os
import sys

if not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):
    del sys.path[0]

from castsmith.cli.entry import main

sys.exit(main())
