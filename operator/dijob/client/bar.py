"""A job as a progress bar: in a terminal, in a notebook, or as lines where there is neither.

A notebook's output is replaced by IPython's own display handle: rich's Live would need ipywidgets
for that, and leaves nothing in the saved notebook.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from dijob.api.printed import one_line
from dijob.client.errors import DijobError
from dijob.client.jobs import Job
from dijob.names import Phase

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# What a program reports (api/reported.py), and what a bar can count.
COUNTED: Final = ("iteration", "env_step", "episode_return")
_WIDTH: Final = 30
_STYLES: Final[dict[str, str]] = {
    Phase.SUCCEEDED: "green",
    Phase.FAILED: "red",
    Phase.RUNNING: "cyan",
}


@dataclass(frozen=True)
class Shown:
    """What a bar says at one moment."""

    name: str
    phase: str
    part: float | None
    """How much is done, 0 to 1; None where nobody can tell."""
    told: str

    @property
    def line(self) -> str:
        """All of it as text."""
        part = "" if self.part is None else f" {self.part:.0%}"
        return f"{self.name}: {self.phase}{part}: {self.told}"


def shown(job: Job, of: str = "", total: float = 0.0) -> Shown:
    """A job's part of what it shall reach: of `total` by what it reports, before that of its ranks.
    A job that has succeeded is whole.
    """
    status, progress = job.status, job.progress
    told = [job.message, progress.line if progress else ""]
    words = ", ".join(one_line(text) for text in told if text)
    value = getattr(progress, of, None) if of and progress else None
    part: float | None = None
    if job.phase == Phase.SUCCEEDED:
        part = 1.0
    elif value is not None:
        part = min(1.0, max(0.0, value / total))
    elif status.desired and not (job.is_true("Running") or job.finished):
        part = min(1.0, status.ready_replicas / status.desired)
    return Shown(job.name, job.phase, part, words)


class Bar:
    """`with Bar() as bar: client.wait(name, seen=bar)`; `bar(job)` shows any state of one job.

    `Bar(env_step=100_000)` counts by what the program reports (iteration, env_step or
    episode_return) up to that; without it the bar is about the ranks until they run.
    """

    def __init__(self, *, file: Any = None, **target: float) -> None:
        """`file`: where to write, instead of stderr. Raises DijobError for an unknown target."""
        if len(target) > 1 or not target.keys() <= set(COUNTED):
            raise DijobError(f"a bar counts one of {', '.join(COUNTED)}, not {', '.join(target)}")
        self._of, self._total = next(iter(target.items()), ("", 0.0))
        if target and self._total <= 0:
            raise DijobError(f"{self._of}={self._total:g}: a bar counts up to a positive number")
        self._file = file if file is not None else sys.stderr
        self._said = ""
        self._draw: Callable[[Shown], None] = self._print
        self._close: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        try:
            from rich.console import Console
        except ImportError as error:
            raise DijobError("a bar needs rich: pip install 'dijob[cli]'") from error
        console = Console(file=self._file)
        if console.is_jupyter:
            self._draw = _in_notebook()
        elif console.is_terminal:
            self._draw, self._close = _in_terminal(console)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def __call__(self, job: Job) -> None:
        """Show a state of the job; nothing where it looks like the last one."""
        now = shown(job, self._of, self._total)
        if now.line != self._said:
            self._said = now.line
            self._draw(now)

    def _print(self, now: Shown) -> None:
        print(now.line, file=self._file, flush=True)


def drawn(now: Shown, *, moves: bool = True) -> "RenderableType":
    """The bar as rich draws it. Where nobody can tell how much is done it moves to and fro, or,
    where nothing moves, is left out.
    """
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    style = _STYLES.get(now.phase, "yellow")
    row: list[RenderableType] = [Text(now.name, "bold"), Text(now.phase, style)]
    if now.part is not None:
        bar = ProgressBar(1.0, now.part, _WIDTH, complete_style=style, finished_style=style)
        row += [bar, Text(f"{now.part:4.0%}")]
    elif moves:
        row.append(ProgressBar(width=_WIDTH, pulse=True))
    table = Table.grid(padding=(0, 1))
    table.add_row(*row, Text(now.told))
    return table


def _in_terminal(console: "Console") -> tuple[Callable[[Shown], None], Callable[[], None]]:
    from rich.live import Live

    live = Live(console=console, refresh_per_second=8)
    live.start()
    return lambda now: live.update(drawn(now), refresh=True), live.stop


def _in_notebook() -> Callable[[Shown], None]:
    """Each state in the place of the last one, in the cell that has made the bar."""
    from IPython.display import display
    from rich.text import Text

    handle = display(Text("..."), display_id=True)
    return lambda now: handle.update(drawn(now, moves=False))
