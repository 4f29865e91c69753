"""How `dijob local` prepares a job: folders of volumes, variables, and jobs that it rejects."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from dijob.cli.errors import CliError, Exit
from dijob.cli.files import parse_file
from dijob_extras.local import plan
from dijob_extras.local.volumes import Mount, Paths, list_mounts, prepare_folders
from samples.builders import container, job
from unit.extras.local_runs import script

PATHS = [
    ("/out", "/x/out"),
    ("--dir=/out/a", "--dir=/x/out/a"),
    ("cd /out && ls", "cd /x/out && ls"),
    ("/output", "/output"),
    ("/my/out", "/my/out"),
    ("http://h/out", "http://h/out"),
]


@pytest.mark.parametrize(("words", "here"), PATHS, ids=[words for words, _ in PATHS])
def test_paths_below_a_mount_are_replaced(words: str, here: str) -> None:
    paths = Paths(Path("/x"), ("/out",), {"/out": Path("/x/out")})
    assert paths.translated(words) == here


def test_a_local_path_is_not_mistaken_for_a_mount() -> None:
    """R4: a path that was already replaced was replaced again."""
    found = {"/data": Path("/tmp/work/data"), "/tmp": Path("/tmp/work/tmp")}
    paths = Paths(Path("/tmp/work"), tuple(found), found)
    assert paths.translated("/data/a:/tmp/b") == "/tmp/work/data/a:/tmp/work/tmp/b"


def mounted(root: Path, folder: Path, *paths: str) -> Paths:
    """Return the paths of a rank whose volume `data` is a user's folder with mounts inside."""
    file = parse_file("job.yaml", script("inside", "pass"))
    outer = Mount(paths[0], {"name": "data"})
    inner = [Mount(path, {"name": f"v{n}", "emptyDir": {}}) for n, path in enumerate(paths[1:])]
    return prepare_folders(root, [outer, *inner], file, {"data": folder})


def test_a_mount_inside_a_users_folder_leaves_nothing_there(tmp_path: Path) -> None:
    """R4: a link was left in the folder, and the second rank ended with a traceback."""
    mine = tmp_path / "mine"
    mine.mkdir()
    for rank in ("0", "1"):
        paths = mounted(tmp_path / rank, mine, "/data", "/data/cache", "/data/cache/deep")
        cache = Path(paths.translated("/data/cache"))
        (cache / "a").write_text("b")
        assert Path(paths.translated("/data")).resolve() == mine
        assert Path(paths.translated("/data/cache/deep")).is_dir()
    assert list(mine.iterdir()) == []


def test_two_mounts_at_one_path_are_rejected(tmp_path: Path) -> None:
    """R4: this ended with a traceback."""
    with pytest.raises(CliError, match="two mounts have the path /data"):
        mounted(tmp_path / "0", tmp_path, "/data", "/data")


def test_a_mount_is_never_outside_the_ranks_folder() -> None:
    """R4: a path with `..` led out of the folder."""
    main = {"volumeMounts": [{"name": "v", "mountPath": "//../../etc/./x/"}]}
    (found,) = list_mounts({"volumes": [{"name": "v"}]}, main, [])
    assert found.path == "/etc/x"


def request_of(text: str, tmp_path: Path, **more: Any) -> plan.Request:
    from dijob.cli.files import job_of

    file = parse_file("job.yaml", text)
    made = job_of(file)
    ips = tuple(f"127.0.0.{rank + 2}" for rank in range(made.spec.desired))
    return plan.Request(made, file, ips, tmp_path, **more)


def changed(text: str, **pod: Any) -> str:
    bodies = list(yaml.safe_load_all(text))
    bodies[0]["spec"]["template"]["spec"] |= pod
    return yaml.safe_dump_all(bodies)


WRONG = [
    pytest.param(
        [{"name": "code", "hostPath": {"path": "/d"}}],
        "has the type hostPath",
        id="a host's folder",
    ),
    pytest.param(
        [{"name": "code", "configMap": {"name": "other"}}],
        "job.yaml does not contain ConfigMap other",
        id="a missing ConfigMap",
    ),
    pytest.param([], "names a missing volume", id="no volume"),
]


