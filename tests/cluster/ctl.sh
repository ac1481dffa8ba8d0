#!/bin/bash
# Reaches into the running cluster.
#   ctl.sh stop|start|restart NAME   one of etcd kube-apiserver kube-controller-manager kube-scheduler
#                                    containerd kubelet kube-proxy netpol outside
#   ctl.sh kill NAME                 the same as stop, by SIGKILL
#   ctl.sh node CMD...               runs CMD inside the node (its files, network, PIDs)
#   ctl.sh net CMD...                runs CMD with the node's network and the host's files
#   ctl.sh outside CMD...            runs CMD on the fake outside
. "$(dirname "$0")/lib.sh"
usage() { sed -n '2,/^[^#]/s/^# //p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
what=$1; shift
case $what in
	stop) stop "$1" ;;
	kill) stop "$1" KILL ;;
	start) start_again "$1" ;;
	restart) stop "$1"; start_again "$1" ;;
	node) in_node "$@" ;;
	net) in_net "$@" ;;
	outside) in_outside "$@" ;;
	*) usage ;;
esac
