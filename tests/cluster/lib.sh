# Shared by every script here: settings, and how to reach into a running cluster. Sourced, never run.
# Two clusters can run beside each other when their MIKAN_CLUSTER_STATE and MIKAN_CLUSTER_API_PORT differ.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${MIKAN_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mikan-cluster}    # binaries and images; outlives clusters
STATE=${MIKAN_CLUSTER_STATE:-$CACHE/state}                # one cluster's data, keys and logs; removed by down.sh
KUBECONFIG_OUT=${MIKAN_CLUSTER_KUBECONFIG:-$STATE/admin.kubeconfig}
API_PORT=${MIKAN_CLUSTER_API_PORT:-16443}                 # 127.0.0.1 on the host, forwarded into the node
CGROUP=${MIKAN_CLUSTER_CGROUP:-mikan-$(sha256sum <<<"$STATE" | cut -c1-8)}
BIN=$CACHE/bin
VOLUMES=$STATE/local-volumes

NODE_NAME=node1
GO_NEEDED=1.26.6                                          # what the modules in src/ ask for

# These addresses exist only inside the node's network namespace, which has no way to the host's network.
NODE_IP=10.99.0.2
POD_CIDR=10.98.0.0/16
NODE_POD_CIDR=10.98.0.0/24
SERVICE_CIDR=10.97.0.0/16
KUBERNETES_IP=10.97.0.1
DNS_IP=10.97.0.10

# The fake outside: a second namespace that answers for two addresses of the Internet (documentation ranges), for
# the cloud's metadata address, and for one address of each private range that no sandbox may reach.
OUTSIDE_IP=203.0.113.10
OUTSIDE_GATEWAY=203.0.113.1                               # the node's own end
OUTSIDE_MORE=(198.51.100.10 169.254.169.254 10.1.0.10 172.16.0.10 192.168.0.10 100.64.0.10)

log() { printf '%s %s\n' "$(date +%T)" "$*" >&2; }
die() { log "error: $*"; exit 1; }

# A process is remembered by its PID and start time, so that a file left behind by a machine that died never names
# another process that was given the same number since.
started_at() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
remember() { echo "$2" >"$STATE/$1.pid" && started_at "$2" >"$STATE/$1.started"; }
remembered() { # NAME: prints the PID if that very process lives
	local pid; pid=$(cat "$STATE/$1.pid" 2>/dev/null) || return 1
	[ -e "/proc/$pid" ] && [ "$(cat "$STATE/$1.started" 2>/dev/null)" = "$(started_at "$pid")" ] || return 1
	echo "$pid"
}

# The node is one process tree: unshare(1) holds a PID namespace whose init is node-init.sh. When the init ends,
# the kernel ends everything in it, the pods included.
init_pid() {
	local pid; pid=$(remembered unshare 2>/dev/null) || return 1
	ps -o pid= --ppid "$pid" | tr -d ' ' | head -1 | grep .
}

# in_node CMD...: runs CMD as root inside the node (its mounts, network, PIDs).
in_node() {
	local pid; pid=$(init_pid) || die "the cluster in $STATE is not up: run $HERE/up.sh"
	nsenter -t "$pid" -m -n -p -i -u -- "$@"
}

# in_net CMD...: runs CMD in the node's network only, with the host's files and PIDs.
in_net() {
	local pid; pid=$(init_pid) || die "the cluster in $STATE is not up: run $HERE/up.sh"
	nsenter -t "$pid" -n -- "$@"
}

# in_outside CMD...: runs CMD as a machine on the fake outside, with the node's files and PIDs.
in_outside() { in_node nsenter --net=/run/netns/outside -- "$@"; }

# start NAME CMD...: starts a daemon inside the node, logging to $STATE/log/NAME.log.
# The command is kept, so that ctl.sh can start it again.
start() {
	local name=$1; shift
	printf '%s\0' "$@" >"$STATE/cmd/$name"
	start_again "$name"
}

start_again() {
	local cmd; mapfile -d '' cmd <"$STATE/cmd/$1" 2>/dev/null || die "no daemon $1: $(ls "$STATE/cmd" 2>/dev/null | xargs)"
	in_node bash -c 'pid=$1/pid/$2 log=$1/log/$2.log; echo $$ >"$3/cgroup.procs"; shift 3
		setsid "$@" >>"$log" 2>&1 </dev/null & echo $! >"$pid"' _ "$STATE" "$1" "$(system_cgroup)" "${cmd[@]}"
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
		[ $SECONDS -lt $end ] || die "timed out waiting for $what: look in $STATE/log"
		sleep 0.2
	done
}

# Where the daemons share the processors with the pods, as one group beside theirs, like systemd's `system.slice`. Left in
# the root group each of their threads would weigh as much as all pods together.
system_cgroup() {
	if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo "/sys/fs/cgroup/$CGROUP-system"; else echo "/sys/fs/cgroup/cpu/$CGROUP-system"; fi
}

# Where this cluster's cgroups are: one below each v1 hierarchy, or a single one where only v2 is mounted.
cgroups() {
	if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo "/sys/fs/cgroup/$CGROUP"; return; fi
	local hierarchy
	for hierarchy in /sys/fs/cgroup/*/; do echo "$hierarchy$CGROUP"; done
}

# build_key: changes when the sources of the binaries do.
build_key() { cat "$HERE"/src/*/{go.mod,go.sum} "$HERE"/src/k8s/{*.go,*/*.go} "$HERE"/src/pause.c | sha256sum; }
built_here() { [ "$(cat "$BIN/.key" 2>/dev/null)" = "$(build_key)" ]; }

# The commands that the node and these scripts call, each with Debian's package of it.
needed_programs() {
	cat <<-LIST
		conntrack conntrack
		ip iproute2
		ipset ipset
		iptables iptables
		nft nftables
		nsenter util-linux
		openssl openssl
		ps procps
		python3 python3
		runc runc
		setsid util-linux
		sysctl procps
		unshare util-linux
	LIST
}

# missing_packages: Debian packages of the needed programs that are not installed.
missing_packages() {
	local program package
	while read -r program package; do
		type -P "$program" >/dev/null || echo "$package"
	done < <(needed_programs)
	[ -x /usr/lib/cni/bridge ] || echo containernetworking-plugins
}
