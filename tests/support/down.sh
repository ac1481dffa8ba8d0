#!/usr/bin/env bash
# Stops exactly what "make up" started.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec tests/cluster/dev.sh cluster down
