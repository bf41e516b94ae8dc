"""The pass that moves a model to the opset and IR version of a target, if its operators mean the same there.

Run `LegalizeVersion(target=...)`. `obstacles` lists changes between opsets, `moving` rewrites the nodes. `FitLoader`
ends a conversion: it changes what the target does not load.
"""
