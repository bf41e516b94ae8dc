"""`python -m castsmith`: the same as the `castsmith` command."""

from __future__ import annotations

import sys

from castsmith.cli.main import main

sys.exit(main())
