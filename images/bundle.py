"""`make release VERSION=...`: writes all artifacts of a version to a folder, ready to be pushed.

The artifacts are the images as OCI archives, the Helm chart, two wheels, an SBOM for each image,
notes, and SHA256SUMS. One wheel contains the operator with its command line. The other wheel
contains the runtime for pods. Nothing is pushed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from catalogue import CACHE, IMAGES, ROOT, archive
from steps import SANDBOX, BuildError, Step, say

RELEASED = ("operator", "launcher", "stacks", "ditask")
# The files that contain the version, each with a pattern that matches the version.
PLACES: Mapping[str, str] = {
    "operator/dijob/__init__.py": r'^__version__ = "(.+)"$',
    "pyproject.toml": r'^version = "(.+)"$',
    "images/dijob-runtime/dijob_runtime/__init__.py": r'^__version__ = "(.+)"$',
    "images/dijob-runtime/pyproject.toml": r'^version = "(.+)"$',
    "charts/dijob/Chart.yaml": r"^(?:version|appVersion): (.+)$",
}
UNRELEASED = "Unreleased"
ARCHIVE = ".oci.tar"


def said(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the versions that each file contains."""
    return {
        place: set(re.findall(PLACES[place], text, re.MULTILINE)) for place, text in texts.items()
    }


def checked(version: str, texts: Mapping[str, str]) -> None:
    """Raise BuildError if a file does not contain `version`, or also contains a different version.

    The error lists all such files.
    """
    wrong = [
        f"{place} has {', '.join(sorted(found)) or 'none'}"
        for place, found in said(texts).items()
        if found != {version}
    ]
    if wrong:
        places = "; ".join(wrong)
        raise BuildError(f"the version is not {version}: {places} (see CONTRIBUTING.md)")


def section(changelog: str, version: str) -> str:
    """Return the section of a version in CHANGELOG.md, or the unreleased changes for a version that
    ends in -dev. Raise BuildError if there is none.
    """
    heading = UNRELEASED if version.endswith("-dev") else version
    parts = re.split(r"(?m)^## (.+)$", changelog)
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        if title == heading or title.startswith(f"{heading} - "):
            return text.strip()
    raise BuildError(f"CHANGELOG.md has no heading `## {heading}`")


def digest_of(image: Path) -> str:
    """Return the digest that the image of an OCI archive has in a registry."""
    with tarfile.open(image) as files:
        index = files.extractfile("index.json")
        assert index is not None
        return str(json.load(index)["manifests"][0]["digest"])


NOTES = """\
# DIJob {version}

| image | digest |
|---|---|
{rows}

Check the files with `sha256sum -c SHA256SUMS`. Push the images to your registry with any tool that
reads OCI archives:

{pushes}

or load them into a node's containerd (`ctr -n k8s.io images import FILE`; kind:
`kind load image-archive FILE`). Then:

    helm upgrade --install dijob dijob-{version}.tgz --namespace dijob-system --create-namespace \\
      --set image.repository=REGISTRY/dijob/operator --set image.digest=DIGEST \\
      --set launcher.image=REGISTRY/dijob/launcher@DIGEST

Without a registry, omit the `--set` options. To install the command line, run
`pip install "{wheel}[cli]"`. For `kubectl dijob doctor --stacks`, add
`--stacks-image REGISTRY/dijob/stacks@DIGEST`.

## Changes

The links lead to files in the sources of this version.

{changes}
"""


def notes(version: str, changes: str, images: Mapping[str, str], wheel: str) -> str:
    """Return the release notes: how to install, and the changes. `images`: digests by file."""
    rows = "\n".join(f"| `{file}` | `{digest}` |" for file, digest in images.items())
    tags = {file: file.removesuffix(ARCHIVE).replace("-", ":", 1) for file in images}
    pushes = "\n".join(
        f"    skopeo copy oci-archive:{file} docker://REGISTRY/dijob/{tag}"
        for file, tag in tags.items()
    )
    said = {"version": version, "changes": changes, "wheel": wheel}
    return NOTES.format(rows=rows, pushes=pushes, **said)


def sums(files: Iterable[Path]) -> str:
    """Return the checksums of files in sha256sum's format."""
    lines = []
    for file in sorted(files):
        with file.open("rb") as content:
            lines.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {file.name}")
    return "\n".join(lines) + "\n"


def make(version: str, out: Path) -> None:
    """Write all artifacts of the version to the folder, which is deleted first."""
    checked(version, {place: (ROOT / place).read_text() for place in PLACES})
    changes = section((ROOT / "CHANGELOG.md").read_text(), version)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    step = Step("release", 240, time.monotonic(), CACHE / "release.log")
    step.log.write_bytes(b"")
    images = _images(version, out, step)
    step.run("helm", "package", str(ROOT / "charts/dijob"), "--destination", str(out))
    for project in (ROOT, ROOT / "images/dijob-runtime"):
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
        step.run(*pip, str(out), str(project))
    bills = [sys.executable, str(Path(__file__).with_name("sbom.py")), *RELEASED]
    for bill in subprocess.check_output(bills, text=True).split():
        shutil.copy(bill, out)
    (wheel,) = out.glob("dijob-*.whl")
    (out / "NOTES.md").write_text(notes(version, changes, images, wheel.name))
    (out / "SHA256SUMS").write_text(sums(out.iterdir()))


def _images(version: str, out: Path, step: Step) -> dict[str, str]:
    """Write the images as OCI archives, and return their digests by file."""
    build = [sys.executable, str(Path(__file__).with_name("build.py")), *RELEASED]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    digests = {}
    for name in RELEASED:
        reference = IMAGES[name].reference
        # The DI-engine image is tagged with DI-engine's version.
        tag = reference.rpartition(":")[2]
        file = out / f"{name}-{tag}{ARCHIVE}"
        with tempfile.TemporaryDirectory(prefix="work-", dir=CACHE) as work:
            buildah = [*SANDBOX, "buildah", "--root", f"{work}/store", "--runroot", f"{work}/run"]
            step.run(*buildah, "pull", "--quiet", f"docker-archive:{archive(name)}")
            target = f"oci-archive:{file}:{reference}"
            step.run(*buildah, "push", "--quiet", "--format", "oci", reference, target)
        digests[file.name] = digest_of(file)
        say(f"{file.name}: {digests[file.name]}, {file.stat().st_size / 1e6:.0f} MB")
    return digests


def main() -> int:
    """Exit code 1 with one message if the version is wrong or a build fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    out = given.out or ROOT / "dist" / given.version
    try:
        make(given.version, out)
    except (BuildError, OSError, subprocess.CalledProcessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(f"{out}: {', '.join(sorted(file.name for file in out.iterdir()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
