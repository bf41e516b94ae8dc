"""Element types of all values of a model, also of one whose operands disagree, and intervals of its integers.

Call `infer_element_types(model, rules)`; the `Inference` it returns gives the type of each value and lists the operands
to convert. In a pass, ask the `Session`, which keeps the facts about a model from pass to pass.

    walk            the inference, node by node
    control_flow    joined branches and loop states
    containers      values that are sequences or optional values, declared or not
    disagreement    operands that must share a type and do not
    calls           model-local functions, by the types of their arguments
    session         facts that rewrites keep, and those that they invalidate
    intervals       `Ranges`: values known to be integers between two bounds
    shapes          `inferred_shapes`: what onnx infers, without a copy of the weights
"""
