"""`dijob local` runs a DIJob with real processes, which connect to each other by the variables that
they get, and are restarted by the operator's rules.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from dijob.cli.errors import Exit
from dijob.core.membership import address_list
from dijob_extras.local import places
from dijob_extras.local.ledger import LocalFailureAccount, LocalOutcome
from dijob_runtime.hook import connected
from manifests import dijob
from samples.builders import job
from unit.extras.local_runs import finished, script

MEET = """
import json, os, socket, time
rank, nodes = int(os.environ["DI_RANK"]), os.environ["DI_NODES"].split(",")
assert nodes[rank] == os.environ["DI_POD_IP"]
server = socket.create_server((nodes[rank], 50515))
server.settimeout(20)
end = time.monotonic() + 20
for node in nodes[:rank]:
    while True:
        try:
            socket.create_connection((node, 50515), timeout=5).sendall(b"%d" % rank)
            break
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)
heard = sorted(int(server.accept()[0].recv(9)) for _ in nodes[rank + 1:])
print(json.dumps({"rank": rank, "heard": heard, "ids": os.environ["DI_NODE_IDS"]}))
"""


def test_ranks_connect_by_the_addresses_in_di_nodes(run: Any, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    text = script("meet", MEET, replicas=4, parallelWorkers=2)
    code, out, err = finished(run(text, "--logs", str(logs)))
    assert (code, err) == (0, "dijob: Succeeded: all ranks have exited 0\n"), out
    said = [json.loads(line.partition(" | ")[2]) for line in sorted(out.splitlines())]
    assert [one["heard"] for one in said] == [[1, 2, 3], [2, 3], [3], []]
    assert [one["ids"] for one in said] == ["0,1", "2,3", "4,5", "6,7"]
    files = {path.name: json.loads(path.read_text())["rank"] for path in logs.iterdir()}
    assert files == {f"meet-{rank}.log": rank for rank in range(4)}


FAILS_ONCE = """
import os, pathlib, sys
seen = pathlib.Path(os.environ["SEEN"])
if os.environ["DI_RANK"] == "1" and not seen.exists():
    seen.write_text("")
    sys.exit(3)
