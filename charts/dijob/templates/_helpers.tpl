{{/* Names and labels, the operator's rights, and the look at the cluster's CRD. */}}

{{- define "dijob.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "dijob.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "dijob.labels" -}}
{{ include "dijob.selector" . }}
app.kubernetes.io/part-of: dijob
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "dijob.serverSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end -}}

{{- define "dijob.serverLabels" -}}
{{ include "dijob.serverSelector" . }}
app.kubernetes.io/part-of: dijob
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "dijob.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "dijob.launcherImage" -}}
{{ .Values.launcher.image | default (printf "dijob/launcher:%s" .Chart.AppVersion) }}
{{- end -}}

{{/* The operator's rights: one list for the ClusterRole and for the Roles. Every rule says why it is there. */}}
{{- define "dijob.rules" -}}
# The jobs to run. patch: it writes spec.replicas once where a job leaves it out, since without a number there GET scale
# answers 500 and neither `kubectl scale` nor an autoscaler works. delete: ttlSecondsAfterFinished
# asks for it, of a job that has ended. It never creates one.
- apiGroups: [diengine.opendilab.org]
  resources: [dijobs]
  verbs: [get, list, watch, patch, delete]
# What users read of a job: phase, conditions, counts. One patch at the end of a pass, and only when it differs.
- apiGroups: [diengine.opendilab.org]
  resources: [dijobs/status]
  verbs: [patch]
# Owner references with blockOwnerDeletion: a job that is deleted in the foreground goes after its pods. Some clusters ask
# for this right before they accept such references; there is no object behind it.
- apiGroups: [diengine.opendilab.org]
  resources: [dijobs/finalizers]
  verbs: [update]
# A job's processes. patch: the peers' addresses go into the pods' annotations. delete: a lost rank renews its set, and
# cleanPodPolicy tidies up. No update, no deletecollection, no exec, no log.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete, patch]
# One headless service per job gives its pods names, another leads to its own Redis server where it asks for one. They go
# with the job by garbage collection, so no delete.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create]
# Who is no rank of a job does not get at its own Redis server. get: whose an object of that name is.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create]
# create, patch: what happened, repeats folded into one event. get, list: a volume that cannot be mounted shows only in
# the kubelet's events (FailedMount), and the job's condition has to name it.
- apiGroups: [""]
  resources: [events]
  verbs: [get, list, create, patch]
{{- end -}}

{{/* What the HTTP server may do with the jobs of its clients, as far as the release reaches. */}}
{{- define "dijob.serverRules" -}}
# Whether a job is there, has ended, and which sizes it may have.
- apiGroups: [diengine.opendilab.org]
  resources: [dijobs]
  verbs: [get]
# The size that a job asks for.
- apiGroups: [diengine.opendilab.org]
  resources: [dijobs/scale]
  verbs: [patch]
# status.progress and status.profilings.
- apiGroups: [diengine.opendilab.org]
  resources: [dijobs/status]
  verbs: [patch]
# get: the pod to which a token is bound, and whose it is. list: where a job's replicas are.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list]
{{- end -}}

{{/* What it may do besides with networkPolicy.jobs. */}}
{{- define "dijob.isolatingRules" -}}
# A job's own policy. list, watch: one that somebody has deleted is made again. patch: whom the job lets in can change while
# it runs. It goes with the job by garbage collection, so no delete.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [list, watch, patch]
{{- end -}}

{{/*
Stops before anything is changed when the cluster's CRD is not this release's. `lookup` finds nothing in
`helm template` and in a client-side dry run, so both work without a cluster.
*/}}
{{- define "dijob.checkCrd" -}}
{{- if .Values.crds.check -}}
{{- $name := "dijobs.diengine.opendilab.org" -}}
{{- $crd := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name -}}
{{- if $crd -}}
{{- $labels := $crd.metadata.labels | default dict -}}
{{- $annotations := $crd.metadata.annotations | default dict -}}
{{- if ne (get $labels "app.kubernetes.io/part-of") "dijob" -}}
{{- include "dijob.foreignCrd" (dict "crd" $crd) | fail -}}
{{- else if .Values.crds.install -}}
{{- $owner := printf "%s/%s" (get $annotations "meta.helm.sh/release-namespace") (get $annotations "meta.helm.sh/release-name") -}}
{{- $helm := eq (get $labels "app.kubernetes.io/managed-by") "Helm" -}}
{{- if or (not $helm) (ne $owner (printf "%s/%s" .Release.Namespace .Release.Name)) -}}
{{- include "dijob.otherOwner" (dict "name" $name "owner" (ternary $owner "" $helm) "release" .Release) | fail -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Two releases for the whole cluster would serve the same jobs. One for some namespaces beside it is no such thing. */}}
{{- define "dijob.checkOthers" -}}
{{- if and .Values.crds.check (not .Values.namespaces) -}}
{{- $mine := printf "%s/%s" .Release.Namespace .Release.Name -}}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $annotations := .metadata.annotations | default dict -}}
{{- $owner := printf "%s/%s" (get $annotations "meta.helm.sh/release-namespace") (get $annotations "meta.helm.sh/release-name") -}}
{{- if and (eq (get $labels "app.kubernetes.io/part-of") "dijob") (eq (get $labels "app.kubernetes.io/component") "operator") (ne $owner "/") (ne $owner $mine) -}}
{{- printf "Nothing was changed: the Helm release %s serves the whole cluster already: upgrade that one, or give this one its own `namespaces`, which the other one then leaves alone (docs/install.md#one-teams-namespaces)" $owner | fail -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dijob.foreignCrd" -}}
Nothing was changed: the cluster already has a CustomResourceDefinition {{ .crd.metadata.name }} (created {{ .crd.metadata.creationTimestamp }}) that is not from this chart, most likely DI-orchestrator's, and two operators must not run the same DIJobs: finish or move its jobs and remove it first, step by step in docs/install.md#di-orchestrator.
{{- end -}}

{{- define "dijob.otherOwner" -}}
{{- $mine := printf "%s/%s" .release.Namespace .release.Name -}}
Nothing was changed: the CustomResourceDefinition {{ .name }} is ours, but {{ if and .owner (ne .owner "/") }}belongs to the Helm release {{ .owner }}{{ else }}was not installed by Helm{{ end }}, not to {{ $mine }}: where that one still runs an operator, upgrade it, or give each its own `namespaces` and set crds.install=false here; else hand the CRD over (no job is touched) and repeat: kubectl label crd {{ .name }} --overwrite app.kubernetes.io/managed-by=Helm && kubectl annotate crd {{ .name }} --overwrite meta.helm.sh/release-name={{ .release.Name }} meta.helm.sh/release-namespace={{ .release.Namespace }}
{{- end -}}
