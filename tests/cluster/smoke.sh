#!/bin/bash
# Proves that the running cluster is a real one. Prints one line a check and, at
# the end, 'N passed, N failed'.
. "$(dirname "$0")/lib.sh"
export KUBECONFIG=$KUBECONFIG_OUT
k() { "$BIN/kubectl" "$@"; }
passed=0 failed=0
check() { # WHAT CMD...
	local what=$1 out; shift
	if out=$("$@" 2>&1); then passed=$((passed + 1)); echo "ok    $what"
	else failed=$((failed + 1)); echo "FAIL  $what: ${out: -400}"; fi
}
not() { ! "$@"; }
says() { local want=$1; shift; "$@" | grep -q -- "$want"; }
pod_sh() { k -n smoke exec "$1" -- sh -c "$2"; }
fetch='python3 -c "import urllib.request; print(urllib.request.urlopen(\"http://web/token\", timeout=3).read().decode())"'

# get POD ADDRESS [PORT]: what that address answers to a request from the pod; dns POD NAME: the outside's answer.
get() { k -n smoke exec "$1" -- python3 -c "import urllib.request; print(urllib.request.urlopen('http://$2:${3:-80}/', timeout=2).read().decode())"; }
echoes() { k -n smoke exec "$1" -- python3 -c "import socket; c = socket.create_connection(('$2', 7), 2); c.sendall(b'ping'); print(c.recv(4))"; }
dns() { "$HERE/ctl.sh" net python3 -c "
import socket, sys
question = b''.join(bytes([len(label)]) + label.encode() for label in '$1'.split('.')) + b'\\0\\0\\1\\0\\1'
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)
s.sendto(b'\\1\\2\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0' + question, ('$OUTSIDE_IP', 53))
answer = s.recv(512)
print('code', answer[3] & 15, *answer[-4:])"; }
dial() { k -n smoke exec "$1" -- python3 -c "import socket; socket.create_connection(('$2', $3), 2)"; }
audited() { awk -v verb="\"verb\":\"$1\"" '/"resource":"widgets"/ && index($0, verb) { n++ } END { print n + 0 }' "$STATE/log/audit.log"; }

