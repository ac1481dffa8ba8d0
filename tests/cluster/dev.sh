#!/bin/bash
# dev.sh cluster|images ARGS...: runs a development tool of tests/support/mikan_dev with
# the first Python that is new enough: the project's environment, else the machine's.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
for python in "$root/.venv/bin/python" python3.13 python3.12 python3.11 python3; do
	if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
		PYTHONPATH=$root/tests/support exec "$python" -m "mikan_dev.$1" "${@:2}"
	fi
done
echo "error: no Python 3.11 or newer: apt-get install python3, or put one on PATH" >&2
exit 1
