"""JSON files of users: read, with every possible error reported in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

from castsmith.numerics.errors import CastsmithError

_LARGEST = 1 << 24
"""Size limit in bytes of a settings file; a larger file was given by mistake."""


def read_json(path: Path, error: type[CastsmithError]) -> object:
    """Return the content of the file.

    Raises:
        error: The file is missing, not an ordinary file, too large or not JSON.
    """
    try:
        if path.exists() and not path.is_file():
            raise error(f"{path} cannot be read: it is not an ordinary file.")
        if path.stat().st_size > _LARGEST:
            raise error(f"{path} cannot be read: it is larger than {_LARGEST >> 20} MiB.")
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as failure:
        raise error(f"{path} cannot be read: {failure.strerror}.") from None
    except RecursionError:
        raise error(f"{path} cannot be read: its JSON is nested too deeply.") from None
    except UnicodeDecodeError:
        raise error(f"{path} is not JSON: it is not text in UTF-8.") from None
    except UnicodeEncodeError:
        raise error(f"{path} cannot be read: invalid file name.") from None
    except json.JSONDecodeError as failure:
        raise error(f"{path} is not JSON: {failure}.") from None
    except ValueError as failure:
        if isinstance(failure, CastsmithError):
            raise
        raise error(f"{path} cannot be read: {str(failure).partition(';')[0]}.") from None
