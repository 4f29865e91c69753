"""`python -m dijob.crd` writes the generated files; `--check` says which are out of date."""

import sys
from typing import Final

import yaml

from dijob.crd import document, schema
from dijob.crd.conditions import conditions
from dijob.crd.pages import settle
from dijob.crd.reference import reference

_NOTE: Final = "# Generated from operator/dijob/api/model.py by `make crds`; do not edit.\n"


class _Plain(yaml.SafeDumper):
    """Writes no anchors, which are hard to read: what occurs twice is there twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def outputs() -> dict[str, str]:
    """Path below the repository's root -> text."""
    crd = document()
    plain = yaml.dump(crd, Dumper=_Plain, sort_keys=False, width=110, allow_unicode=True)
    return {
        "crds/dijob.yaml": _NOTE + plain,
        "charts/dijob/templates/crd.yaml": chart(plain),
        "docs/reference.md": reference(schema()),
        "docs/conditions.md": conditions(),
    }


def chart(crd: str) -> str:
    """The CRD as a Helm template: left out, or kept at `helm uninstall`, as the values say."""
    if "{{" in crd:
        raise ValueError("the CRD holds {{, which Helm would read as its own")
    name, rest = crd.split("spec:\n", 1)
    return (
        f"{{{{- if .Values.crds.install }}}}\n{_NOTE}{name}"
        "  {{- if .Values.crds.keep }}\n"
        "  # Deleting the CRD deletes every DIJob in the cluster: `helm uninstall` leaves it.\n"
        "  annotations:\n    helm.sh/resource-policy: keep\n"
        f"  {{{{- end }}}}\nspec:\n{rest}{{{{- end }}}}\n"
    )


def main() -> int:
    """Exit code 1: with --check, something is out of date."""
    return settle("python -m dijob.crd", str(__doc__), outputs())


if __name__ == "__main__":
    sys.exit(main())
