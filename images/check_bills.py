"""Validates SBOMs (sbom.py) against CycloneDX's schema, and their package URLs against the
reference implementation.

Usage: check_bills.py FILE...; it needs the packages listed in images/audit.txt.
"""

import json
import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL


def wrong(text: str) -> list[str]:
    """Return the errors of an SBOM."""
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error is not None:
        return [str(error)]
    urls = [each["purl"] for each in json.loads(text)["components"]]
    return [url for url in urls if PackageURL.from_string(url).to_string() != url]


def main() -> int:
    """Exit code 1 if an SBOM is invalid."""
    bad = 0
    for path in map(Path, sys.argv[1:]):
        found = wrong(path.read_text())
        bad += bool(found)
        print(f"{path.name}: {'; '.join(found) if found else 'valid'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
