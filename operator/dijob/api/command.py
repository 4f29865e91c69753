"""Reads a container's command and args: whether it runs ditask, with which options, and how.

The options are those of DI-engine 0.5.3, ding/entry/cli_ditask.py; their effect with `--platform
k8s` is in ding/entry/cli_parsers/k8s_parser.py. Nothing here guesses: a value in a variable or a
script is None, and `dynamic` is true. Nothing here raises: a command can be any text.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dijob import names
from dijob.api import shellwords
from dijob.api.shellwords import basename

DITASK: Final = "ditask"
# Short options of cli_ditask.py; every other option is long.
_SHORT: Final = {"-p": "package", "-m": "main"}
_FLAGS: Final = frozenset({"-v", "--version", "-h", "--help"})
# Options that decide whether and where a process listens.
_LISTENING: Final = frozenset(
    {"ports", "mq-type", "protocol", "platform", "platform-spec", "address"}
)
# Longest text of a command that is read, over all words; a script in a script counts once more.
READ_LENGTH: Final = 16 * 1024
_ACTIVATORS: Final = frozenset({"conda", "mamba", "micromamba"})


@dataclass(frozen=True)
class Command:
    """The visible effects of a container's command line.

    An option is None where the user did not give it, or where its value cannot be read (`hidden`
    then has its name without dashes, or "*" where any option may be hidden, as in `ditask "$@"`).
    """

    runs_ditask: bool = False
    platform: str | None = None
    parallel_workers: int | None = None
    topology: str | None = None
    mq_type: str | None = None
    ports: tuple[int, ...] = ()
    bypass: str | None = None  # what keeps the launcher's ditask from being found, in words
    dynamic: bool = False  # a script, a variable or calls that differ hide something
    hidden: frozenset[str] = frozenset()
    # Every readable option, by its long name without dashes.
    options: Mapping[str, str] | None = None

    @staticmethod
    def of(container: Mapping[str, Any]) -> "Command":
        """Read a container of a pod template (`command` and `args`, both optional)."""
        words = _strings(container.get("command"))
        if not words:
            # The image's entry point decides, and it is not here to be read.
            return Command(dynamic=True)
        words += _strings(container.get("args"))
        seen = _Seen()
        if seen.may_read(words):
            _read_argv(words, seen, depth=0)
        # Nothing is known of a command that is only half read.
        return Command(dynamic=True, hidden=frozenset("*")) if seen.too_long else _command(seen)

    def hides(self, option: str) -> bool:
        """Whether the option (long name, no dashes) may have a value that cannot be read."""
        return option in self.hidden or "*" in self.hidden


def listen_port(command: Command) -> int | None:
    """The TCP port that a command's first worker listens on (over nng or torchrpc), else None.

    `--ports` or 50515 (k8s_parser.py `_get_ports`, cli_ditask.py). None for another queue (with
    redis no process listens), for ipc, another platform, an address or platform-spec, and an option
    that cannot be read.
    """
    options = command.options or {}
    plain = (
        options.get("mq-type", "nng") in names.DIALLING
        and options.get("protocol", "tcp") == "tcp"
        and options.get("platform", "k8s") == "k8s"
        and "platform-spec" not in options
        and "address" not in options
    )
    if not command.runs_ditask or not plain or any(command.hides(option) for option in _LISTENING):
        return None
    if "ports" not in options:
        return names.BASE_PORT
    return command.ports[0] if command.ports else None


class _Seen:
    """The findings so far, while the command is read from left to right."""

    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, str], frozenset[str]]] = []
        self.detour: str | None = None  # an activation or login shell that later words run under
        self.bypass: str | None = None
        self.opaque = False
        self.too_long = False
        self._left = READ_LENGTH

    def may_read(self, words: Iterable[str]) -> bool:
        """Whether these words may be read too, without all that is read becoming too long."""
        self._left -= sum(map(len, words))
        self.too_long = self._left < 0
        return not self.too_long

    def call(self, words: Sequence[str], detour: str | None = None) -> None:
        self.calls.append(_options(words))
        self.bypass = self.bypass or detour or self.detour


def _strings(value: object) -> list[str]:
    given = value if isinstance(value, list | tuple) else ()
    return ["" if word is None else str(word) for word in given]


def _read_argv(words: Sequence[str], seen: _Seen, depth: int) -> None:
    """Read one simple command, in exec form or as a shell would run it."""
    words = shellwords.unwrap(words)
    if not words or depth > 8:
        seen.opaque = seen.opaque or depth > 8
        return
    program, rest = words[0], words[1:]
    name = basename(program) or program
    if name == DITASK:
        seen.call(rest, f"the path `{program}`" if "/" in program else None)
    elif name in shellwords.SHELLS:
        _read_shell(program, rest, seen, depth)
    elif name.startswith("python"):
        _read_python(name, rest, seen)
    elif name in ("source", "."):
        if rest and basename(rest[0]) == "activate":
            seen.detour = f"`{name} {rest[0]}`"
        else:
            seen.opaque = True
    elif name in _ACTIVATORS and rest[:1] == ["activate"]:
        seen.detour = f"`{name} activate`"
    elif name in _ACTIVATORS and rest[:1] == ["run"]:
        _read_conda_run(name, rest[1:], seen, depth)
    elif "/" in program or "$" in program or name == "eval":
        seen.opaque = True  # a script or a program that may run ditask itself


def _read_shell(program: str, rest: Sequence[str], seen: _Seen, depth: int) -> None:
    call = shellwords.parse_call(rest)
    if call.login:
        seen.detour = f"the login shell `{basename(program)} -l`"
    # The outermost has been counted with the words.
    script = (
        call.script
        if call.script is not None and (not depth or seen.may_read([call.script]))
        else None
    )
    simple = None if script is None else shellwords.simple_commands(script)
    if simple is None:
        seen.opaque = True
        return
    for words in simple:
        _read_argv(words, seen, depth + 1)


def _read_python(name: str, rest: Sequence[str], seen: _Seen) -> None:
    """`python -m ding.entry.cli_ditask ARGS`, also behind torch.distributed.launch and the like."""
    after = rest.index("-m") if "-m" in rest else len(rest)
    modules = [at for at, word in enumerate(rest) if at > after and word.startswith("ding.entry")]
    if modules:
        seen.call(rest[modules[0] + 1 :], f"`{name} -m {rest[modules[0]]}`")
        return
    paths = [at for at, word in enumerate(rest) if basename(word) in (DITASK, "cli_ditask.py")]
    if paths:
        seen.call(rest[paths[0] + 1 :], f"`{name} {rest[paths[0]]}`")


def _read_conda_run(name: str, rest: Sequence[str], seen: _Seen, depth: int) -> None:
    starts = [at for at, word in enumerate(rest) if shellwords.is_known_program(word)]
    if starts:
        seen.detour = f"`{name} run`"
        _read_argv(rest[starts[0] :], seen, depth + 1)


def _options(words: Sequence[str]) -> tuple[dict[str, str], frozenset[str]]:
    """The options of one ditask call as click reads them: the last one wins, `--` ends them."""
    given: dict[str, str] = {}
    hidden: set[str] = set()
    for name, value in _pairs(words):
        given.pop(name, None)
        hidden.discard(name)
        if name == "*" or value is None or shellwords.is_hidden(value):
            hidden.add(name)
        else:
            given[name] = value
    return given, frozenset(hidden)


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    rest = iter(words)
    for word in rest:
        if word == "--":
            return
        if word.startswith("--") and "=" in word:
            name, _, value = word[2:].partition("=")
            yield name, value
        elif word in _FLAGS:
            continue
        elif word.startswith("--"):
            yield word[2:], next(rest, None)
        elif word[:2] in _SHORT:
            yield _SHORT[word[:2]], word[2:] or next(rest, None)
        elif shellwords.is_hidden(word):
            yield "*", None


def _command(seen: _Seen) -> Command:
    if not seen.calls:
        return Command(dynamic=seen.opaque)
    first = seen.calls[0][0]
    hidden = {name for _, names_ in seen.calls for name in names_}
    # Calls that differ (an if on the rank, say): which of them runs is unknown.
    counts = Counter(pair for given, _ in seen.calls for pair in given.items())
    hidden |= {name for (name, _), count in counts.items() if count < len(seen.calls)}
    options = {name: value for name, value in first.items() if name not in hidden}
    return Command(
        runs_ditask=True,
        platform=options.get("platform"),
        parallel_workers=_integer(options.get("parallel-workers")),
        topology=options.get("topology"),
        mq_type=options.get("mq-type"),
        ports=_ports(options.get("ports")),
        bypass=seen.bypass,
        dynamic=seen.opaque or bool(hidden),
        hidden=frozenset(hidden),
        options=options,
    )


def _integer(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _ports(text: str | None) -> tuple[int, ...]:
    ports = [_integer(part) for part in (text or "").split(",")]
    known = tuple(port for port in ports if port is not None and 0 < port < 65536)
    return known if len(known) == len(ports) else ()
