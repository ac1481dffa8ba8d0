#!/usr/bin/env bash
# test.sh              everything, from nothing
# test.sh integration  the tests that need an API server
# test.sh e2e          the tests that need pods
# test.sh bench        the benchmarks
# Sets up what it needs, brings a cluster up, and takes down a cluster that it brought up itself.
set -euo pipefail
cd "$(dirname "$0")/../.."
what=${1:-all}
started=$SECONDS
apart=(tests/e2e/cluster tests/e2e/faults)
say() { printf '\n== %s (%d s)\n' "$*" $((SECONDS - started)); }

# What fails ends nothing: the rest is run and told too. Nor does what hangs: a test ends by its own timeout, and what
# holds a whole run up by this one, with the stacks of its threads. At a terminal, Ctrl-C goes to what runs.
failed=0
foreground=()
[ ! -t 0 ] || foreground=(--foreground)
run() { timeout "${foreground[@]}" --signal=ABRT --kill-after=30 "$1" "${@:2}" || failed=1; }

say "setup"
tests/support/setup.sh --tests
if [ "$what" = all ]; then
	say "checks"
	tests/support/check.sh
fi
say "cluster and images"
was_up=$(tests/cluster/dev.sh cluster status)
[ "$was_up" = up ] || trap 'tests/cluster/dev.sh cluster down' EXIT
tests/cluster/dev.sh cluster up
eval "$(tests/cluster/dev.sh cluster env)"
tests/cluster/dev.sh cluster load
tests/cluster/volumes.sh reclaim || true    # of earlier runs on a cluster that stayed up
case $what in
	all)
		# A loaded machine may fail a test of timing once; what fails twice is a fault. Reruns are counted in the summary.
		pytest=(.venv/bin/pytest -q --reruns 1 -rfER)
		say "unit and contract tests"
		run 10m "${pytest[@]}" -n 4 tests/unit tests/contract
		say "integration tests"
		run 25m "${pytest[@]}" -n 2 --dist loadfile --durations=10 tests/integration
		say "end-to-end tests"
		# By themselves, so that their clusters are gone before the next ones run.
		run 15m "${pytest[@]}" "${apart[@]}"
		run 35m "${pytest[@]}" --durations=20 "${apart[@]/#/--ignore=}" tests/e2e
		;;
	integration) .venv/bin/pytest -q tests/integration "${@:2}" ;;
	e2e) .venv/bin/pytest -q tests/e2e "${@:2}" ;;
	bench) PYTHONPATH=tests/support:tests/bench .venv/bin/python tests/bench/run.py "${@:2}" ;;
	*) echo "usage: test.sh [integration|e2e|bench]" >&2; exit 2 ;;
esac
say "done"
exit $failed
