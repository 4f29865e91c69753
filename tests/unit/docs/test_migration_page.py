"""docs/migration.md has a row for everything that DI-orchestrator knows, and each row that
describes this operator's behavior is covered by a test.

The page itself names no tests, because its readers are users. EVIDENCE below does.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]

DOC = ROOT / "docs/migration.md"

# Rows of the page's tables, and below each the tests that cover it, as FOLDERS/FILE.FUNCTION.
EVIDENCE = """
spec.group
    unit/compatibility/test_di_orchestrator_pods.test_labels_and_annotations_of_a_pod_of_a_task
    unit/compatibility/test_di_orchestrator.test_values_that_only_this_operator_rejects
spec.priority
    unit/compatibility/test_di_orchestrator_pods.test_the_priority_becomes_a_priority_class
spec.engineFields.topology
    unit/compatibility/test_di_orchestrator.test_engine_fields
    unit/compatibility/test_di_orchestrator.test_values_that_only_this_operator_rejects
spec.engineFields.parallelWorkers
    unit/compatibility/test_di_orchestrator.test_engine_fields
spec.cleanPodPolicy
    unit/core/test_plan_end.test_more_failures_than_allowed_end_the_job
    unit/core/test_plan_end.test_pods_at_the_gate_of_an_ended_job_are_deleted_under_every_policy
spec.preemptible
    unit/compatibility/test_di_orchestrator.test_exit_code_143_does_not_count_in_a_preemptible_job
spec.minReplicas
    apiserver/test_compatibility.test_no_min_replicas_of_0
spec.maxReplicas
    unit/compatibility/test_di_orchestrator.test_the_number_of_pods_of_a_job_of_1_0
spec.template
    unit/compatibility/test_di_orchestrator_pods.test_labels_of_the_template_are_kept
spec.backoffLimit
    apiserver/test_compatibility.test_a_backoff_limit_of_null_is_the_default
    unit/core/test_plan_end.test_failures_up_to_the_limit_do_not_end_the_job
    unit/core/membership/test_failures.test_a_gang_restart_counts_once_for_the_rank_that_failed_first
spec.volumes
    unit/compatibility/test_di_orchestrator_pods.test_all_tasks_have_the_volumes_of_the_job
spec.tasks
    unit/compatibility/test_di_orchestrator.test_accepted
tasks[].replicas
    unit/compatibility/test_di_orchestrator.test_tasks_that_only_this_operator_rejects
tasks[].type
    unit/compatibility/test_di_orchestrator.test_rejected_for_the_reason_in_its_name
tasks[].name
    unit/compatibility/test_di_orchestrator.test_a_task_without_a_name_is_named_after_its_type
    unit/compatibility/test_di_orchestrator.test_tasks_that_only_this_operator_rejects
tasks[].template
    unit/compatibility/test_di_orchestrator_pods.test_labels_of_the_template_are_kept
status.phase
    unit/compatibility/test_di_orchestrator.test_a_job_that_ended_under_di_orchestrator_stays_ended
status.conditions
    apiserver/test_migration.test_the_steps_of_the_document
status.replicas
    unit/core/test_plan.test_the_status_counts_only_pods_that_are_not_being_deleted
status.readyReplicas
    unit/core/test_plan.test_the_status_counts_only_pods_that_are_not_being_deleted
status.taskStatus
    unit/compatibility/test_di_orchestrator.test_the_status_counts_pods_by_task_and_phase
    apiserver/test_compatibility.test_a_job_of_di_orchestrator_runs_and_has_its_labels
status.restarts
    unit/core/membership/test_failures.test_no_failure_counts_twice
status.generation
    unit/compatibility/test_di_orchestrator.test_a_status_of_1_0_is_readable
status.completionTimestamp
    unit/compatibility/test_di_orchestrator.test_a_status_of_1_0_is_readable
diengine/operator
    apiserver/test_compatibility.test_a_job_of_di_orchestrator_runs_and_has_its_labels
diengine/job
    apiserver/test_compatibility.test_a_job_of_di_orchestrator_runs_and_has_its_labels
diengine/pod
    apiserver/test_compatibility.test_a_job_of_di_orchestrator_runs_and_has_its_labels
diengine/group
    unit/compatibility/test_di_orchestrator_pods.test_labels_of_a_pod_without_task_and_group
diengine/rank
    unit/compatibility/test_di_orchestrator_pods.test_labels_and_annotations_of_a_pod_of_a_task
diengine/task-type
    apiserver/test_compatibility.test_a_job_of_di_orchestrator_runs_and_has_its_labels
diengine/task-name
    apiserver/test_compatibility.test_a_job_of_di_orchestrator_runs_and_has_its_labels
diengine/task-rank
    apiserver/test_compatibility.test_a_job_of_di_orchestrator_runs_and_has_its_labels
