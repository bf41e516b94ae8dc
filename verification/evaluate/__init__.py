"""Models run one operator at a time, each alone in an engine: the meaning of the model, without a runtime's rewrites.

Call `Evaluator(model, rules, Engine(name)).run(feeds)`: it gives the outputs as `Content`, each array beside a mask of
the elements that the standard leaves undefined. EngineError says why a model does not run on these inputs.

    evaluator      the walk through graphs, functions and calls
    control_flow   If, Loop, Scan, sequences and optionals
    conversions    casts, quantization and QONNX's Trunc, by `castsmith.numerics`; how undefinedness spreads
    promotion      promotion of operands that disagree, by the schema alone
    engines        an operator run by ONNX Runtime, OpenVINO or the reference, in another process (worker)
    process        another process that answers requests (channel), for engines and other work that may crash
    indices        the indices that an operator takes
    coverage       what the inputs reached of the model
    limits         the time, turns and elements that a run may take
"""
