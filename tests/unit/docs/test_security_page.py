"""Each attack that docs/security.md lists is made by a test, which EVIDENCE names.

The page itself names no tests, because its readers are users.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/security.md"

# The beginning of an attack's row, and below it what makes the attack: a file, a function in a
# file (FILE::FUNCTION), or a target of make.
EVIDENCE = """
a user without `pods/create`
    tests/chart/test_chart_rights.py::test_who_may_create
a template names another service account
    tests/chart/test_chart_rights.py::test_who_may_create
    tests/chart/test_chart_rights.py::test_the_account_of_every_task_is_checked
a pod asks the HTTP server about another job
    tests/chart/test_chart_server.py::test_a_rank_changes_its_own_job_and_no_other
    tests/chart/test_chart_server.py::test_a_pods_tokens_are_valid_for_their_server_only
a user without permission requests the jobs or logs
    tests/chart/test_chart_history.py::test_a_user_sees_only_what_kubernetes_lets_this_user_see
    tests/unit/history/test_history_api.py::test_a_response_needs_the_rights
a job's name in a path
    tests/chart/test_chart_server.py::test_no_name_gives_access_to_another_namespace
the token of a deleted pod
    tests/chart/test_chart_server.py::test_the_token_of_a_deleted_pod_stops_working
a user without permission on `dijobs/scale`
    tests/chart/test_chart_server.py::test_users_need_permission
a route without authentication
    tests/unit/server/test_callers.py::test_every_route_but_the_description_needs_a_token
a request violates the API description
    make fuzz
a job, a pod or a status claims
    tests/e2e/test_isolation.py
    tests/faults/test_tampering.py::test_a_pod_of_another_namespace_is_not_a_rank
    tests/faults/test_hostile.py
a tenant creates a Lease
    tests/unit/controller/leader/test_claims.py
    tests/unit/controller/leader/test_claim_events.py
peer lists, revisions and labels
    tests/faults/test_tampering.py
    tests/e2e/test_isolation.py
a pod that belongs to another job
    tests/e2e/test_network_policy.py
a misspelled rule
    tests/unit/controller/test_network_policy.py::test_a_rule_that_would_admit_more_than_it_states_is_rejected
    tests/apiserver/test_isolation.py
arbitrary objects are generated
    make hostile
    tests/apiserver/test_poison.py
a user opens lists, jobs, logs and totals
    tests/apiserver/test_page_in_cluster.py::test_a_user_sees_exactly_what_kubectl_auth_can_i_allows
    tests/apiserver/test_page_in_cluster.py::test_the_page_of_a_job_has_only_the_objects_that_the_user_may_read
a client of the page forges headers
    tests/apiserver/test_page_in_cluster.py::test_forged_headers_give_a_token_no_more_permissions
    tests/apiserver/test_page_in_cluster.py::test_forged_headers_do_not_name_another_user
a proxy names `system:masters`
    tests/apiserver/test_page_in_cluster.py::test_forged_headers_do_not_name_another_user
    tests/unit/extras/test_ui_cluster_users.py::test_the_user_of_a_proxy
a path of the page
    tests/apiserver/test_page_in_cluster.py::test_no_path_leads_to_another_namespace
the page is opened under another host name
    tests/apiserver/test_page_in_cluster.py::test_other_hosts_and_other_sites_get_nothing
    tests/unit/extras/test_ui_cluster_users.py::test_requests_that_no_user_may_send
a user loses a permission
    tests/unit/extras/test_ui_cluster.py::test_a_stream_ends_when
the token of the page's own service account
    tests/apiserver/test_page_in_cluster.py::test_the_page_itself_may_read_nothing
thousands of sockets
    tests/unit/process/test_bounded_http.py
the HTTP server gets 10,000 requests
    tests/faults/test_server_load.py
"""


def _missing(evidence: str) -> bool:
    if evidence.startswith("make "):
        makefile = (ROOT / "Makefile").read_text()
        return f".PHONY: {evidence.removeprefix('make ')}\n" not in makefile
    file, _, function = evidence.partition("::")
    path = ROOT / file
    return not path.is_file() or (f"def {function}(" not in path.read_text() and function != "")


def test_each_attack_of_the_page_has_evidence_that_exists() -> None:
    section = PAGE.read_text().partition("## Tested attacks\n")[2].partition("\n## ")[0]
    attacks = re.findall(r"(?m)^\| (?!an attack|---)(.+?) \|", section)
    lines = EVIDENCE.strip().splitlines()
    known = [line for line in lines if not line.startswith(" ")]
    assert len(attacks) == len(known)
    pairs = zip(attacks, known, strict=True)
    assert [pair for pair in pairs if not pair[0].startswith(pair[1])] == []
    assert [line for line in lines if line.startswith(" ") and _missing(line.strip())] == []