trap 'k delete namespace smoke --wait=false >/dev/null 2>&1; "$HERE/volumes.sh" remove smoke-small 2>/dev/null; k delete crd widgets.smoke.test >/dev/null 2>&1' EXIT
"$HERE/volumes.sh" small 1m smoke-small smoke/small
k apply -f - >/dev/null <<YAML
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.smoke.test}
spec:
  group: smoke.test
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}, x-kubernetes-validations: [{rule: "self.size < 10"}]}}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: smoke, labels: {pod-security.kubernetes.io/enforce: restricted}}
YAML
check "CRD established" k wait --for=condition=Established crd/widgets.smoke.test --timeout=10s
check "default ServiceAccount appears" bash -c 'for i in $(seq 50); do "$0" -n smoke get sa default && exit; sleep 0.1; done; exit 1' "$BIN/kubectl"
widget() { printf '{"apiVersion":"smoke.test/v1","kind":"Widget","metadata":{"name":"w%s"},"spec":{"size":%s}}' "$1" "$1" | k -n smoke apply -f -; }
check "custom resource accepted" widget 3
check "custom resource refused by a CEL rule" not widget 30
k -n smoke apply -f - >/dev/null <<'YAML'
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {token: hunter2}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: small}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8000}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: web
    image: localhost/python:3.11
    imagePullPolicy: Never
    command: [python3, -m, http.server, "8000", --directory, /secret]
    resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {cpu: 500m, memory: 128Mi}}
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    readinessProbe: {httpGet: {path: /, port: 8000}, periodSeconds: 1}
    volumeMounts:
    - {name: secret, mountPath: /secret, readOnly: true}
    - {name: data, mountPath: /data}
    - {name: data, mountPath: /sub, subPath: a/b}
    - {name: small, mountPath: /small}
  volumes:
  - {name: secret, secret: {secretName: s, defaultMode: 0440}}
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: small, persistentVolumeClaim: {claimName: small}}
---
apiVersion: v1
kind: Pod
metadata: {name: client, labels: {app: client}}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: c
    image: localhost/python:3.11
    imagePullPolicy: Never
    command: [sleep, "3600"]
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
YAML
check "pods Ready" k -n smoke wait --for=condition=Ready pod/web pod/client --timeout=60s
check "a plain claim is bound to a volume of the pool" says '^local-[0-9]*$' k -n smoke get pvc data -o 'jsonpath={.spec.volumeName}{"\n"}'
check "a full disk" says 'No space left' pod_sh web 'head -c 2000000 /dev/zero 2>&1 >/small/f || true'
check "Secret volume" says hunter2 pod_sh web 'cat /secret/token'
check "runAsUser and fsGroup" says 'uid=1000 gid=1000 groups=1000,2000' pod_sh web id
check "volume and subPath are writable and the same" pod_sh web 'echo x >/sub/f && grep -q x /data/a/b/f'
check "read-only root" not pod_sh web 'touch /etc/x'
check "no capabilities, seccomp filter on" says '^Seccomp:.2' pod_sh web 'grep -q "CapEff:.0000000000000000" /proc/self/status && grep ^Seccomp: /proc/self/status'
check "memory limit in the cgroup" says 134217728 pod_sh web 'cat /sys/fs/cgroup/memory/memory.limit_in_bytes'
check "DNS and ClusterIP" says hunter2 pod_sh client "$fetch"
check "the API by its ClusterIP" says ok pod_sh client 'python3 -c "import ssl, urllib.request; print(urllib.request.urlopen(\"https://kubernetes.default/readyz\", context=ssl._create_unverified_context()).read().decode())"'
check "logs" says 'GET /token' k -n smoke logs web
check "exec with a terminal" says /dev/pts/ script -qec "$BIN/kubectl -n smoke exec -it web -- tty" /dev/null
check "privileged pod refused (restricted)" not k -n smoke run bad --image=localhost/python:3.11 --privileged
k -n smoke apply -f - >/dev/null <<'YAML'
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}
YAML
sleep 2
check "NetworkPolicy blocks" not pod_sh client "$fetch"
k -n smoke apply -f - >/dev/null <<'YAML'
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {app: client}}}]}]}
YAML
sleep 2
check "NetworkPolicy allows" says hunter2 pod_sh client "$fetch"
check "the outside answers, and sees the node's address" says "\"server\": \"$OUTSIDE_IP\", \"client\": \"$OUTSIDE_GATEWAY\"" get client $OUTSIDE_IP
for address in "${OUTSIDE_MORE[@]}"; do check "$address answers" says "\"server\": \"$address\"" get client "$address"; done
check "TCP echo on the outside" says ping echoes client $OUTSIDE_IP
check "outside.test has an address" says "code 0 ${OUTSIDE_IP//./ }" dns any.outside.test
check "another name does not exist" says "code 3" dns example.test
check "the API server by the node's address" dial client $NODE_IP 6443
k -n smoke apply -f - >/dev/null <<'YAML'
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: internet-only}
spec:
  podSelector: {matchLabels: {app: client}}
  policyTypes: [Egress]
  egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, 169.254.0.0/16]}}]}]
YAML
sleep 2
check "egress to the Internet alone: the outside answers" says "\"server\": \"$OUTSIDE_IP\"" get client $OUTSIDE_IP
check "... 198.51.100.10 too" says 198.51.100.10 get client 198.51.100.10
for address in "${OUTSIDE_MORE[@]:1}"; do check "... $address does not" not get client "$address"; done
check "... nor the API server by the node's address" not dial client $NODE_IP 6443
check "... nor by its ClusterIP" not dial client $KUBERNETES_IP 443
check "... nor a pod" not dial client "$(k -n smoke get pod web -o jsonpath='{.status.podIP}')" 8000
check "writes are in the audit log, once each" says '^2$' audited create
check "reads are not" says '^0$' audited get
"$HERE/ctl.sh" kill kubelet; "$HERE/ctl.sh" kill kube-apiserver
"$HERE/ctl.sh" start kube-apiserver; "$HERE/ctl.sh" start kubelet
wait_for 60 "kube-apiserver" k get --raw /readyz
check "pods outlive kubelet and API server" bash -c 'for i in $(seq 100); do [ "$("$0" -n smoke get pod web -o jsonpath="{.status.containerStatuses[0].restartCount} {.status.phase}")" = "0 Running" ] && "$0" -n smoke exec web -- true && exit; sleep 0.2; done; exit 1' "$BIN/kubectl"
k delete namespace smoke --timeout=60s >/dev/null
"$HERE/volumes.sh" reclaim 2>/dev/null
check "a released volume is free again, and empty" bash -c '[ -z "$("$0" get pv -o "jsonpath={.items[?(@.status.phase==\"Released\")].metadata.name}" | grep -o "local-[0-9]*")" ] && [ -z "$(find "$1" -mindepth 2 -not -path "*/smoke-small/*")" ]' "$BIN/kubectl" "$VOLUMES"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
