#!/bin/bash
# Installs the node's Debian packages and builds Kubernetes, etcd, containerd, CoreDNS, a NetworkPolicy agent and Helm
# from Go modules into $MIKAN_CLUSTER_CACHE/bin. Builds only what is missing or older than the sources.
#   build.sh           everything the cluster needs
#   build.sh NAME...   only these binaries, without Debian's packages
. "$(dirname "$0")/lib.sh"

ALL=(k8s-all coredns netpol helm containerd containerd-shim-runc-v2 ctr pause)
mkdir -p "$BIN"

if [ $# = 0 ]; then
	missing=$(missing_packages | sort -u | xargs)
	type -P mmdebstrap >/dev/null || missing+=" mmdebstrap"
	type -P gcc >/dev/null || missing+=" gcc libc6-dev"
	if [ -n "${missing// /}" ]; then
		type -P apt-get >/dev/null || die "this is not Debian or Ubuntu: install what these packages hold: $missing"
		[ "$(id -u)" = 0 ] || die "run as root, or have root run: apt-get install $missing"
		log "installing $missing"
		apt-get update -qq || log "apt-get update failed: going on with the package lists that are there"
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null ||
			die "apt-get could not install $missing: see its message above"
	fi
fi

wanted=()
for name in "${@:-${ALL[@]}}"; do
	[[ " ${ALL[*]} " = *" $name "* ]] || die "no binary $name: ${ALL[*]}"
	if [ $# = 0 ] && ! built_here || [ ! -x "$BIN/$name" ]; then wanted+=("$name"); fi
done
if [ ${#wanted[@]} = 0 ]; then log "binaries are up to date"; exit 0; fi

go=$("$HERE/go.sh")
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" GOTOOLCHAIN=local
began=$SECONDS number=0

# progress WHAT TOTAL: counts the packages that `go build -v` names, lets everything else through.
progress() {
	local line count=0
	while read -r line; do
		if [[ $line =~ ^[[:alnum:]][[:alnum:]./_~-]*$ ]]; then
			count=$((count + 1))
			[ $((count % 200)) != 0 ] || log "  $1: $count of at most $2 packages compiled, $((SECONDS - began)) s so far"
		elif [[ $line != "go: downloading"* ]]; then echo "$line" >&2; fi
	done
}
module() { "$go" list -m -f '{{.Version}}' "$1"; }
compile() { # OUTPUT PACKAGE [LDFLAGS]
	local t=$SECONDS total
	total=$("$go" list -deps "$2" | wc -l) || die "Go modules could not be had: is a module proxy reachable (go env GOPROXY)?"
	nice "$go" build -v -mod=readonly -ldflags "-s -w ${3:-}" -o "$BIN/$1.tmp" "$2" 2> >(progress "$1" "$total") ||
		die "building $1 failed: its message is above. Linking k8s-all takes 3.2 GiB of memory, the Go caches 6 GB of disk"
	mv "$BIN/$1.tmp" "$BIN/$1"
	log "[$number/${#wanted[@]}] built $1 in $((SECONDS - t)) s"
}
kubernetes() {
	local version minor v=k8s.io/component-base/version
	version=$(module k8s.io/kubernetes)
	minor=${version#v1.}
	compile k8s-all . "-X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=${minor%%.*} -X $v.gitTreeState=clean"
	ln -sf k8s-all "$BIN/kubectl"
}

containerd=github.com/containerd/containerd/v2
for name in "${wanted[@]}"; do
	number=$((number + 1))
	log "[$number/${#wanted[@]}] building $name"
	case $name in containerd*|ctr) cd "$HERE/src/containerd" ;; *) cd "$HERE/src/k8s" ;; esac
	case $name in
		k8s-all) kubernetes ;;
		coredns|netpol) compile "$name" "./$name" ;;
		helm) compile helm helm.sh/helm/v3/cmd/helm "-X helm.sh/helm/v3/internal/version.version=$(module helm.sh/helm/v3)" ;;
		containerd) compile containerd $containerd/cmd/containerd "-X $containerd/version.Version=$(module $containerd)" ;;
		containerd-shim-runc-v2|ctr) compile "$name" "$containerd/cmd/$name" ;;
		pause) gcc -Os -static -s -o "$BIN/pause" "$HERE/src/pause.c" || die "pause was not built: apt-get install gcc libc6-dev" ;;
	esac
done
[ $# -gt 0 ] || build_key >"$BIN/.key"
log "all built in $((SECONDS - began)) s"
