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
