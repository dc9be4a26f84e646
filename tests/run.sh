#!/usr/bin/env bash
# Every check, stage by stage, with the time each took: tests/run.sh --help.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v python3 >/dev/null || packaging/setup.sh
exec tests/stages.py "$@"
