#!/bin/bash
# Stops exactly what up.sh started, and removes its state (--keep keeps it). Does nothing when nothing is up; what a
# machine or session that died left behind is removed.
. "$(dirname "$0")/lib.sh"
CGROUP=$(cat "$STATE/cgroup" 2>/dev/null || echo "$CGROUP")    # as it was at the start

gone() { # PID: waits up to 10 s
	for _ in $(seq 100); do [ -e "/proc/$1" ] || return 0; sleep 0.1; done
	return 1
}
if forward=$(remembered forward); then
	kill "$forward"
	gone "$forward" || kill -9 "$forward"
fi
# The node's mounts and its network go with the last of its processes.
if init=$(init_pid); then
	outer=$(remembered unshare)
	kill "$init"
	gone "$outer" || { kill -9 "$init"; gone "$outer" || die "the node's processes would not die: see /proc/$init"; }
fi
{ cgroups; system_cgroup; } | while read -r group; do
	for _ in $(seq 50); do
		[ -d "$group" ] || break
		find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
		[ ! -d "$group" ] || sleep 0.1
	done
done
rm -f "$STATE"/{forward,unshare}.{pid,started} "$STATE/ready"
[ "${1:-}" = --keep ] || rm -rf --one-file-system "$STATE"