diengine/replicas
    apiserver/test_compatibility.test_a_job_of_di_orchestrator_runs_and_has_its_labels
diengine/node
    unit/compatibility/test_di_orchestrator_pods.test_labels_and_annotations_of_a_pod_of_a_task
diengine/generation
    unit/compatibility/test_di_orchestrator_pods.test_labels_of_a_pod_without_task_and_group
DI_JOB_ID
    unit/compatibility/test_di_orchestrator_pods.test_variables_of_di_orchestrator_are_set
DI_RANK
    unit/compatibility/test_di_orchestrator_pods.test_variables_of_di_orchestrator_are_set
DI_NODES
    unit/compatibility/test_di_orchestrator_pods.test_variables_of_di_orchestrator_are_set
    unit/core/render/test_pod_told.test_with_hostname_addressing_the_list_and_the_gate_have_names
DI_<TASK>_NODES
    unit/compatibility/test_di_orchestrator_pods.test_variables_of_di_orchestrator_are_set
DI_SERVER_URL
    unit/core/render/test_pod_told.test_pods_get_url_and_token_only_if_there_is_a_server
DI_JOB_GENERATION
    unit/compatibility/test_di_orchestrator_pods.test_variables_of_di_orchestrator_that_are_not_set
DI_PARALLEL_WORKERS_ARG
    unit/compatibility/test_di_orchestrator_pods.test_variables_of_di_orchestrator_that_are_not_set
DI_PORTS_ARG
    unit/compatibility/test_di_orchestrator_pods.test_variables_of_di_orchestrator_that_are_not_set
DI_NODE_IDS_ARG
    unit/compatibility/test_di_orchestrator_pods.test_variables_of_di_orchestrator_that_are_not_set
DI_ATTACHED_NODES_ARG
    unit/compatibility/test_di_orchestrator_pods.test_variables_of_di_orchestrator_that_are_not_set
pods of a job with tasks
    apiserver/test_compatibility.test_a_job_of_di_orchestrator_runs_and_has_its_labels
pods of a job with a template
    unit/compatibility/test_di_orchestrator_pods.test_labels_of_a_pod_without_task_and_group
the headless Service
    unit/compatibility/test_di_orchestrator_pods.test_names_of_pods_and_service
hostname and subdomain
    unit/compatibility/test_di_orchestrator_pods.test_names_of_pods_and_service
restartPolicy
    unit/compatibility/test_di_orchestrator_pods.test_the_templates_restart_policy_is_kept
the job's name
    apiserver/test_bad_input.test_rejected
a job that has ended under DI-orchestrator
    apiserver/test_migration.test_the_steps_of_the_document
"""


def test_the_rows_with_evidence_are_on_the_page_and_their_tests_exist() -> None:
    text = DOC.read_text()
    lines = EVIDENCE.strip().splitlines()
    rows = [line for line in lines if not line.startswith(" ")]
    assert [row for row in rows if not re.search(rf"\n\| `?{re.escape(row)}`? \|", text)] == []
    named = [re.fullmatch(r" {4}([\w/]+)/(test_\w+)\.(test_\w+)", line) for line in lines]
    lost = [
        match[0].strip()
        for match in named
        if match
        and f"def {match[3]}(" not in (ROOT / f"tests/{match[1]}/{match[2]}.py").read_text()
    ]
    assert lost == []
    assert len(rows) + sum(map(bool, named)) == len(lines)


# pkg/api/v2alpha1/dijob_types.go, pkg/common/config.go and pkg/context/ of v1.0.0 and v1.1.0 to
# v1.1.3.
THEIRS = """
spec.group spec.priority spec.engineFields.topology spec.engineFields.parallelWorkers
spec.cleanPodPolicy spec.preemptible spec.minReplicas spec.maxReplicas spec.template
spec.backoffLimit spec.volumes spec.tasks
tasks[].replicas tasks[].type tasks[].name tasks[].template
status.completionTimestamp status.generation status.phase status.replicas
status.readyReplicas status.allocation
status.profilings status.conditions status.restarts status.reschedules status.taskStatus
diengine/operator diengine/group diengine/job diengine/rank diengine/pod
diengine/task-type diengine/task-name
diengine/generation diengine/replicas diengine/node diengine/task-rank
DI_JOB_ID DI_JOB_GENERATION DI_SERVER_URL DI_PARALLEL_WORKERS_ARG
DI_PORTS_ARG DI_NODE_IDS_ARG DI_ATTACHED_NODES_ARG
DI_RANK DI_NODES DI_<TASK>_NODES DI_JOB_DEFAULT_RESOURCES
"""


def test_the_document_has_a_row_for_each_field_label_annotation_and_variable() -> None:
    text = DOC.read_text()
    assert [thing for thing in THEIRS.split() if f"\n| `{thing}`" not in text] == []
