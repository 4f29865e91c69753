"""make recording (docs/site/recording.py): selection and duration of the frames, and the SVG that
plays them without other files.
"""

import re
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime, timedelta
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from dijob.cli.watching.view import Snapshot
from dijob.client import Job, RankPod
from manifests import dijob
from pages import ROOT

BEGIN = datetime(2026, 11, 25, 12, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"
LIMIT_BYTES = 150_000


def module() -> Any:
    spec = spec_from_file_location("recording", ROOT / "docs/site/recording.py")
    assert spec
    assert spec.loader
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


recording = module()


def frame(at: float, ready: int, message: str = "so it is") -> Any:
    body = dijob("search", {"image": "x", "command": ["a"]}, replicas=4)
    status = {"phase": "Running", "desired": 4, "readyReplicas": ready, "topology": "mesh"}
    stamps = {"startTime": BEGIN.isoformat(), "message": message}
    pods = [RankPod({"metadata": {"name": f"search-{n}"}, "spec": {}}, n) for n in range(ready)]
    shown = Snapshot(Job({**body, "status": status | stamps}), pods)
    return recording.Frame(shown, at, BEGIN + timedelta(seconds=at))


FRAMES = [
    frame(0, 1),
    frame(1, 1),
    frame(2, 1),
    frame(9, 4),
    frame(9.1, 4, "all 4 ranks are running"),
]


def test_a_frame_that_differs_only_by_its_time_is_dropped() -> None:
    assert [each.at for each in recording.chosen(FRAMES)] == [0, 9, 9.1]


def test_similar_frames_are_reduced_to_one_per_second_and_the_last() -> None:
    frames = [frame(at / 10, at % 3) for at in range(25)]
    assert [each.at for each in recording.chosen(frames)] == [0, 1.0, 2.0, 2.4]


def test_frames_have_a_shortest_and_a_longest_duration() -> None:
    least, most, last = recording.LEAST_SECONDS, recording.MOST_SECONDS, recording.LAST_SECONDS
    assert recording.lasting(recording.chosen(FRAMES)) == [most, least, last]


def test_the_svg_plays_the_frames_without_foreign_content() -> None:
    frames = recording.chosen(FRAMES)
    drawn = [recording.drawn(each, number) for number, each in enumerate(frames)]
    text = recording.joined(drawn, recording.lasting(frames))
    tree = ElementTree.fromstring(text)
    shown = [each for each in tree.iter(f"{SVG}g") if each.get("class") == "frame"]
    said = ["".join(each.itertext()).replace("\xa0", " ") for each in shown]
    assert len(said) == 3
    assert all("kubectl dijob watch search" in each for each in said)
    assert "1 of 4 ready" in said[0]
    assert "all 4 ranks are running" in said[-1]
    assert len(re.findall(r"@keyframes", text)) == 3
    assert self_contained(text)


def self_contained(text: str) -> bool:
    return not re.search(r"(?i)<script|@import|url\((?!#)|href=", text) and "://" not in re.sub(
        r'xmlns="[^"]+"', "", text
    )


def test_the_recording_in_the_docs_is_complete_and_small() -> None:
    path = ROOT / "docs/pictures/watch.svg"
    text = path.read_text()
    assert len(text.encode()) < LIMIT_BYTES
    assert self_contained(text)
    said = "".join(ElementTree.fromstring(text).itertext()).replace("\xa0", " ")
    for word in ("PodDeleted", "PeersReady", "all 4 ranks"):
        assert word in said
    assert "pictures/watch.svg" in (ROOT / "docs/quick-start.md").read_text()
