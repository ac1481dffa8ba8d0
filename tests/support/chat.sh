#!/usr/bin/env bash
# The terminal chat with the release that "make up" installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
eval "$(tests/cluster/dev.sh cluster env)"
exec .venv/bin/mikan chat --namespace mikan --conversation "${CONVERSATION:-hello}"
