#!/usr/bin/env bash
# Makes .venv with every locked dependency, and installs the Debian packages that the tests use, where they are missing.
# Safe to call again: with nothing to do it takes a fraction of a second.
set -euo pipefail
cd "$(dirname "$0")/../.."

packages() {
	local missing=() p
	for p in "$@"; do
		dpkg-query -W -f='${db:Status-Abbrev}' "$p" 2>/dev/null | grep -q ^ii || missing+=("$p")
	done
	[ ${#missing[@]} -eq 0 ] && return
	command -v apt-get >/dev/null || { echo "setup: please install ${missing[*]}" >&2; exit 1; }
	[ "$(id -u)" = 0 ] || { echo "setup: please run: sudo apt-get install ${missing[*]}" >&2; exit 1; }
	echo "setup: installing ${missing[*]}" >&2
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

if [ ! -x .venv/bin/uv ]; then
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
		{ echo "setup: Python 3.11 or newer is needed as python3" >&2; exit 1; }
	echo "setup: making .venv" >&2
	python3 -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check uv
fi
.venv/bin/uv sync --quiet --locked --all-extras --group dev

case ${1:-} in
	--tests)
		packages postgresql procps iproute2 openssl
		# For the independent model server that the tests talk to.
		command -v npm >/dev/null || packages nodejs npm
		;;
	"") ;;
	*) echo "usage: setup.sh [--tests]" >&2; exit 2 ;;
esac
