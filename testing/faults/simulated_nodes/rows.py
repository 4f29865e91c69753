"""The data of the table: recipes, rows with results, and the figures of a run as a file."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter
from report import Machine

from faults.simulated_nodes.stage import Stage


@dataclass(frozen=True)
class Outcome:
    """The result of one run of a recipe: the figure, other observations, and all problems."""

    figure: float
    seen: str = ""
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """One fault: its number in the list of recipes, a name by which it is selected, what is done,
    what is measured, and the upper bound of the figure.

    `alone` means that the fault affects the whole control plane, so no other recipe may run at the
    same time. `over_channel` is false if the fault has the same effect with and without a channel.
    """

    number: str
    name: str
    done: str
    measures: str
    bound: float
    run: Callable[[Stage], Awaitable[Outcome]]
    alone: bool = False
    over_channel: bool = True


@dataclass(frozen=True)
class Row:
    """A recipe with its result. `figure` is None if it could not be measured."""

    number: str
    name: str
    done: str
    measures: str
    bound: float
    figure: float | None
    seen: str
    wrong: tuple[str, ...]
    seconds: float

    @staticmethod
    def of(recipe: Recipe, outcome: Outcome | str, seconds: float) -> "Row":
        """Return the row for an outcome, or for the text of the error that ended the recipe."""
        said = (recipe.number, recipe.name, recipe.done, recipe.measures, recipe.bound)
        if isinstance(outcome, str):
            return Row(*said, None, "", (outcome,), round(seconds))
        # Rounded before it is compared, so that the verdict agrees with the printed figure.
        figure = round(outcome.figure, 2)
        return Row(*said, figure, outcome.seen, outcome.wrong, round(seconds))

    @property
    def within(self) -> bool:
        """Whether the figure is within its bound, and nothing was wrong."""
        return self.figure is not None and self.figure <= self.bound and not self.wrong


@dataclass
class Report:
    """The rows of one run, the machine that it ran on, and its seed."""

    machine: Machine
    seed: int
    rows: list[Row] = field(default_factory=list)

    @staticmethod
    def read(file: Path) -> "Report":
        """Read what `save` has written."""
        return TypeAdapter(Report).validate_json(file.read_bytes())

    def save(self, file: Path) -> None:
        """Write all figures as JSON."""
        file.write_bytes(TypeAdapter(Report).dump_json(self, indent=1) + b"\n")

    @property
    def out_of_bounds(self) -> list[Row]:
        """The rows that are out of their bounds."""
        return [row for row in self.rows if not row.within]


def table(report: Report) -> str:
    """Return all rows as a Markdown table, with the machine and the seed above it."""
    heads = ("recipe", "what is done", "figure", "bound", "also observed", "verdict")
    body = [_cells(row) for row in report.rows]
    lines = [heads, ("---",) * len(heads), *body]
    shown = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{report.machine} Seed {report.seed}.\n\n{shown}\n"


def _cells(row: Row) -> tuple[str, ...]:
    figure = "not measured" if row.figure is None else f"{row.measures}: **{row.figure:g}**"
    verdict = "within" if row.within else "**OUT OF BOUND**"
    return (f"{row.number} `{row.name}`", row.done, figure, f"{row.bound:g}", row.seen, verdict)


def chosen(recipes: Iterable[Recipe], names: Iterable[str]) -> list[Recipe]:
    """Return the recipes with these names or numbers; all if none is given. Raise ValueError for
    unknown names.
    """
    known, wanted = list(recipes), set(names)
    # If a name is misspelled, its row must not be left out silently.
    if strange := wanted - {word for one in known for word in (one.name, one.number)}:
        raise ValueError(
            f"no row {', '.join(sorted(strange))}; there are {', '.join(one.name for one in known)}"
        )
    return [one for one in known if not wanted or wanted & {one.name, one.number}]
