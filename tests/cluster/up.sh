#!/bin/bash
# Starts a one-node Kubernetes cluster and waits until it is ready.
#   up.sh                  control plane + node + DNS
#   up.sh --control-plane  control plane only (no pods run)
# Needs build.sh to have run. Prints the kubeconfig's path.
. "$(dirname "$0")/lib.sh"

mode=${1:-}
[ -z "$mode" ] || [ "$mode" = --control-plane ] || die "up.sh takes no argument but --control-plane"
[ "$(id -u)" = 0 ] || die "a node needs root: run as root, or use Docker with kind"
for name in k8s-all coredns netpol containerd containerd-shim-runc-v2 ctr pause; do
	[ -x "$BIN/$name" ] || die "$BIN/$name is missing: run $HERE/build.sh first"
done
missing=$(missing_packages | sort -u | xargs)
[ -z "$missing" ] || die "programs are missing: apt-get install $missing"
if init_pid >/dev/null && [ -e "$STATE/ready" ]; then log "already up"; echo "$KUBECONFIG_OUT"; exit 0; fi
"$HERE/down.sh"    # what a start that was cut short, or a machine that died, left behind
if (: <>"/dev/tcp/127.0.0.1/$API_PORT") 2>/dev/null; then
	die "port $API_PORT is taken: another cluster? set MIKAN_CLUSTER_API_PORT (and MIKAN_CLUSTER_STATE) to run a second one"
fi
unshare --mount --net --pid --fork true 2>/dev/null || die "this machine gives no namespaces (in a container? it must be privileged): use Docker with kind, or MIKAN_CONTEXT"

t0=$(date +%s%N)
took() { log "$(( ($(date +%s%N) - t0) / 1000000 )) ms: $*"; }
mkdir -p "$STATE"/{cmd,conf/cni,etcd,local-volumes,log,pid,pki}
chmod 700 "$STATE"
echo "$CGROUP" >"$STATE/cgroup"
trap '[ $? = 0 ] || log "the cluster did not come up: logs are in $STATE/log, down.sh removes it"' EXIT

# ---------------------------------------------------------------- certificates
cd "$STATE/pki"
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key" 2>/dev/null; }
ca() { # NAME CN
	key "$1"
	openssl req -x509 -new -key "$1.key" -days 365 -subj "/CN=$2" -out "$1.crt"
}
cert() { # NAME CA SUBJECT USAGE [SAN]
	key "$1"
	openssl req -new -key "$1.key" -subj "$3" | openssl x509 -req -CA "$2.crt" -CAkey "$2.key" -days 365 -out "$1.crt" \
		-set_serial "0x$(openssl rand -hex 8)" 2>/dev/null \
		-extfile <(printf 'keyUsage=critical,digitalSignature\nextendedKeyUsage=%s\n%s\n' "$4" "${5:+subjectAltName=$5}")
}
ca ca kubernetes-ca
ca front-proxy-ca front-proxy-ca
cert apiserver ca /CN=kube-apiserver serverAuth "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,DNS:localhost,IP:127.0.0.1,IP:$KUBERNETES_IP,IP:$NODE_IP"
cert apiserver-kubelet-client ca /O=kubeadm:cluster-admins/CN=kube-apiserver-kubelet-client clientAuth
cert front-proxy-client front-proxy-ca /CN=front-proxy-client clientAuth
cert kubelet-server ca "/O=system:nodes/CN=system:node:$NODE_NAME" serverAuth "DNS:$NODE_NAME,IP:$NODE_IP"
cert admin ca /O=system:masters/CN=admin clientAuth
cert controller-manager ca /CN=system:kube-controller-manager clientAuth
cert scheduler ca /CN=system:kube-scheduler clientAuth
cert proxy ca /CN=system:kube-proxy clientAuth
cert netpol ca /CN=netpol clientAuth
cert kubelet ca "/O=system:nodes/CN=system:node:$NODE_NAME" clientAuth
openssl genrsa -out sa.key 2048 2>/dev/null
openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null

kubeconfig() { # FILE CERT SERVER
	cat >"$1" <<-YAML
		apiVersion: v1
		kind: Config
		current-context: mikan-dev
		clusters: [{name: mikan-dev, cluster: {server: "$3", certificate-authority-data: $(base64 -w0 ca.crt)}}]
		users: [{name: $2, user: {client-certificate-data: $(base64 -w0 "$2.crt"), client-key-data: $(base64 -w0 "$2.key")}}]
		contexts: [{name: mikan-dev, context: {cluster: mikan-dev, user: $2}}]
	YAML
	chmod 600 "$1"
}
inner=https://$NODE_IP:6443
for who in admin controller-manager scheduler proxy netpol kubelet; do kubeconfig "$STATE/conf/$who.kubeconfig" $who $inner; done
kubeconfig "$KUBECONFIG_OUT" admin "https://127.0.0.1:$API_PORT"
cd /
took certificates

