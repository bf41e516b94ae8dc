#!/bin/sh
# A gate for continuous integration: every model of a folder must be right for the target, or the job fails.
# usage: ci_gate.sh FOLDER TARGET
status=0
for model in "$1"/*.onnx; do
    castsmith check "$model" --target "$2" || status=1
done
exit $status