"""


def with_env(text: str, **env: str) -> str:
    """Return the YAML with variables in the main container."""
    bodies = list(yaml.safe_load_all(text))
    main = bodies[0]["spec"]["template"]["spec"]["containers"][0]
    main["env"] = [{"name": name, "value": value} for name, value in env.items()]
    return yaml.safe_dump_all(bodies)


def test_a_failed_rank_is_restarted_and_counted(run: Any, tmp_path: Path) -> None:
    text = with_env(script("again", FAILS_ONCE), SEEN=str(tmp_path / "seen"))
    code, _, err = finished(run(text))
    assert code == 0, err
    assert err.splitlines()[0] == (
        "dijob: rank 1 (again-1) exited 3 (counted failure 1 of 3): restarting rank 1"
    )


def test_exceeding_the_backoff_limit_fails_the_job(run: Any) -> None:
    code, _, err = finished(run(script("bad", "raise SystemExit(3)", replicas=1, backoffLimit=1)))
    assert code == Exit.FAILED
    last = err.splitlines()[-1]
    assert last == "Error: the job failed: rank 0 (bad-0) exited 3; backoffLimit is 1"


def test_simultaneous_failures_of_a_gang_count_once(run: Any) -> None:
    """As in one reconciliation of the operator, one failure restarts all ranks."""
    text = script("group", "print('up', flush=True)\nraise SystemExit(3)", runtime="torch")
    bodies = list(yaml.safe_load_all(text))
    bodies[0]["spec"] |= {"replicas": 4, "backoffLimit": 1}
    code, out, err = finished(run(yaml.safe_dump_all(bodies)))
    said = err.splitlines()
    assert (code, len(said)) == (Exit.FAILED, 2), err
    assert said[0].endswith("exited 3: up (counted failure 1 of 1): restarting ranks 0-3")
    assert out.count("up") > 1


def test_the_success_of_rank_0_ends_the_others(run: Any) -> None:
    text = "import os, time\nif os.environ['DI_RANK'] != '0':\n    time.sleep(600)\n"
    code, _, err = finished(run(script("first", text, replicas=3, successPolicy="Rank0")))
    assert (code, err) == (0, "dijob: Succeeded: rank 0 has exited 0\n")


def test_a_missing_program_is_reported_before_any_rank_starts(run: Any) -> None:
    main = {"image": "none", "command": ["ditask-of-nobody"]}
    text = yaml.safe_dump(dijob("away", main, replicas=2))
    code, out, errors = finished(run(text))
    assert (code, out) == (Exit.USAGE, "")
    assert "rank 0 runs ditask-of-nobody, which is not in PATH" in errors


def test_every_program_has_the_import_hook(run: Any) -> None:
    text = (
        "import sys, dijob_runtime\nprint(sys.meta_path[0].__module__, sys.meta_path[0].__name__)"
    )
    code, out, _ = finished(run(script("hook", text, replicas=1)))
    assert (code, out) == (0, "rank 0 | sitecustomize Finder\n")


def test_ranks_resolve_each_others_names_if_the_runtime_uses_names(run: Any) -> None:
    if os.geteuid() != 0:
        pytest.skip("a private /etc/hosts needs root or a user namespace")
    text = "import os, socket\nname = os.environ['SLURMD_NODENAME']\n" + (
        "print(socket.gethostbyname(name) == os.environ['DI_POD_IP'], os.environ['DI_NODES'])"
    )
    code, out, err = finished(run(script("named", text, runtime="slurm")))
    assert code == 0, err
    assert (
        sorted(line.partition(" | ")[2] for line in out.splitlines())
        == ["True named-0.named,named-1.named"] * 2
    )


def test_two_runs_have_different_addresses() -> None:
    with places.reserve_addresses(3) as first, places.reserve_addresses(300) as second:
        assert len({*first, *second}) == 303
        assert first[0].endswith(".0.3")
        assert second[250].endswith(".1.3")


def test_no_rank_has_the_placeholder_address() -> None:
    """The others would not wait for this rank, and their first messages would be lost."""
    found = {places.rank_address(run, rank) for run in range(places.RUNS) for rank in range(600)}
    assert not found & {address_list.PLACEHOLDER, connected.PLACEHOLDER}


RULES = [
    pytest.param({}, [(1, 3)], {1}, None, id="the failed rank is restarted"),
    pytest.param(
        {"backoffLimit": 0}, [(1, 3)], set(), LocalOutcome.FAILED, id="no failure is allowed"
    ),
    pytest.param({"runtime": "torch"}, [(0, 0), (1, 3)], {0, 1, 2}, None, id="a gang restart"),
    pytest.param(
        {"preemptible": True, "backoffLimit": 0}, [(1, -15)], {1}, None, id="ended on demand"
    ),
    pytest.param(
        {
            "backoffLimit": 0,
            "failurePolicy": {"rules": [{"action": "Ignore"}]},
        },
        [(1, 3), (1, 3)],
        {1},
        None,
        id="a rule ignores the failure",
    ),
    pytest.param(
        {"failurePolicy": {"rules": [{"action": "FailJob"}]}},
        [(1, 3)],
        set(),
        LocalOutcome.FAILED,
        id="a rule fails the job",
    ),
    pytest.param(
        {"failurePolicy": {"rules": [{"action": "RestartJob"}]}},
        [(0, 0), (1, 3)],
        {1, 2},
        None,
        id="a rule restarts all ranks that have not completed",
    ),
    pytest.param({}, [(0, 0), (1, 0), (2, 0)], set(), LocalOutcome.SUCCEEDED, id="all succeed"),
    pytest.param(
        {"successPolicy": "Rank0"}, [(0, 0)], set(), LocalOutcome.SUCCEEDED, id="rank 0's"
    ),
]


@pytest.mark.parametrize(("spec", "ends", "restart", "outcome"), RULES)
def test_failures_are_handled_by_the_operators_rules(
    spec: dict[str, Any],
    ends: list[tuple[int, int]],
    restart: set[int],
    outcome: LocalOutcome | None,
) -> None:
    ledger = LocalFailureAccount(job(**spec))
    decisions = [ledger.ended(*end) for end in ends]
    assert (set(decisions[-1].restart), decisions[-1].outcome) == (restart, outcome)


def test_the_end_of_a_failed_job_names_the_exception() -> None:
    ledger = LocalFailureAccount(job(backoffLimit=0))
    output = "Traceback (most recent call last):\n  File 'x'\nValueError: nan\nWARNING: bye"
    assert ledger.ended(1, 1, output).said == (
        "rank 1 (job-1) exited 1: ValueError: nan; backoffLimit is 0"
    )
