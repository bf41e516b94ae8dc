"""Models: what onnx_ir lacks. Files (`io`), operators (`ops`), records of rewrites, walks, names, text, validation."""
