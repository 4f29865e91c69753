"""Writes the tables of docs/performance.md from the figures in bench/results: python bench/page.py.

Each table of the page is enclosed by two comments with its name. The commands that measure print
their tables with the same comments.
"""

from collections.abc import Mapping
from pathlib import Path

from compared.record import Results, table
from report import Report
from tables import full_blocks, start_blocks

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs/performance.md"
START, FULL = HERE / "results/start.json", HERE / "results/full.json"
PEERS = HERE / "results/peers.json"


def edges(name: str) -> tuple[str, str]:
    """Return the two comments that enclose a table."""
    return f"<!-- {name} -->\n", f"<!-- end of {name} -->"


def block(name: str, text: str) -> str:
    """Return a table with its two comments."""
    begin, end = edges(name)
    return f"{begin}{text}\n{end}"


def show(blocks: Mapping[str, str]) -> None:
    """Print tables in the form that they have on the page."""
    print("\n\n".join(block(name, text) for name, text in blocks.items() if text))


def filled(page: str, blocks: Mapping[str, str]) -> str:
    """Return the page with these tables in their places. Raise KeyError if the page lacks such a
    place.
    """
    for name, text in blocks.items():
        begin, end = edges(name)
        before, _, rest = page.partition(begin)
        _, ended, after = rest.partition(end)
        if not ended:
            raise KeyError(f"no place for {name}")
        page = before + block(name, text) + after
    return page


def all_blocks() -> dict[str, str]:
    """Return all tables of the page."""
    peers = Results.read(PEERS)
    blocks = start_blocks(Report.read(START)) | full_blocks(Report.read(FULL))
    return blocks | {"peers": f"{peers.machine}\n\n{table(peers)}"}


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text(), all_blocks()))


if __name__ == "__main__":
    main()
