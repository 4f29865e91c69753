"""A converted batch script lists the paths that its pods might not have."""

from typing import Any

import pytest
from dijob_extras.slurm.convert import Wishes, convert_script
from dijob_extras.slurm.script import parse_script
from dijob_extras.slurm.write import PATHS, foreign_paths, render_file

PLACES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "the working directory": ({"workingDir": "/home/me/project"}, ["/home/me/project"]),
    "a word of the command": ({"command": ["python", "/scratch/main.py"]}, ["/scratch/main.py"]),
    "the value of an option": ({"command": ["a", "--data=/scratch/d"]}, ["/scratch/d"]),
    "a shell's line": ({"args": ["cd '/data/x'; python ~/main.py"]}, ["/data/x", "~/main.py"]),
    "the value of a variable": (
        {"env": [{"name": "P", "value": "/home/me/lib:/usr/lib"}]},
        ["/home/me/lib"],
    ),
    "one below another": ({"workingDir": "/w", "command": ["/w/a", "/wide"]}, ["/w", "/wide"]),
    "one that the image has": ({"command": ["/usr/bin/python", "/opt/x", "/tmp/log"]}, []),
    "an address": ({"command": ["--to=tcp://10.0.0.1/x", "redis://a/b"]}, []),
    "a relative one, a fraction": ({"command": ["a/b", "./c", "1/2", "/"]}, []),
    "the end of a sentence": ({"args": ["echo see /data/readme."]}, ["/data/readme"]),
}


@pytest.mark.parametrize(("container", "paths"), PLACES.values(), ids=PLACES)
def test_paths_that_images_do_not_contain(container: dict[str, Any], paths: list[str]) -> None:
    assert foreign_paths(container) == paths


def test_such_paths_are_listed_at_the_top_of_the_file() -> None:
    script = "#!/bin/bash\n#SBATCH --ntasks=2\ncd /home/me\nsrun ditask --package x --main {}\n"
    wishes = Wishes(image="img", name="job")
    text = render_file("a", convert_script(parse_script(script.format("/scratch/y.main")), wishes))
    assert f"{PATHS}\n#   /home/me, /scratch/y.main\n" in text
    plain = render_file(
        "a", convert_script(parse_script(script.format("y").replace("cd /home/me\n", "")), wishes)
    )
    assert PATHS not in plain
