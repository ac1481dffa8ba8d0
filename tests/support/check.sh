#!/usr/bin/env bash
# Every check that needs no running program. Runs all of them, then fails if one did.
set -uo pipefail
cd "$(dirname "$0")/../.."
bin=.venv/bin
failed=()
check() { # NAME CMD...
	local name=$1 out; shift
	if out=$("$@" 2>&1); then echo "ok    $name"; else echo "FAIL  $name"; echo "$out"; failed+=("$name"); fi
}
check format $bin/ruff format --check .
check lint $bin/ruff check .
check types $bin/mypy
check imports $bin/lint-imports
check crds $bin/python -m mikan_api.crd --check
check "chart schema" $bin/python charts/schema.py --check
check lock $bin/uv lock --check
check "go vet" sh -c 'cd agent/sandbox && test -z "$(gofmt -l .)" && CGO_ENABLED=0 go vet ./...'
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
