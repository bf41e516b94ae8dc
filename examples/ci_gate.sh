#!/bin/sh
# A gate for continuous integration: every model of a folder must be right for the target, or the job fails.
# usage: ci_gate.sh FOLDER TARGET
exec castsmith check "$1"/*.onnx --target "$2"
