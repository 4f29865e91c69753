"""Import notices of DI-engine and gym are dropped, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "images/dijob-runtime"
# As in ding 0.5.3, gym 0.25.1 and gym_notices.
MODULES = {
    "ding/__init__.py": "",
    "ding/memory_helper.py": "import logging\n"
    "logging.warning(\"Please install pyecharts first, you can install it by running 'pip install"
    " pyecharts'\")\n"
    "logging.warning('out of memory')\n",
    "gym_notices/__init__.py": "",
    "gym_notices/notices.py": "notices = {'0.25.1': 'Gym has been unmaintained'}\n",
    "gym/__init__.py": "import sys\nfrom gym import logger\n"
    "import gym_notices.notices as notices\n"
    "notice = notices.notices.get('0.25.1')\n"
    "if notice:\n    print(notice, file=sys.stderr)\n",
    "gym/logger.py": "import warnings\nwarnings.simplefilter('once', DeprecationWarning)\n",
    "gym/core.py": "import warnings\n"
    "def warn(text):\n"
    "    warnings.warn('\\033[33mWARN: ' + text, DeprecationWarning, stacklevel=1)\n"
    "warn('Initializing wrapper in old step API which returns one bool')\n"
    "warn('Something else is deprecated')\n",
}
NOTICES = ("pyecharts", "unmaintained", "old step API")
OTHERS = ("out of memory", "Something else is deprecated", "Please install pyecharts first, I said")


@pytest.mark.parametrize(("switch", "dropped"), [({}, True), ({"DIJOB_QUIET": "off"}, False)])
def test_known_notices_are_dropped_and_other_warnings_stay(
    tmp_path: Path, switch: dict[str, str], dropped: bool
) -> None:
    for name, text in MODULES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    program = (
        "import ding.memory_helper, gym.core, logging;"
        "logging.warning('Please install pyecharts first, I said')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": f"{RUNTIME / 'hook'}:{RUNTIME}:{tmp_path}", "DIJOB_COMPAT": "off"}
        | switch,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert all(text in done.stderr for text in OTHERS), done.stderr
    said = done.stderr.replace(OTHERS[-1], "")
    assert [text in said for text in NOTICES] == [not dropped] * 3, done.stderr
