#!/bin/bash
# PID 1 of the node: private mounts and network, then idle. Bash reaps orphans.
. "$(dirname "$0")/lib.sh"

hostname "$NODE_NAME"

# A sysfs of this network namespace, with the host's cgroup mounts kept. They must not be shared yet, or the lazy
# umount of the helper mount would take them all.
keep=$STATE/cgroup-mounts
mkdir -p "$keep"
mount --rbind /sys/fs/cgroup "$keep"
mount -t sysfs sysfs /sys
mount --rbind "$keep" /sys/fs/cgroup
umount -l "$keep"

# Runtime paths with fixed names, backed by this cluster's own state.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock /run/netns /run/containerd
mount -t tmpfs -o mode=700 tmpfs "$STATE/etcd"
for d in var/lib/containerd var/lib/kubelet var/lib/cni var/log; do
	mkdir -p "/$d" "$STATE/$d"
	mount --bind "$STATE/$d" "/$d"
done
mount --make-rshared /

# The kubelet's cgroupRoot. v1's cpuset needs its sets filled; v2 needs its controllers handed down.
delegate() { sed 's/\([a-z_0-9]*\)/+\1/g' "$1/cgroup.controllers" >"$1/cgroup.subtree_control"; }
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	delegate /sys/fs/cgroup || true    # often done by the machine's own init
	mkdir -p "/sys/fs/cgroup/$CGROUP"
	delegate "/sys/fs/cgroup/$CGROUP"
else
	cgroups | while read -r group; do
		mkdir -p "$group"
		parent=$(dirname "$group")
		if [ -e "$group/cpuset.cpus" ] && [ -e "$parent/cpuset.cpus" ]; then
			cat "$parent/cpuset.cpus" >"$group/cpuset.cpus"
			cat "$parent/cpuset.mems" >"$group/cpuset.mems"
		fi
	done
fi

# Pods weigh what their processors do, as the kubelet reckons it; all daemons together weigh one of them.
mkdir -p "$(system_cgroup)"
pods=$(dirname "$(system_cgroup)")/$CGROUP
if [ -e "$pods/cpu.weight" ]; then
	echo $((100 * $(nproc))) >"$pods/cpu.weight"
else
	echo $((1024 * $(nproc))) >"$pods/cpu.shares"
fi

# The node's network: loopback, and a veth pair that carries the node's address and the route of the ClusterIPs,
# which need one before they are translated. Both ends are in this namespace.
ip link set lo up
ip link add node0 type veth peer name node0p
ip link set node0p up
ip addr add "$NODE_IP/24" dev node0
ip link set node0 up
ip route add "$SERVICE_CIDR" dev node0
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0
sysctl -qw net.bridge.bridge-nf-call-iptables=1 ||
	echo "error: the kernel has no br_netfilter, so ClusterIPs would not work: load that module (modprobe br_netfilter)"

# The fake outside and the default route to it. It knows nothing of pods: their packets leave with the node's address.
ip netns add outside
outside() { nsenter --net=/run/netns/outside -- "$@"; }
ip link add outside0 type veth peer name eth0 netns outside
ip addr add "$OUTSIDE_GATEWAY/24" dev outside0
ip link set outside0 up
outside ip link set lo up
outside ip addr add "$OUTSIDE_IP/24" dev eth0
outside ip link set eth0 up
for address in "${OUTSIDE_MORE[@]}"; do outside ip addr add "$address/32" dev lo; done
ip route add default via "$OUTSIDE_IP" dev outside0
iptables -w -t nat -A POSTROUTING -o outside0 -j MASQUERADE

touch "$STATE/node-ready"
trap 'exit 0' TERM INT
while :; do sleep 3600 & wait $! || true; done