# --------------------------------------------------- namespaces of the "machine"
setsid unshare --mount --net --pid --uts --ipc --fork --kill-child --mount-proc --propagation private \
	bash "$HERE/node-init.sh" >>"$STATE/log/node-init.log" 2>&1 </dev/null &
remember unshare $!
wait_for 20 "the node's namespaces" test -e "$STATE/node-ready"
took namespaces
start outside nsenter --net=/run/netns/outside -- python3 "$HERE/outside.py" "$OUTSIDE_IP"

# -------------------------------------------------------- etcd, API, containerd
a=$BIN/k8s-all
pki=$STATE/pki
conf=$STATE/conf
start etcd "$a" etcd --name=e1 --data-dir="$STATE/etcd/data" --unsafe-no-fsync --log-level=warn \
	--listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379 \
	--listen-peer-urls=http://127.0.0.1:2380 --initial-advertise-peer-urls=http://127.0.0.1:2380 --initial-cluster=e1=http://127.0.0.1:2380
start kube-apiserver "$a" kube-apiserver --etcd-servers=http://127.0.0.1:2379 --advertise-address="$NODE_IP" --secure-port=6443 \
	--client-ca-file="$pki/ca.crt" --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
	--kubelet-client-certificate="$pki/apiserver-kubelet-client.crt" --kubelet-client-key="$pki/apiserver-kubelet-client.key" \
	--kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP,Hostname \
	--requestheader-client-ca-file="$pki/front-proxy-ca.crt" --requestheader-allowed-names=front-proxy-client \
	--requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra- \
	--proxy-client-cert-file="$pki/front-proxy-client.crt" --proxy-client-key-file="$pki/front-proxy-client.key" \
	--service-account-issuer=https://kubernetes.default.svc.cluster.local --service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key" \
	--service-cluster-ip-range="$SERVICE_CIDR" --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
	--audit-policy-file="$HERE/audit.yaml" --audit-log-path="$STATE/log/audit.log" --audit-log-maxsize=200 --audit-log-maxbackup=2
