"""The gate where ranks are told names: its own must lead to this pod, and those that it dials to
anywhere.
"""

import os
from pathlib import Path

import pytest
from cluster.waiting import until_true
from pod.boxes import SHELLS, Box
from pod.test_gate import environment, fast, gate, project

pytestmark = pytest.mark.parametrize("box", list(SHELLS), indirect=True)

NAMES = "world-0.world,world-1.world,world-2.world"
# Answers from a file of lines "IP NAME", as `getent hosts` does, and notes what it was asked.
GETENT = """#!/bin/sh
echo "$2" >>{folder}/asked
while read -r ip name; do
  [ "$name" != "$2" ] || {{ echo "$ip     $name.ns.svc.cluster.local"; exit 0; }}
done <{folder}/hosts
exit 2
"""


def resolves(box: Box, *ranks: str) -> Path:
    """Put a DNS into the image that knows these ranks ("1" or "1=10.9.9.9"); gives the folder of
    its files.
    """
    folder = box.path / "dns"
    program = box.script("dns/getent", GETENT.format(folder=folder))
    known = (rank.partition("=")[::2] for rank in ranks)
    lines = [f"{ip or f'10.0.0.{int(rank) + 1}'} world-{rank}.world\n" for rank, ip in known]
    new = folder / "new"
    new.write_text("".join(lines))
    new.rename(folder / "hosts")
    box.env["PATH"] = f"{program.parent}:{box.env['PATH']}"
    return folder


def named(box: Box, rank: int = 1, topology: str = "mesh", **more: str) -> dict[str, str]:
    env = environment(box, rank, f"10.0.0.{rank + 1}")
    return env | {"DIJOB_HOST": f"world-{rank}.world", "DI_TOPOLOGY": topology, **more}


@pytest.mark.parametrize(
    ("topology", "rank", "known", "asked"),
    [
        ("mesh", 0, ("0",), {0}),
        ("mesh", 2, ("0", "1", "2"), {0, 1, 2}),
        ("star", 2, ("0", "2"), {0, 2}),
        ("star", 0, ("0",), {0}),
        ("alone", 1, ("1",), {1}),
    ],
    ids=["mesh-first", "mesh-last", "star-leaf", "star-hub", "alone"],
)
def test_opens_when_those_that_it_dials_resolve(
    box: Box, topology: str, rank: int, known: tuple[str, ...], asked: set[int]
) -> None:
    folder = resolves(box, *known)
    project(box, NAMES)
    rc, out, err = box.run(gate(box), **named(box, rank, topology))
    assert (rc, err) == (0, ""), out
    assert set((folder / "asked").read_text().split()) == {f"world-{rank}.world" for rank in asked}


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (("0", "1=10.0.0.22"), "world-1.world does not lead to this pod (10.0.0.2)"),
        (("1",), "world-0.world does not resolve"),
    ],
    ids=["own name leads to the pod before it", "a peer is unknown"],
)
def test_waits_for_the_names_and_says_for_which(box: Box, known: tuple[str, ...], why: str) -> None:
    resolves(box, *known)
    project(box, NAMES)
    polls, path = fast(box)
    process = box.start(gate(box), **named(box, DIJOB_RESOLVE_SECONDS="1000") | path)
    until_true("the gate polls", lambda: polls.stat().st_size > 55)
    assert process.poll() is None
    resolves(box, "0", "1")
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert f"dijob gate: rank 1 has waited 10 s: {why}." in out


def test_ends_with_a_sentence_when_a_name_never_resolves(box: Box) -> None:
    resolves(box, "1")
    project(box, NAMES)
    _, path = fast(box)
    rc, _, err = box.run(gate(box), **named(box, DIJOB_RESOLVE_SECONDS="10") | path)
    assert (rc, err) == (
        1,
        "dijob gate: rank 1: world-0.world does not resolve; is the cluster's DNS well?\n",
    )


def test_the_time_for_names_begins_with_the_list(box: Box) -> None:
    resolves(box, "1")
    polls, path = fast(box)
    process = box.start(gate(box), **named(box, DIJOB_RESOLVE_SECONDS="10") | path)
    until_true("the gate has waited long for its list", lambda: polls.stat().st_size > 105)
    project(box, NAMES)
    resolves(box, "0", "1")
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_rank_that_has_succeeded_needs_no_name(box: Box) -> None:
    folder = resolves(box, "1", "2")
    project(box, "127.0.0.2,world-1.world,world-2.world")
    assert box.run(gate(box), **named(box, 2))[0] == 0
    assert "127.0.0.2" not in (folder / "asked").read_text()


def test_what_has_resolved_is_not_asked_again(box: Box) -> None:
    folder = resolves(box, "0", "2")
    project(box, NAMES)
    polls, path = fast(box)
    process = box.start(gate(box), **named(box, 2) | path)
    until_true("the gate polls", lambda: polls.stat().st_size > 20)
    resolves(box, "0", "1", "2")
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert (folder / "asked").read_text().split().count("world-0.world") == 1


def without(box: Box, *programs: str) -> None:
    """Take programs out of the PATH."""
    kept = box.path / "kept"
    kept.mkdir()
    for folder in box.env["PATH"].split(":"):
        for file in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if (
                file.name not in programs
                and not (kept / file.name).is_symlink()
                and os.access(file, os.X_OK)
            ):
                (kept / file.name).symlink_to(file)
    box.env["PATH"] = str(kept)


def test_with_python_where_there_is_no_getent(box: Box) -> None:
    python = ("python", "python3")
    without(box, "getent", *python)
    fake = box.script(
        "dns/python3", '#!/bin/sh\nfor a; do :; done\necho "$a" >>"$ASKED"; echo 10.0.0.1\n'
    )
    box.env["PATH"] = f"{fake.parent}:{box.env['PATH']}"
    project(box, NAMES)
    asked = box.path / "asked"
    rc, out, err = box.run(gate(box), **named(box, 0, ASKED=str(asked)))
    assert (rc, err) == (0, ""), out
    assert asked.read_text() == "world-0.world\n"


def test_an_image_that_cannot_look_up_a_name_ends_with_a_sentence(box: Box) -> None:
    without(box, "getent", "python", "python3", "nslookup")
    rc, _, err = box.run(gate(box), **named(box))
    assert rc == 1
    assert "has neither getent nor Python nor nslookup" in err
