# Shared settings. Every path and address can be overridden from the environment.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${MIKAN_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mikan-cluster}          # binaries and images; may outlive a cluster
STATE=${MIKAN_CLUSTER_STATE:-$CACHE/state}    # one cluster's data, keys and logs; removed by down.sh
BIN=$CACHE/bin
IMAGES=$CACHE/images
KUBECONFIG_OUT=${MIKAN_CLUSTER_KUBECONFIG:-$STATE/admin.kubeconfig}

NODE_NAME=node1
GO_NEEDED=1.26.6                                 # what the modules in src/ ask for
CGROUP=mikan-dev                                 # one top-level cgroup per v1 hierarchy
API_PORT=${MIKAN_CLUSTER_API_PORT:-16443}            # 127.0.0.1 on the host, forwarded into the node

# These addresses exist only inside the node's network namespace, which has no
# way out: nothing is ever sent to them from the host's own network.
NODE_IP=10.99.0.2
POD_CIDR=10.98.0.0/16
NODE_POD_CIDR=10.98.0.0/24
SERVICE_CIDR=10.97.0.0/16
KUBERNETES_IP=10.97.0.1
DNS_IP=10.97.0.10

log() { printf '%s %s\n' "$(date +%T)" "$*" >&2; }
die() { log "error: $*"; exit 1; }

# The node is one process tree: unshare(1) holds a PID namespace whose init is
# node-init.sh. Killing unshare kills everything, the pods included.
unshare_pid() { cat "$STATE/unshare.pid" 2>/dev/null || true; }

init_pid() {
	local p; p=$(unshare_pid)
	[ -n "$p" ] && [ "$(cat /proc/"$p"/comm 2>/dev/null)" = unshare ] || return 1
	ps -o pid= --ppid "$p" | tr -d ' ' | head -1 | grep .
}

# in_node CMD...: runs CMD as root inside the node (its mounts, network, PIDs).
in_node() {
	local p; p=$(init_pid) || die "the node is not up"
	nsenter -t "$p" -m -n -p -i -u -- "$@"
}

# in_net CMD...: runs CMD in the node's network only, with the host's files.
in_net() {
	local p; p=$(init_pid) || die "the node is not up"
	nsenter -t "$p" -n -- "$@"
}

# start NAME CMD...: starts a daemon inside the node, logging to $STATE/log/NAME.log.
# The command is kept, so that ctl.sh can start it again.
start() {
	local name=$1; shift
	printf '%s\0' "$@" >"$STATE/cmd/$name"
	start_again "$name"
}

start_again() {
	local cmd; mapfile -d '' cmd <"$STATE/cmd/$1"
	in_node bash -c 'pid=$1/pid/$2 log=$1/log/$2.log; shift 2
		setsid "$@" >>"$log" 2>&1 </dev/null & echo $! >"$pid"' _ "$STATE" "$1" "${cmd[@]}"
}

# stop NAME [SIGNAL]: stops a daemon started by `start` and waits for its end.
stop() {
	in_node bash -c 'p=$(cat "$1/pid/$2" 2>/dev/null) && rm "$1/pid/$2" && kill "-$3" "$p" 2>/dev/null || exit 0
		for _ in $(seq 150); do kill -0 "$p" 2>/dev/null || exit 0; sleep 0.1; done; kill -9 "$p"' _ "$STATE" "$1" "${2:-TERM}"
}

# wait_for SECONDS WHAT CMD...: polls CMD every 0.2 s.
wait_for() {
	local end=$((SECONDS + $1)) what=$2; shift 2
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || die "timed out waiting for $what"
		sleep 0.2
	done
}

# build_key: changes when the sources of the binaries do.
build_key() { cat "$HERE"/src/*/{go.mod,go.sum} "$HERE"/src/k8s/{*.go,*/*.go} "$HERE"/src/pause.c | sha256sum; }
