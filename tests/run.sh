#!/usr/bin/env bash
# Every check, stage by stage, with the time each took: tests/run.sh --help.
exec "$(dirname "$0")/stages.py" "$@"
