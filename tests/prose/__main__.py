"""Checks the prose of the repository with Vale: the pages, and the docstrings, comments and
messages in source files.

Use: python -m prose [--level suggestion] [--optional] (make prose). The rules are in .vale.
--optional, which `make check` uses, skips the check if Vale cannot be built.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster.errors import ClusterError
from cluster.shell import run

from prose.build import vale
from prose.extract import MARKS, document, passages

ROOT = Path(__file__).parents[2]
LEVELS = ("error", "warning", "suggestion")
# Not prose of this project: manifests of DI-orchestrator, recorded objects, outputs of from-slurm.
OTHERS = ("tests/unit/extras/slurm/", "tests/apiserver/di-orchestrator/", "tests/golden/")


def texts() -> tuple[list[str], list[str]]:
    """Return the pages and the source files that git tracks, except files of other projects."""
    tracked = run(["git", "-C", str(ROOT), "ls-files", "-z"]).split("\0")
    own = [
        name for name in tracked if name and not name.startswith(OTHERS) and (ROOT / name).is_file()
    ]
    sources = [name for name in own if _is_source(Path(name))]
    return [name for name in own if name.endswith(".md")], sources


def _is_source(path: Path) -> bool:
    return (path.suffix or path.name) in (".py", *MARKS)


def check(program: Path, level: str) -> list[str]:
    """Return one line per finding."""
    pages, sources = texts()
    with tempfile.TemporaryDirectory(prefix="prose-") as folder:
        numbers = dict[str, list[int]]()
        for name in sources:
            text, numbers[name] = document(passages(name, (ROOT / name).read_text()))
            extracted = Path(folder, f"{name}.md")
            extracted.parent.mkdir(parents=True, exist_ok=True)
            extracted.write_text(text)
        command = [str(program), f"--config={ROOT / '.vale.ini'}", "--output=JSON", "--no-exit"]
        command += [f"--minAlertLevel={level}", folder, *pages]
        # Vale reports a wrong rule as JSON on stdout, so the exit code decides.
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"Vale failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    found: list[tuple[str, int, str]] = []
    for path, alerts in json.loads(done.stdout).items():
        name = path.removeprefix(f"{folder}/").removesuffix(".md") if path not in pages else path
        for alert in alerts:
            line = alert["Line"]
            if name in numbers:
                line = numbers[name][line - 1]
            found.append((name, line, f"{alert['Message']} [{alert['Check']}]"))
    return [f"{name}:{line}: {message}" for name, line, message in sorted(set(found))]


def main() -> int:
    """Print the findings. Exit code 1 if there are errors, or if Vale cannot be built."""
    parser = argparse.ArgumentParser(prog="python -m prose", description=__doc__)
    parser.add_argument("--level", choices=LEVELS, default="error")
    parser.add_argument("--optional", action="store_true", help="skip if Vale cannot be built")
    options = parser.parse_args()
    try:
        program = vale()
    except (ClusterError, OSError) as error:
        skipped = "==> skipped: " if options.optional else ""
        needs = "Vale cannot be built, which needs the Go module proxy once"
        print(f"{skipped}the prose check: {needs}: {error}", file=sys.stderr)
        return 0 if options.optional else 1
    try:
        findings = check(program, options.level)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(findings) or "prose: no findings")
    return 1 if findings and options.level == "error" else 0


if __name__ == "__main__":
    sys.exit(main())
