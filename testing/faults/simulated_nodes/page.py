"""Writes the tables about simulated nodes in docs/reliability.md from the figures in bench/results:
python -m faults.simulated_nodes.page.
"""

from page import HERE, filled

from faults.simulated_nodes import rows
from faults.soak import results as soaked

PAGE = HERE.parent / "docs/reliability.md"
FAULTS, SOAK = HERE / "results/faults.json", HERE / "results/soak.json"


# Shown instead of a table as long as there are no figures.
NOT_MEASURED = "Not measured yet: run `make {0}`, then `make faults-page`.\n"


def blocks() -> dict[str, str]:
    """Return the page's tables by name. A table without figures is replaced by a note that says how
    to measure them.
    """
    return {
        "faults": rows.table(rows.Report.read(FAULTS))
        if FAULTS.exists()
        else NOT_MEASURED.format("faults"),
        "soak": soaked.table(soaked.Soaked.read(SOAK))
        if SOAK.exists()
        else NOT_MEASURED.format("soak"),
    }


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text(), blocks()))


if __name__ == "__main__":
    main()
