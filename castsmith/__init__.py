"""Castsmith makes the element types of an ONNX model right for where it will run: exact, explained, repaired.

The public names are listed in `__init__.pyi` and imported when they are first used.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
