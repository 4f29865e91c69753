"""Collects advice about lines that have no counterpart in a DIJob."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Note:
    """A line of the script, and advice about it."""

    number: int
    text: str
    advice: str


@dataclass
class Notes:
    """The notes about a script."""

    found: list[Note] = field(default_factory=list)

    def add(self, number: int, text: str, advice: str) -> None:
        """Add a note, unless it exists already."""
        note = Note(number, text, advice)
        if note not in self.found:
            self.found.append(note)

    def sorted(self) -> list[Note]:
        """Return the notes in the order of the lines."""
        return sorted(self.found, key=lambda note: note.number)
