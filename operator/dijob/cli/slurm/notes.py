"""What is said about lines that have no counterpart."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Note:
    """A line of the script, and what to do about it."""

    number: int
    text: str
    advice: str


@dataclass
class Notes:
    """All notes, in the order of the lines when they are read out."""

    found: list[Note] = field(default_factory=list)

    def add(self, number: int, text: str, advice: str) -> None:
        """Note it, once."""
        note = Note(number, text, advice)
        if note not in self.found:
            self.found.append(note)

    def sorted(self) -> list[Note]:
        """In the order of the lines."""
        return sorted(self.found, key=lambda note: note.number)
