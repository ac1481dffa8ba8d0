{{- define "mikan.offices" -}}
{{- .Values.offices.namespace | default (printf "%s-offices" .Release.Name) -}}
{{- end -}}

{{- /* dict "root" $ "component" "gateway" */ -}}
{{- define "mikan.name" -}}
{{- printf "%s-%s" .root.Release.Name .component -}}
{{- end -}}

{{- define "mikan.image" -}}
{{- printf "%s-%s:%s" .root.Values.images.prefix .component (.root.Values.images.tag | default .root.Chart.AppVersion) -}}
{{- end -}}

{{- define "mikan.selector" -}}
app.kubernetes.io/name: mikan
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "mikan.labels" -}}
{{ include "mikan.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "mikan.claim" -}}
{{- $storage := index .root.Values.storage .volume -}}
{{- $storage.existingClaim | default (printf "%s-%s" .root.Release.Name .volume) -}}
{{- end -}}

{{- /* The settings, and what an admin changed of them while the release runs. */ -}}
{{- define "mikan.settingsVolume" -}}
- name: settings
  projected:
    sources:
    - configMap: {name: {{ .Release.Name }}-settings}
    - configMap: {name: {{ .Release.Name }}-settings-overrides, optional: true}
{{- end -}}

{{- define "mikan.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "mikan.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "mikan.pullSecrets" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "mikan.priority" -}}
{{- if .Values.priorityClass.existing }}
priorityClassName: {{ .Values.priorityClass.existing }}
{{- else if .Values.priorityClass.create }}
priorityClassName: {{ .Release.Namespace }}-{{ .Release.Name }}
{{- end }}
{{- end -}}

{{- /* A random value that an upgrade keeps: dict "root" $ "name" secret "key" key. Base64, as Secret.data wants it. */ -}}
{{- define "mikan.kept" -}}
{{- $existing := lookup "v1" "Secret" .root.Release.Namespace .name -}}
{{- if and $existing $existing.data (index $existing.data .key) -}}
{{- index $existing.data .key -}}
{{- else -}}
{{- randAlphaNum 48 | b64enc -}}
{{- end -}}
{{- end -}}

{{- define "mikan.keySecret" -}}
{{- $own := index .root.Values .component "key" -}}
{{- $own.existingSecret | default (printf "%s-%s-key" .root.Release.Name .component) -}}
{{- end -}}

{{- define "mikan.consoleSecret" -}}
{{- .Values.gateway.console.existingSecret | default (printf "%s-console" .Release.Name) -}}
{{- end -}}

{{- /* The API server's addresses as JSON: {"endpoints": [{"ip", "port"}]}. From the values, else from the cluster. */ -}}
{{- define "mikan.apiServer" -}}
{{- $found := list -}}
{{- if .Values.networkPolicy.apiServer -}}
{{- $found = .Values.networkPolicy.apiServer -}}
{{- else -}}
{{- $slice := lookup "discovery.k8s.io/v1" "EndpointSlice" "default" "kubernetes" -}}
{{- if $slice -}}
{{- $port := (index $slice.ports 0).port -}}
{{- range $slice.endpoints -}}
{{- range .addresses -}}
{{- $found = append $found (dict "ip" . "port" $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $found -}}
{{- fail "The API server's addresses can't be read from a cluster: set networkPolicy.apiServer, as in --set 'networkPolicy.apiServer[0].ip=10.0.0.1' --set 'networkPolicy.apiServer[0].port=6443' (kubectl get endpointslice kubernetes shows them)" -}}
{{- end -}}
{{- dict "endpoints" $found | toJson -}}
{{- end -}}

{{- /* Egress to the API server; one rule for each address. */ -}}
{{- define "mikan.egressToApiServer" -}}
{{- range (include "mikan.apiServer" . | fromJson).endpoints }}
- to: [{ipBlock: {cidr: {{ .ip }}/{{ contains ":" .ip | ternary 128 32 }}}}]
  ports: [{protocol: TCP, port: {{ .port }}}]
{{- end }}
{{- end -}}

{{- define "mikan.egressToDns" -}}
- to:
  - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ .Values.networkPolicy.dns.namespace }}}}
    podSelector: {matchLabels: {{ .Values.networkPolicy.dns.podLabels | toJson }}}
  ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
{{- end -}}

{{- define "mikan.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 1
  # A busy node makes a start slow, and starting again makes it no faster.
  failureThreshold: 300
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 20
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 2
  timeoutSeconds: 2
{{- end -}}

{{- define "mikan.checks" -}}
{{- if and (gt (int .Values.gateway.replicas) 1) (not .Values.database.existingSecret) -}}
{{- fail "gateway.replicas above 1 needs Postgres: SQLite on one volume has one writer. Set database.existingSecret, or gateway.replicas=1" -}}
{{- end -}}
{{- if eq (include "mikan.offices" .) .Release.Namespace -}}
{{- fail "offices.namespace must not be the release's own namespace: whoever runs pods there could read the release's Secrets" -}}
{{- end -}}
{{- end -}}

{{- /*
Whether this release installs and updates a CustomResourceDefinition: crds.install says so, and no other release and no
admin has made it already. dict "root" $ "name" its name
*/ -}}
{{- define "mikan.ownsCrd" -}}
{{- if .root.Values.crds.install -}}
{{- $crd := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .name -}}
{{- $owner := dict -}}
{{- if $crd -}}{{- $owner = $crd.metadata.annotations | default dict -}}{{- end -}}
{{- if or (not $crd) (and (eq (get $owner "meta.helm.sh/release-name") .root.Release.Name) (eq (get $owner "meta.helm.sh/release-namespace") .root.Release.Namespace)) -}}
yes
{{- end -}}
{{- end -}}
{{- end -}}