@pytest.mark.parametrize(("volumes", "said"), WRONG)
def test_a_volume_that_needs_a_cluster_is_rejected(
    tmp_path: Path, volumes: list[Any], said: str
) -> None:
    with pytest.raises(CliError, match=said) as error:
        plan.plan_starts(request_of(changed(script("v", ""), volumes=volumes), tmp_path))
    assert error.value.code == Exit.USAGE


def test_a_folder_replaces_a_volume_of_a_cluster(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    claim = {"name": "code", "persistentVolumeClaim": {"claimName": "c"}}
    text = changed(script("v", ""), volumes=[claim])
    (first, second) = plan.plan_starts(request_of(text, tmp_path / "w", folders={"code": data}))
    assert first.folder.resolve() == second.folder.resolve() == data


def test_each_rank_has_its_own_empty_dir(tmp_path: Path) -> None:
    text = changed(script("v", ""), volumes=[{"name": "code", "emptyDir": {}}])
    first, second = plan.plan_starts(request_of(text, tmp_path))
    assert first.folder.resolve() != second.folder.resolve()
    assert list(first.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"secretKeyRef": {"name": "s", "key": "k"}}, "key k of Secret s"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "limits.cpu"),
    ],
    ids=["a Secret", "a resource"],
)
def test_a_variable_that_needs_a_cluster_is_rejected(
    tmp_path: Path, env: dict[str, Any], said: str
) -> None:
    bodies = list(yaml.safe_load_all(script("v", "")))
    main = bodies[0]["spec"]["template"]["spec"]["containers"][0]
    main["env"] = [{"name": "TOKEN", "valueFrom": env}]
    with pytest.raises(CliError, match=f"variable TOKEN is .*{said}"):
        plan.plan_starts(request_of(yaml.safe_dump_all(bodies), tmp_path))


def test_the_machines_variables_are_kept_except_those_of_another_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"DI_RANK": "7", "SLURM_PROCID": "7", "PET_REDIRECTS": "9:1", "EDITOR": "ed"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    env = plan.plan_starts(request_of(script("v", ""), tmp_path))[0].env
    assert {name: env.get(name) for name in given} == {
        "DI_RANK": "0",
        "SLURM_PROCID": None,
        "PET_REDIRECTS": "9:1",
        "EDITOR": "ed",
    }


def test_relative_entries_of_pythonpath_are_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "mine:/other")
    monkeypatch.chdir(tmp_path)
    start = plan.plan_starts(request_of(script("v", ""), tmp_path / "w"))[0]
    assert start.env["PYTHONPATH"].endswith(f":{tmp_path}/mine:/other")


@pytest.mark.parametrize(
    ("main", "spec", "said"),
    [
        pytest.param(
            {"command": None}, {}, "entry point is not available locally", id="no command"
        ),
        pytest.param({}, {"suspend": True}, "so the job has no pods", id="suspended"),
        pytest.param({}, {"messageQueue": {"type": "torchrpc"}}, "dijob_runtime.ditask", id="rpc"),
    ],
)
def test_jobs_that_cannot_run_locally(
    main: dict[str, Any], spec: dict[str, Any], said: str
) -> None:
    (found,) = plan.find_obstacles(job({"containers": [container(**main)]}, **spec))
    assert said in found


def test_containers_that_do_not_run_are_named() -> None:
    pod = {"containers": [container(), {"name": "sidecar"}], "initContainers": [{"name": "first"}]}
    assert plan.describe_omissions(job(pod)) == [
        "spec.template: containers that are not run locally: first, sidecar"
    ]


def test_a_time_without_progress_is_not_watched_locally() -> None:
    assert plan.describe_omissions(job(stallSeconds=300)) == [
        "spec.stallSeconds has no effect locally, because there is no operator"
    ]
