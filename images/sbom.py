"""Writes an SBOM (CycloneDX 1.6) for each image, from the actual content of its archive.

Debian packages come from dpkg's list, Python packages from pip's metadata, and Go modules from the
build information in the binary. Usage: sbom.py [NAME...]; it prints the paths.
"""

from __future__ import annotations

import argparse
import email.parser
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote

from catalogue import IMAGES, ORDER, VERSION
from golang import find_go

Json = dict[str, Any]
Files = dict[str, bytes]

DPKG = "var/lib/dpkg/status"
GO_PROGRAMS = ("launch", "stacks")
# Packages installed by pip. Python packages from Debian are in dpkg's list.
METADATA = re.compile(r"(?!usr/lib/python3/).*\.dist-info/METADATA")
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"


def is_wanted(path: str) -> bool:
    """Whether a file of an image lists packages."""
    return path in (DPKG, *GO_PROGRAMS) or METADATA.fullmatch(path) is not None


def files_of(archive: Path) -> tuple[str, Files]:
    """Return the image's ID (the digest of its configuration), and the wanted files by path."""
    found: Files = {}
    with tarfile.open(archive) as outer:
        manifest = json.loads(_read(outer, "manifest.json"))[0]
        digest = hashlib.sha256(_read(outer, manifest["Config"])).hexdigest()
        for layer in manifest["Layers"]:
            stream = outer.extractfile(layer)
            if stream is None:
                raise ValueError(f"{archive} has no {layer}")
            with tarfile.open(fileobj=stream, mode="r|*") as inner:
                _apply(inner, found)
    return digest, found


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    stream = archive.extractfile(name)
    if stream is None:
        raise ValueError(f"{archive.name!r} has no {name}")
    return stream.read()


def _apply(layer: tarfile.TarFile, found: Files) -> None:
    """Apply a layer to the files of the layers below. `.wh.NAME` removes NAME from them."""
    new: Files = {}
    gone: list[str] = []
    for member in layer:
        path = member.name.removeprefix("./").lstrip("/")
        folder, _, name = path.rpartition("/")
        if name == OPAQUE:
            gone.append(folder)
        elif name.startswith(WHITEOUT):
            gone.append(f"{folder}/{name.removeprefix(WHITEOUT)}".lstrip("/"))
        elif member.isreg() and is_wanted(path):
            stream = layer.extractfile(member)
            new[path] = stream.read() if stream else b""
    for path in list(found):
        if any(path == each or path.startswith(f"{each}/") for each in gone):
            del found[path]
    found |= new


def components(files: Files) -> list[Json]:
    """Return the packages in the files, sorted by package URL."""
    found: list[Json] = []
    for path, data in files.items():
        if path == DPKG:
            found += debian_packages(data.decode())
        elif path in GO_PROGRAMS:
            found += go_modules(data)
        else:
            found.append(python_package(data.decode()))
    return sorted(found, key=lambda each: str(each["purl"]))


def debian_packages(status: str) -> Iterator[Json]:
    """Yield the packages that are installed according to dpkg's list."""
    for stanza in status.split("\n\n"):
        fields = email.parser.Parser().parsestr(stanza, headersonly=True)
        if fields["Package"] and (fields["Status"] or "").endswith(" installed"):
            where = {"arch": fields["Architecture"], "distro": "debian-12"}
            yield component("deb/debian", fields["Package"], fields["Version"], where)


def python_package(metadata: str) -> Json:
    """Return the package that a METADATA file describes, with its license."""
    fields = email.parser.Parser().parsestr(metadata, headersonly=True)
    # https://packaging.python.org/en/latest/specifications/name-normalization
    name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
    made = component("pypi", name, fields["Version"])
    if expression := fields["License-Expression"]:
        made["licenses"] = [{"expression": expression}]
    elif licence := licence_of(fields):
        made["licenses"] = [{"license": {"name": licence}}]
    return made


def licence_of(fields: Message[str, str]) -> str:
    """Return the license from the older fields (classifiers, or one line), or ""."""
    said = [value for name, value in fields.items() if name == "Classifier"]
    found = [value.rpartition(" :: ")[2] for value in said if value.startswith("License :: ")]
    line = (fields["License"] or "").strip()
    return ", ".join(found) or ("" if "\n" in line else line)


def go_modules(program: bytes) -> Iterator[Json]:
    """Yield the standard library and the modules of a Go program."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(program)
        file.flush()
        said = subprocess.run(
            [find_go(), "version", "-m", file.name], check=True, capture_output=True, text=True
        ).stdout
    first, *rows = said.splitlines()
    yield component("golang", "stdlib", first.rpartition("go")[2])
    for row in rows:
        kind, _, rest = row.strip().partition("\t")
        if kind == "dep":
            name, version, *_ = rest.split("\t")
            yield component("golang", name, version)


def component(
    kind: str, name: str, version: str, qualifiers: Mapping[str, str] | None = None
) -> Json:
    """Return a library with its package URL (https://github.com/package-url/purl-spec)."""
    purl = f"pkg:{kind}/{quote(name, safe='/~')}@{quote(version, safe=':~')}"
    if qualifiers:
        purl += "?" + "&".join(f"{key}={value}" for key, value in sorted(qualifiers.items()))
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def bill(reference: str, archive: Path) -> Json:
    """Return the SBOM of an image. The same archive always has the same SBOM."""
    digest, files = files_of(archive)
    name, _, version = reference.partition(":")
    image = {
        "type": "container",
        "bom-ref": f"{name}@sha256:{digest}",
        "name": name,
        "version": version,
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
    tool = {"type": "application", "name": "images/sbom.py", "version": VERSION}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {"tools": {"components": [tool]}, "component": image},
        "components": components(files),
    }


def main() -> int:
    """Write the SBOMs of the images that the command line names. Images that are
    not in the cache are built.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(IMAGES)}")
    names = parser.parse_args().names or list(ORDER)
    build = [sys.executable, str(Path(__file__).with_name("build.py")), *names]
    built = subprocess.run(build, check=False, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        return built.returncode
    for name, archive in zip(names, map(Path, built.stdout.split()), strict=True):
        target = archive.with_name(f"{name}.cdx.json")
        target.write_text(json.dumps(bill(IMAGES[name].reference, archive), indent=2) + "\n")
        print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
