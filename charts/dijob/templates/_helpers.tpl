{{/* Names and labels, RBAC rules, and the checks of the cluster before an installation. */}}

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

{{- define "dijob.uiSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: ui
{{- end -}}

{{- define "dijob.uiLabels" -}}
{{ include "dijob.uiSelector" . }}
app.kubernetes.io/part-of: dijob
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "dijob.historySelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: history
{{- end -}}

{{- define "dijob.historyLabels" -}}
{{ include "dijob.historySelector" . }}
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

{{/* The operator's RBAC rules, shared by the ClusterRole and the Roles. A comment explains each rule. */}}
{{- define "dijob.rules" -}}
# The jobs to reconcile. patch: the operator sets spec.replicas if a job leaves it out or has tasks. Without it, GET scale returns
# 500, and `kubectl scale`, autoscalers and PodDisruptionBudgets do not work. delete: finished jobs with ttlSecondsAfterFinished. The operator never creates
# a job.
- apiGroups: [diengine.opendilab.org]
  resources: [dijobs]
  verbs: [get, list, watch, patch, delete]
# What users read: phase, conditions, counts. The operator sends one patch at the end of a reconciliation if the status changed.
- apiGroups: [diengine.opendilab.org]
  resources: [dijobs/status]
  verbs: [patch]
# For owner references with blockOwnerDeletion, which make a foreground deletion of a job wait for its pods. Clusters with the
# admission plugin OwnerReferencesPermissionEnforcement require this permission. The CRD has no such subresource.
- apiGroups: [diengine.opendilab.org]
  resources: [dijobs/finalizers]
  verbs: [update]
# The ranks of a job. patch: the peer list is published as an annotation of each pod. delete: pods are replaced after a loss, and
# removed by cleanPodPolicy. The operator needs no update, deletecollection, exec or log.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete, patch]
# A headless Service gives the pods of a job DNS names. A second one points to the job's Redis server if it has one. Garbage
# collection deletes them with the job, so the operator does not need delete.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create]
# Allows only the ranks of a job to connect to its Redis server. get: to find out which job owns an existing object with that name.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create]
# Limits how many ranks of a job a drain of nodes may stop (disruptionBudget). patch: the number of ranks that must still run changes.
# delete: a job that is suspended or has ended has no budget. get: the operator does not watch budgets.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, create, patch, delete]
# create, patch: events about jobs; repeats increase the count of an existing event. get, list: a volume that cannot be mounted is
# reported only in an event of the kubelet (FailedMount), which the job's condition quotes.
- apiGroups: [""]
  resources: [events]
  verbs: [get, list, create, patch]
{{- end -}}

{{/* The HTTP server's RBAC rules, for the namespaces of the release. */}}
{{- define "dijob.serverRules" -}}
# To check that a job exists and has not finished, and which sizes it may have.
- apiGroups: [diengine.opendilab.org]
  resources: [dijobs]
  verbs: [get]
# To set the size that a job requests.
- apiGroups: [diengine.opendilab.org]
  resources: [dijobs/scale]
  verbs: [patch]
# To write status.progress and status.profilings.
- apiGroups: [diengine.opendilab.org]
  resources: [dijobs/status]
  verbs: [patch]
# get: the pod to which a token is bound, and the owner of this pod. list: the addresses of a job's replicas.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list]
{{- end -}}

{{/* The history's RBAC rules, for the namespaces of the release. */}}
{{- define "dijob.historyRules" -}}
# The jobs to record. patch: a recorded job with a time to live gets an annotation, without which the operator keeps it for longer.
- apiGroups: [diengine.opendilab.org]
  resources: [dijobs]
  verbs: [get, list, watch, patch]
# To notice when the programs of a job end.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
# To keep the end of a program's log.
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
{{- end -}}

{{/*
Additional RBAC rules of the operator for the engines of gang scheduling whose API the cluster serves, and for the chart's own engine.
Otherwise, the role admin may not have these permissions, and its users could not install the chart in their namespaces.
*/}}
{{- define "dijob.rulesOfNative" -}}
# The PodGroup of a job with gang scheduling (spec.scheduling.engine: Native). patch: its size changes with the job. delete: a suspended
# job has no PodGroup.
- apiGroups: [scheduling.k8s.io]
  resources: [podgroups]
  verbs: [get, create, patch, delete]
{{- end -}}

{{/* Additional RBAC rules of the operator with scheduling.kueue, for the namespaces of the release. */}}
{{- define "dijob.queueingRules" -}}
# The Workload of a job that has a Kueue queue. list, watch: Kueue admits and evicts it. delete: a suspended job has no Workload. patch: removed labels are restored.
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [get, list, watch, create, delete, patch]
# To report PodsReady, reclaimablePods, Finished, and the end of an eviction to Kueue.
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/status]
  verbs: [patch]
# The condition of a waiting job says whether its queue exists, and how many other jobs are waiting.
- apiGroups: [kueue.x-k8s.io]
  resources: [localqueues]
  verbs: [get]
{{- end -}}

{{/* Additional RBAC rules of the operator with scheduling.kueue, for objects without a namespace. */}}
{{- define "dijob.queueingClusterRules" -}}
# The condition of a waiting job says how much quota is free.
- apiGroups: [kueue.x-k8s.io]
  resources: [clusterqueues]
  verbs: [get]
# The node labels and tolerations of the flavors that Kueue has assigned to a job.
- apiGroups: [kueue.x-k8s.io]
  resources: [resourceflavors]
  verbs: [get]
# The value of a job's priority class, which determines the job's place in the queue.
- apiGroups: [kueue.x-k8s.io]
  resources: [workloadpriorityclasses]
  verbs: [get]
# The value of the pods' priority class, which is used if the job itself has none.
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [get]
{{- end -}}

{{- define "dijob.rulesOfVolcano" -}}
# The PodGroups of jobs with the Volcano engine.
- apiGroups: [scheduling.volcano.sh]
  resources: [podgroups]
  verbs: [get, create, patch, delete]
{{- end -}}

{{- define "dijob.rulesOfCoscheduling" -}}
# The PodGroups of jobs with the Coscheduling engine.
- apiGroups: [scheduling.x-k8s.io]
  resources: [podgroups]
  verbs: [get, create, patch, delete]
{{- end -}}

{{- define "dijob.rulesOfKAI" -}}
# The PodGroups of jobs with the KAI engine.
- apiGroups: [scheduling.run.ai]
  resources: [podgroups]
  verbs: [get, create, patch, delete]
{{- end -}}

{{/* Additional RBAC rules of the operator with networkPolicy.jobs. */}}
{{- define "dijob.isolatingRules" -}}
# The NetworkPolicy of each job. list, watch: a deleted policy is created again. patch: spec.networkPolicy can change while the job
# runs. Garbage collection deletes the policy with the job, so the operator does not need delete.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [list, watch, patch]
{{- end -}}

{{/*
Fails before anything is changed if the CRD does not belong to this release. `lookup` returns nothing in
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

{{/*
Fails if another release serves the whole cluster, because both would reconcile the same jobs. A release for some namespaces is
allowed: it claims them, and the other release skips them.
*/}}
{{- define "dijob.checkOthers" -}}
{{- if and .Values.crds.check (not .Values.namespaces) -}}
{{- $mine := printf "%s/%s" .Release.Namespace .Release.Name -}}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $annotations := .metadata.annotations | default dict -}}
{{- $owner := printf "%s/%s" (get $annotations "meta.helm.sh/release-namespace") (get $annotations "meta.helm.sh/release-name") -}}
{{- if and (eq (get $labels "app.kubernetes.io/part-of") "dijob") (eq (get $labels "app.kubernetes.io/component") "operator") (ne $owner "/") (ne $owner $mine) -}}
{{- printf "Nothing was changed: the Helm release %s serves the whole cluster already. Upgrade that release, or set `namespaces` for this one; the other release then skips these namespaces (docs/install.md#one-teams-namespaces)" $owner | fail -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dijob.foreignCrd" -}}
Nothing was changed: the cluster already has a CustomResourceDefinition {{ .crd.metadata.name }} (created {{ .crd.metadata.creationTimestamp }}) that is not from this chart, most likely from DI-orchestrator. Two operators must not reconcile the same DIJobs. Finish or move its jobs and remove the CRD first; docs/install.md#di-orchestrator lists the steps.
{{- end -}}

{{- define "dijob.otherOwner" -}}
{{- $mine := printf "%s/%s" .release.Namespace .release.Name -}}
Nothing was changed: the CustomResourceDefinition {{ .name }} is from this chart, but {{ if and .owner (ne .owner "/") }}belongs to the Helm release {{ .owner }}{{ else }}was not installed by Helm{{ end }}, not to {{ $mine }}. If an operator of that release still runs, upgrade that release, or set `namespaces` for each release and crds.install=false here. Otherwise transfer the CRD to this release, which affects no job, and install again: kubectl label crd {{ .name }} --overwrite app.kubernetes.io/managed-by=Helm && kubectl annotate crd {{ .name }} --overwrite meta.helm.sh/release-name={{ .release.Name }} meta.helm.sh/release-namespace={{ .release.Namespace }}
{{- end -}}
