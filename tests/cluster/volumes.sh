#!/bin/bash
# Local volumes of the running cluster. up.sh makes a pool that any claim of the default class `local` binds to.
#   volumes.sh pool [N]                           PVs local-01 ... local-N (default 40)
#   volumes.sh reclaim                            empties Released volumes of the pool and offers them again
#   volumes.sh small SIZE NAME [NAMESPACE/CLAIM]  a volume on a tmpfs of SIZE (16m, 1g), so that it can be filled:
#                                                 reserved for that claim of class `local`, else of class NAME
#   volumes.sh remove NAME                        takes a small volume away
. "$(dirname "$0")/lib.sh"
usage() { sed -n '2,/^[^#]/s/^# //p' "$0" >&2; exit 2; }
export KUBECONFIG=$KUBECONFIG_OUT
k() { "$BIN/kubectl" "$@"; }

volume() { # NAME SIZE CLASS [NAMESPACE/CLAIM]
	local claim=""
	[ -z "${4:-}" ] || claim="claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: ${4%/*}, name: ${4#*/}}"
	cat <<-YAML
		---
		apiVersion: v1
		kind: PersistentVolume
		metadata: {name: $1}
		spec:
		  capacity: {storage: "$2"}
		  accessModes: [ReadWriteOnce, ReadWriteMany]
		  persistentVolumeReclaimPolicy: Retain
		  storageClassName: $3
		  $claim
		  local: {path: $VOLUMES/$1}
		  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [$NODE_NAME]}]}]}}
	YAML
}
directory() { mkdir -p "$VOLUMES/$1" && chmod 0777 "$VOLUMES/$1"; }
quantity() { tr 'kmg' 'KMG' <<<"$1" | sed 's/[KMG]$/&i/'; }

case ${1:-} in
	pool)
		for name in $(seq -f 'local-%02g' "${2:-40}"); do
			directory "$name"
			volume "$name" 10Gi local
		done | k apply -f - >/dev/null ;;
	reclaim)
		for name in $(k get pv -o 'jsonpath={range .items[?(@.status.phase=="Released")]}{.metadata.name}{"\n"}{end}'); do
			[[ $name =~ ^local-[0-9]+$ ]] || continue
			find "$VOLUMES/$name" -mindepth 1 -delete
			directory "$name"
			k patch pv "$name" --type=json -p '[{"op": "remove", "path": "/spec/claimRef"}]' >/dev/null
			log "$name is free again"
		done ;;
	small)
		[ $# -ge 3 ] || usage
		[[ $2 =~ ^[0-9]+[kmg]$ ]] || die "$2 is no size: write 512k, 16m or 1g"
		[[ $3 =~ ^[a-z0-9][a-z0-9-]*$ && ! $3 =~ ^local-[0-9]+$ ]] || die "$3 is no name for a small volume"
		directory "$3"
		in_node mountpoint -q "$VOLUMES/$3" || in_node mount -t tmpfs -o "size=$2,mode=0777" tmpfs "$VOLUMES/$3"
		class=$3
		[ -z "${4:-}" ] || class=local
		volume "$3" "$(quantity "$2")" "$class" "${4:-}" | k apply -f - >/dev/null ;;
	remove)
		[ $# = 2 ] || usage
		k delete pv "$2" --ignore-not-found --wait=false >/dev/null
		in_node umount -l "$VOLUMES/$2" 2>/dev/null || log "$2 was not mounted" ;;
	*) usage ;;
esac
