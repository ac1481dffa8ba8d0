#!/usr/bin/env bash
# A cluster, the images, the chart, and one message through the whole path.
set -euo pipefail
cd "$(dirname "$0")/../.."
say() { printf '\n== %s\n' "$*"; }

say "cluster"
tests/cluster/dev.sh cluster up
eval "$(tests/cluster/dev.sh cluster env)"     # KUBECONFIG, PATH
say "images"
tests/cluster/dev.sh cluster load operator gateway models agent sandbox sandbox-helper
say "helm install mikan"
# Only our own cluster has a stand-in for the Internet, and a resolver in it.
resolvers=()
[ "$(tests/cluster/dev.sh cluster provider)" = own ] || resolvers=(--set 'sandbox.dns={1.1.1.1,8.8.8.8}')
helm upgrade --install mikan charts/mikan --namespace mikan --create-namespace \
	--values tests/cluster/values.yaml "${resolvers[@]}" --wait --timeout 180s
say "a message"
.venv/bin/mikan chat --namespace mikan --conversation hello \
	--message "run: echo \"hello from \$(hostname), a sandbox pod\"" --timeout 120
say "kubectl get offices"
kubectl get offices --namespace mikan-offices
say "ready: make chat, make down"
