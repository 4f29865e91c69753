"""Writes the generated CRD and the pages about it; `--check` reports those that are out of date."""

import re
import sys
from typing import Final

import yaml

from dijob.crd import crd_manifest, crd_schema
from dijob.crd.conditions import conditions_page
from dijob.crd.pages import settle_pages
from dijob.crd.reference import reference_page

_NOTE: Final = "# Generated from operator/dijob/api/model.py by `make crds`; do not edit.\n"


class _Plain(yaml.SafeDumper):
    """A dumper that writes repeated parts in full, because YAML anchors are hard to read."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def generated_files() -> dict[str, str]:
    """Return the text of each generated file, keyed by its path in the repository."""
    crd = crd_manifest()
    plain = yaml.dump(crd, Dumper=_Plain, sort_keys=False, width=110, allow_unicode=True)
    return {
        "crds/dijob.yaml": _NOTE + plain,
        "charts/dijob/templates/crd.yaml": chart_template(plain),
        "docs/reference.md": reference_page(crd_schema()),
        "docs/conditions.md": conditions_page(),
    }


def chart_template(crd: str) -> str:
    """Return the CRD as a Helm template.

    The chart's values decide whether the CRD is installed, and whether `helm uninstall` keeps it.
    The column Progress is left out if the values allow no progress reports, because it would always
    be empty. Raises ValueError if a description contains Helm's own delimiter.
    """
    if "{{" in crd:
        raise ValueError("the CRD contains {{, which Helm would interpret as a template action")
    column = re.search(r"    - name: Progress\n(?:      .*\n)+", crd)
    assert column is not None
    condition = "{{- if or .Values.launcher.channel .Values.server.enabled }}"
    crd = crd.replace(column[0], f"    {condition}\n{column[0]}    {{{{- end }}}}\n")
    name, rest = crd.split("spec:\n", 1)
    return (
        f"{{{{- if .Values.crds.install }}}}\n{_NOTE}{name}"
        "  {{- if .Values.crds.keep }}\n"
        "  # Deleting the CRD deletes every DIJob in the cluster, so `helm uninstall` leaves it\n"
        "  # in place.\n"
        "  annotations:\n    helm.sh/resource-policy: keep\n"
        f"  {{{{- end }}}}\nspec:\n{rest}{{{{- end }}}}\n"
    )


def main() -> int:
    """Write or check the files. Returns 1 if --check found a file that is out of date, else 0."""
    return settle_pages("python -m dijob.crd", str(__doc__), generated_files())


if __name__ == "__main__":
    sys.exit(main())
