#!/bin/sh
# Reject new findings, then convert the models of a folder that are new. The target is in castsmith.toml.
# usage: nightly.sh FOLDER
set -e
castsmith check "$1" --baseline accepted.json --format sarif > castsmith.sarif
castsmith convert "$1" -o converted/ --to float16 --skip-unchanged --report night.html
