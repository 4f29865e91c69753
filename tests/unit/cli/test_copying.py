"""`cp`: parsing of paths, the helper pod, and archives that try to escape their folder."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.cli.copying.places import HELPER_SECONDS, RankPath, find_volume, helper_manifest
from dijob.cli.copying.unpacking import local_target, unpack_tar
from dijob.cli.errors import CliError
from manifests import dijob

CLAIM = {"name": "out", "persistentVolumeClaim": {"claimName": "c"}}


def job(*mounts: dict[str, Any], volumes: Any = (), **main: Any) -> DIJob:
    known = [CLAIM, {"name": "tmp", "emptyDir": {}}, *volumes]
    pod = {"volumes": known, "tolerations": [{"key": "gpu"}]}
    main = {"image": "x", "command": ["a"], "volumeMounts": list(mounts), **main}
    body = dijob("test", main, pod, replicas=2)
    body["metadata"] |= {"uid": "u", "namespace": "ns"}
    return parse_job(body)


OUT = {"name": "out", "mountPath": "/out", "subPath": "deep"}
TMP = {"name": "tmp", "mountPath": "/out/tmp"}


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("test:/out/a", RankPath("test", 0, "/out/a")),
        ("test:2:/out/a", RankPath("test", 2, "/out/a")),
        ("test:a:b", RankPath("test", 0, "a:b")),
    ],
)
def test_source(text: str, source: RankPath) -> None:
    assert RankPath.of(text) == source


@pytest.mark.parametrize("text", ["test", "/out/a", ":a", "test:"])
def test_no_source(text: str) -> None:
    with pytest.raises(CliError, match="write it as NAME"):
        RankPath.of(text)


def test_a_path_is_on_the_claim_that_is_mounted_there() -> None:
    found = find_volume(job(OUT, TMP), RankPath("test", 0, "/out/ckpt"))
    assert (found.mount, found.volume) == (OUT, CLAIM)
    relative = find_volume(job(OUT, workingDir="/out"), RankPath("test", 0, "ckpt/a"))
    assert relative.mount == OUT


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param("/outer", "/outer is not on a volume", id="no volume"),
        pytest.param("/out/../etc", "/etc is not on a volume", id="out of it"),
        pytest.param("/out/tmp/a", r"volume tmp \(emptyDir\), which is deleted", id="emptyDir"),
    ],
)
def test_a_path_that_is_gone(path: str, words: str) -> None:
    with pytest.raises(CliError, match=words):
        find_volume(job(OUT, TMP), RankPath("test", 1, path))


def test_the_helper_reads_and_is_no_rank() -> None:
    source = RankPath("test", 0, "/out/ckpt")
    made = helper_manifest(job(OUT), source, find_volume(job(OUT), source), "test-cp-1")
    assert "labels" not in made["metadata"]
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    (container,) = made["spec"]["containers"]
    assert container["image"] == "x"
    assert container["volumeMounts"] == [{**OUT, "readOnly": True}]
    assert made["spec"]["volumes"] == [CLAIM]
    assert made["spec"]["tolerations"] == [{"key": "gpu"}]
    assert made["spec"]["activeDeadlineSeconds"] == HELPER_SECONDS


def test_a_folder_of_a_node_is_read_on_that_node() -> None:
    source, host = RankPath("test", 0, "/host/a"), {"name": "h", "hostPath": {"path": "/x"}}
    made = job({"name": "h", "mountPath": "/host"}, volumes=[host])
    found = find_volume(made, source, "n1")
    assert helper_manifest(made, source, found, "test-cp-1")["spec"]["nodeName"] == "n1"
    with pytest.raises(CliError, match="copy the path directly from that node"):
        find_volume(made, source)


def archive(*members: tuple[str, bytes | None, str]) -> io.BytesIO:
    """Return a tar of (name, content, link target). A member without content is a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content, link in members:
            info = tarfile.TarInfo(name)
            info.mode = 0o755
            if link:
                info.type, info.linkname = tarfile.SYMTYPE, link
            elif content is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content or b""))
    out.seek(0)
    return out


def test_a_folder_is_written_under_the_name_that_is_given(tmp_path: Path) -> None:
    stream = archive(("ckpt", None, ""), ("ckpt/a", b"12", ""), ("ckpt/b/c", b"3", ""))
    done = unpack_tar(stream, tmp_path / "deep/mine", "ckpt")
    assert (done.files, done.size) == (2, 3)
    assert (tmp_path / "deep/mine/b/c").read_bytes() == b"3"


@pytest.mark.parametrize(
    ("members", "words"),
    [
        pytest.param([("../evil", b"", "")], "not requested", id="above"),
        pytest.param([("/etc/evil", b"", "")], "not requested", id="absolute"),
        pytest.param([("ckpt/../../evil", b"", "")], "not requested", id="through a folder"),
        pytest.param(
            [("ckpt/l", None, "../../.."), ("ckpt/l/evil", b"", "")],
            "neither a file nor",
            id="link",
        ),
        pytest.param([("ckpt/l", None, "/etc/passwd")], "neither a file nor", id="absolute link"),
    ],
)
def test_nothing_is_written_outside(
    tmp_path: Path, members: list[tuple[str, bytes | None, str]], words: str
) -> None:
    folder = tmp_path / "a/b"
    with pytest.raises(CliError, match=words):
        unpack_tar(archive(*members), folder / "ckpt", "ckpt")
    assert not list(tmp_path.rglob("evil"))
    assert not list(tmp_path.rglob("l"))


def test_a_link_that_is_there_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/kept").write_text("kept")
    (tmp_path / "ckpt/folder").symlink_to(tmp_path / "other")
    (tmp_path / "ckpt/file").symlink_to(tmp_path / "other/kept")
    unpack_tar(archive(("ckpt/file", b"new", "")), tmp_path / "ckpt", "ckpt")
    assert not (tmp_path / "ckpt/file").is_symlink()
    assert (tmp_path / "other/kept").read_text() == "kept"
    with pytest.raises(CliError, match="remove the link"):
        unpack_tar(archive(("ckpt/folder/kept", b"", "")), tmp_path / "ckpt", "ckpt")


def test_target_is_as_that_of_cp(tmp_path: Path) -> None:
    assert local_target(str(tmp_path), "ckpt") == tmp_path / "ckpt"
    assert local_target(str(tmp_path / "new"), "ckpt") == tmp_path / "new"
    assert local_target(f"{tmp_path}/new/", "ckpt") == tmp_path / "new/ckpt"
