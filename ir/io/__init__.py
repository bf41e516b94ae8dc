"""Models in files: loaded without reading the weights into memory, and saved so that no reader sees a partial file.

Call `load(path)` and `save(model, path)`; `as_model` takes a path, a ModelProto or a model.

    loading        paths, offsets and sizes are checked before they are used
    foreign        names files of other formats in errors
    readable       refuses what onnx_ir would lose or fail on
    protos         to and from protobuf, with what onnx_ir does not round-trip
    carried        parts that onnx_ir cannot represent, such as training information
    stored         tensors that stay in a file until they are needed
    streaming      large tensors computed and written in pieces
    saving         the new file beside the old one, renamed when complete
    wire           a model file written in pieces
    files          locks, file modes, atomic replacement
    superseded     data files that become unused
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.ir.io.carried import training_of
    from castsmith.ir.io.files import destination, same_name, umask, write_text
    from castsmith.ir.io.loading import as_model, from_bytes, load, load_structure
    from castsmith.ir.io.protos import REPEATED, root_cause
    from castsmith.ir.io.saving import kept_note, reloaded, save, write, write_to
    from castsmith.ir.io.stored import file_of, relabelled, release_pages
    from castsmith.ir.io.streaming import (
        computed,
        in_threads,
        is_large,
        is_stored,
        piece_elements,
        pieces,
        regrouped,
        rows,
        streamed,
    )

__all__ = [
    "REPEATED",
    "as_model",
    "computed",
    "destination",
    "file_of",
    "from_bytes",
    "in_threads",
    "is_large",
    "is_stored",
    "kept_note",
    "load",
    "load_structure",
    "piece_elements",
    "pieces",
    "regrouped",
    "relabelled",
    "release_pages",
    "reloaded",
    "root_cause",
    "rows",
    "same_name",
    "save",
    "streamed",
    "training_of",
    "umask",
    "write",
    "write_text",
    "write_to",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "carried": ("training_of",),
            "stored": ("file_of", "relabelled", "release_pages"),
            "files": ("destination", "same_name", "umask", "write_text"),
            "loading": ("as_model", "from_bytes", "load", "load_structure"),
            "protos": ("REPEATED", "root_cause"),
            "saving": ("kept_note", "reloaded", "save", "write", "write_to"),
            "streaming": (
                "computed",
                "in_threads",
                "is_large",
                "is_stored",
                "piece_elements",
                "pieces",
                "regrouped",
                "rows",
                "streamed",
            ),
        },
    )
