"""`optimum-cli onnx castsmith`: Optimum's command line imports each module of this namespace, at every start."""

from castsmith.integrations.optimum import OnnxCommand

REGISTER_COMMANDS = [OnnxCommand]
