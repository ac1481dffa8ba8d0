#!/bin/bash
# unpack.sh ARCHIVE: fills $MIKAN_CLUSTER_CACHE/bin from an archive of binaries, as if build.sh had built them here.
# build.sh still adds what the archive lacks. Default: $MIKAN_CLUSTER_PREBUILT.
. "$(dirname "$0")/lib.sh"
archive=${1:-${MIKAN_CLUSTER_PREBUILT:-}}
[ -n "$archive" ] || die "name an archive: unpack.sh ARCHIVE, or set MIKAN_CLUSTER_PREBUILT"
[ -e "$archive" ] || die "there is no $archive: run build.sh instead"
type -P xz >/dev/null || die "xz is missing: apt-get install xz-utils"
mkdir -p "$BIN"
tar -C "$BIN" -xJf "$archive"
ln -sf k8s-all "$BIN/kubectl"
have=$("$BIN/kubectl" version --client 2>/dev/null | sed -n 's/^Client Version: //p')
want=$(sed -n 's/^\tk8s\.io\/kubernetes \(v[^ ]*\).*/\1/p' "$HERE/src/k8s/go.mod")
[ "$have" = "$want" ] || die "$archive holds Kubernetes ${have:-of no known version} and src/k8s/go.mod wants $want: run build.sh instead"
build_key >"$BIN/.key"
log "binaries unpacked into $BIN"
