"""A progress bar for a job in a terminal or in a notebook. If the output is neither, lines are
printed instead of a bar.

In a notebook, IPython's display handle updates the output. rich's Live would need ipywidgets there,
and would leave nothing in the saved notebook (docs/decisions/038).
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

# The numbers of a progress report (api/reported.py) that a bar can compare with a target.
COUNTED: Final = ("iteration", "env_step", "episode_return")
_WIDTH: Final = 30
_STYLES: Final[dict[str, str]] = {
    Phase.SUCCEEDED: "green",
    Phase.FAILED: "red",
    Phase.RUNNING: "cyan",
}


@dataclass(frozen=True)
class Shown:
    """The content of a bar at one moment."""

    name: str
    phase: str
    part: float | None
    """The completed fraction, 0 to 1; None if it is unknown."""
    told: str

    @property
    def line(self) -> str:
        """The content as one line of text."""
        part = "" if self.part is None else f" {self.part:.0%}"
        return f"{self.name}: {self.phase}{part}: {self.told}"


def measure_progress(job: Job, of: str = "", total: float = 0.0) -> Shown:
    """Return the content of a bar for a job.

    `of` names the reported number that the bar compares with `total`. Until the program reports
    this number, the bar counts the ready ranks. A job that has succeeded is complete, whatever it
    reported.
    """
    status, progress = job.status, job.progress
    texts = [job.message, progress.line if progress else ""]
    words = ", ".join(one_line(text) for text in texts if text)
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
    """Shows the progress of a job: `with Bar() as bar: client.wait(name, seen=bar)`.

    Call `bar(job)` to show any state of a job. `Bar(env_step=100_000)` compares a number that the
    program reports with the given value. The number can be iteration, env_step or episode_return.
    Without such a target, the bar counts the ready ranks. There is no percentage of time, because
    the operator does not know how long a job takes.
    """

    def __init__(self, *, file: Any = None, **target: float) -> None:
        """Write to `file` instead of stderr. Raises DijobError for an unknown target."""
        if len(target) > 1 or not target.keys() <= set(COUNTED):
            raise DijobError(f"Bar takes one of {', '.join(COUNTED)}, not {', '.join(target)}")
        self._of, self._total = next(iter(target.items()), ("", 0.0))
        if target and self._total <= 0:
            raise DijobError(f"Bar({self._of}={self._total:g}): the number must be positive")
        self._file = file if file is not None else sys.stderr
        self._last_line = ""
        self._draw: Callable[[Shown], None] = self._print
        self._close: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        try:
            from rich.console import Console
        except ImportError as error:
            raise DijobError("Bar needs rich: pip install 'dijob[cli]'") from error
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
        """Show a state of the job, unless it looks like the previous one."""
        now = measure_progress(job, self._of, self._total)
        if now.line != self._last_line:
            self._last_line = now.line
            self._draw(now)

    def _print(self, now: Shown) -> None:
        print(now.line, file=self._file, flush=True)


def render_bar(now: Shown, *, moves: bool = True) -> "RenderableType":
    """Return the bar for rich.

    If the completed fraction is unknown, the bar moves back and forth. `moves` is false if the
    output cannot be animated, as in a notebook. In that case, a bar whose fraction is unknown is
    left out.
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
    return lambda now: live.update(render_bar(now), refresh=True), live.stop


def _in_notebook() -> Callable[[Shown], None]:
    """Return a function that shows a state in the output of the notebook's cell, in place of the
    previous state.
    """
    from IPython.display import display
    from rich.text import Text

    handle = display(Text("..."), display_id=True)
    return lambda now: handle.update(render_bar(now, moves=False))
