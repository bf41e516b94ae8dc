"""Element types of all values of a model, also of one whose operands disagree, and intervals of its integers.

Call `infer_element_types(model, rules)`; the `Inference` it returns gives the type of each value and lists the operands
to convert. In a pass, ask its `Session` (`passes.core.session`), which keeps the facts from pass to pass.

    walk            the inference, node by node
    control_flow    joined branches and loop states
    containers      values that are sequences or optional values, declared or not
    disagreement    operands that must share a type and do not
    calls           model-local functions, by the types of their arguments
    by_onnx         what onnx infers of one node
    handed_on       values that calls and control flow hand on
    intervals       `Ranges`: values known to be integers between two bounds
"""