if [ "$mode" != --control-plane ]; then
	cat >"$conf/cni/10-bridge.conflist" <<-JSON
		{"cniVersion": "1.0.0", "name": "mikan-dev", "plugins": [
		  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipMasq": false,
		   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$NODE_POD_CIDR"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
		  {"type": "portmap", "capabilities": {"portMappings": true}}
		]}
	JSON
	cat >"$conf/containerd.toml" <<-TOML
		version = 3
		root = "/var/lib/containerd"
		state = "/run/containerd"
		[grpc]
		  address = "/run/containerd/containerd.sock"
		[plugins.'io.containerd.cri.v1.images']
		  snapshotter = "overlayfs"
		[plugins.'io.containerd.cri.v1.images'.pinned_images]
		  sandbox = "localhost/pause:1"
		[plugins.'io.containerd.cri.v1.runtime']
		  # In many containers CAP_SYS_RESOURCE is missing: no OOM score can be lowered.
		  restrict_oom_score_adj = true
		[plugins.'io.containerd.cri.v1.runtime'.cni]
		  bin_dirs = ["/usr/lib/cni"]
		  conf_dir = "$conf/cni"
		[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
		  runtime_type = "io.containerd.runc.v2"
		[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
		  BinaryName = "runc"
		  SystemdCgroup = false
	TOML
	start containerd env PATH="$BIN:$PATH" "$BIN/containerd" --config "$conf/containerd.toml"
	{
		wait_for 30 containerd in_node "$BIN/ctr" version
		"$HERE/dev.sh" images load pause coredns python busybox
	} >"$STATE/log/import.log" 2>&1 &
	importing=$!
fi
setsid "$a" netns-forward "127.0.0.1:$API_PORT" "/proc/$(init_pid)/ns/net" "$NODE_IP:6443" >>"$STATE/log/netns-forward.log" 2>&1 </dev/null &
remember forward $!

export KUBECONFIG=$KUBECONFIG_OUT
k() { "$a" kubectl "$@"; }
wait_for 120 "kube-apiserver" k get --raw /readyz
took "kube-apiserver ready"

# ------------------------------------------------------- controllers, scheduler
start kube-controller-manager "$a" kube-controller-manager --kubeconfig="$conf/controller-manager.kubeconfig" \
	--authentication-kubeconfig="$conf/controller-manager.kubeconfig" --authorization-kubeconfig="$conf/controller-manager.kubeconfig" \
	--client-ca-file="$pki/ca.crt" --requestheader-client-ca-file="$pki/front-proxy-ca.crt" --root-ca-file="$pki/ca.crt" \
	--cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" --service-account-private-key-file="$pki/sa.key" \
	--use-service-account-credentials=true --allocate-node-cidrs=true --cluster-cidr="$POD_CIDR" --service-cluster-ip-range="$SERVICE_CIDR" \
	--bind-address=127.0.0.1 --leader-elect=false --kube-api-qps=200 --kube-api-burst=400
start kube-scheduler "$a" kube-scheduler --kubeconfig="$conf/scheduler.kubeconfig" \
	--authentication-kubeconfig="$conf/scheduler.kubeconfig" --authorization-kubeconfig="$conf/scheduler.kubeconfig" \
	--bind-address=127.0.0.1 --leader-elect=false
k apply -f "$HERE/rbac.yaml" >/dev/null
if [ "$mode" = --control-plane ]; then
	touch "$STATE/ready"
	wait_for 60 "the default ServiceAccount" k get serviceaccount default
	took "default ServiceAccount"
	echo "$KUBECONFIG_OUT"
	exit 0
fi

# ------------------------------------------------------------------ node agents
: >"$conf/resolv.conf"
cat >"$conf/kubelet.yaml" <<-YAML
	apiVersion: kubelet.config.k8s.io/v1beta1
	kind: KubeletConfiguration
	authentication:
	  anonymous: {enabled: false}
	  webhook: {enabled: true}
	  x509: {clientCAFile: $pki/ca.crt}
	authorization: {mode: Webhook}
	tlsCertFile: $pki/kubelet-server.crt
	tlsPrivateKeyFile: $pki/kubelet-server.key
	containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
	failCgroupV1: false
	failSwapOn: false
	cgroupDriver: cgroupfs
	cgroupRoot: /$CGROUP
	clusterDomain: cluster.local
	clusterDNS: [$DNS_IP]
	resolvConf: $conf/resolv.conf
	evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
	imageGCHighThresholdPercent: 100
	imageGCLowThresholdPercent: 99
	nodeStatusUpdateFrequency: 5s
	oomScoreAdj: 0
YAML
cat >"$conf/kube-proxy.yaml" <<-YAML
	apiVersion: kubeproxy.config.k8s.io/v1alpha1
	kind: KubeProxyConfiguration
	mode: ${MIKAN_CLUSTER_PROXY_MODE:-iptables}
	clusterCIDR: $POD_CIDR
	clientConnection: {kubeconfig: $conf/proxy.kubeconfig}
	conntrack: {maxPerCore: 0}
	hostnameOverride: $NODE_NAME
	oomScoreAdj: 0
YAML
wait_for 30 containerd in_node "$BIN/ctr" version
start kubelet env PATH="$BIN:$PATH" "$a" kubelet --config="$conf/kubelet.yaml" --kubeconfig="$conf/kubelet.kubeconfig" \
	--hostname-override="$NODE_NAME" --node-ip="$NODE_IP" --root-dir=/var/lib/kubelet --cert-dir="$conf/kubelet-certs"
start kube-proxy "$a" kube-proxy --config="$conf/kube-proxy.yaml"
start netpol "$BIN/netpol" "$conf/netpol.kubeconfig" "$SERVICE_CIDR"
wait_for 60 "the default ServiceAccount" k get serviceaccount default
took "default ServiceAccount"
wait_for 60 "the node" k wait --for=condition=Ready "node/$NODE_NAME" --timeout=1s
took "node Ready"
wait $importing || die "image import failed: $(tail -3 "$STATE/log/import.log")"
took "images imported"

# --------------------------------------------------------------------- add-ons
sed -e "s#@DNS_IP@#$DNS_IP#" "$HERE/addons.yaml" | k apply -f - >/dev/null
"$HERE/volumes.sh" pool
k -n kube-system rollout status deployment/coredns --timeout=60s >/dev/null || die "CoreDNS did not come up"
took "DNS ready"
wait_for 10 "the fake outside" in_net bash -c ": <>/dev/tcp/$OUTSIDE_IP/80"
touch "$STATE/ready"
echo "$KUBECONFIG_OUT"
