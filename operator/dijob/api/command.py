"""Parses a container's command and args, to find out whether and how they run ditask, and with
which options.

The operator must know some options, such as the number of workers, before it creates the pods. The
options are those of DI-engine 0.5.3, ding/entry/cli_ditask.py. Their effect with `--platform k8s`
is defined in ding/entry/cli_parsers/k8s_parser.py.

The parser does not guess: for a value in a variable or a script file it returns None, and sets
`dynamic`. It raises no exceptions, because a command can be any text.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dijob import names
from dijob.api import shellwords
from dijob.api.shellwords import program_name

DITASK: Final = "ditask"
# The short options of cli_ditask.py that take a value, with their long names.
_SHORT: Final = {"-p": "package", "-m": "main"}
_FLAGS: Final = frozenset({"-v", "--version", "-h", "--help"})
# Options that determine whether and where a process listens.
_LISTENING: Final = frozenset(
    {"ports", "mq-type", "protocol", "platform", "platform-spec", "address"}
)
# The maximum length of a command that is parsed: the total number of characters in its words. A
# script within a script is counted again. All jobs share one thread, so a long command of one job
# would delay the others.
READ_LENGTH: Final = 16 * 1024
_ACTIVATORS: Final = frozenset({"conda", "mamba", "micromamba"})


@dataclass(frozen=True)
class Command:
    """The facts that can be read from a container's command line.

    An option is None if it is absent or if its value cannot be read. If the value cannot be read,
    `hidden` contains the option's name without dashes. It contains "*" if any option may be hidden,
    as in `ditask "$@"`.
    """

    runs_ditask: bool = False
    platform: str | None = None
    parallel_workers: int | None = None
    topology: str | None = None
    mq_type: str | None = None
    ports: tuple[int, ...] = ()
    # Why the shell does not find the launcher's ditask: a path, a login shell, or conda.
    bypass: str | None = None
    # Whether a part of the command cannot be read. Such a part is in a script file or a variable,
    # or differs between several ditask calls.
    dynamic: bool = False
    hidden: frozenset[str] = frozenset()
    # Every option that can be read, by its long name without dashes.
    options: Mapping[str, str] | None = None

    @staticmethod
    def of(container: Mapping[str, Any]) -> "Command":
        """Parse the `command` and `args` of a container in a pod template. Both are optional."""
        words = _as_strings(container.get("command"))
        if not words:
            # The image's entry point runs. Its command is not known, because the operator does not
            # read images.
            return Command(dynamic=True)
        words += _as_strings(container.get("args"))
        seen = _Seen()
        if seen.may_read(words):
            _read_argv(words, seen, depth=0)
        # The part that was not read could contain another call to ditask, so nothing is known.
        return Command(dynamic=True, hidden=frozenset("*")) if seen.too_long else _merge_calls(seen)

    def hides(self, option: str) -> bool:
        """Whether the command possibly sets this option to a value that cannot be read.

        `option` is the option's long name without dashes.
        """
        return option in self.hidden or "*" in self.hidden


def listen_port(command: Command) -> int | None:
    """Return the TCP port on which a command's first worker listens (over nng or torchrpc).

    The port is the value of `--ports`, or 50515 by default (k8s_parser.py `_get_ports`,
    cli_ditask.py). Returns None if no process listens (redis), or if an option cannot be read. Also
    returns None if the command chooses the address itself (ipc, another platform, --address,
    --platform-spec).
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
    """What has been found so far while parsing the command from left to right."""

    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, str], frozenset[str]]] = []
        # The last activation command or login shell. It changes PATH, so that later commands find
        # the image's own ditask before the launcher's.
        self.detour: str | None = None
        self.bypass: str | None = None
        self.opaque = False
        self.too_long = False
        self._left = READ_LENGTH

    def may_read(self, words: Iterable[str]) -> bool:
        """Count the characters of these words, and return whether the total so far is within
        READ_LENGTH.
        """
        self._left -= sum(map(len, words))
        self.too_long = self._left < 0
        return not self.too_long

    def call(self, words: Sequence[str], detour: str | None = None) -> None:
        self.calls.append(_read_options(words))
        self.bypass = self.bypass or detour or self.detour


def _as_strings(value: object) -> list[str]:
    given = value if isinstance(value, list | tuple) else ()
    return ["" if word is None else str(word) for word in given]


def _read_argv(words: Sequence[str], seen: _Seen, depth: int) -> None:
    """Parse one simple command, in exec form or as a shell would run it."""
    words = shellwords.unwrap_command(words)
    # The depth limits the recursion into nested shells.
    if not words or depth > 8:
        seen.opaque = seen.opaque or depth > 8
        return
    program, rest = words[0], words[1:]
    name = program_name(program) or program
    if name == DITASK:
        seen.call(rest, f"the path `{program}`" if "/" in program else None)
    elif name in shellwords.SHELLS:
        _read_shell(program, rest, seen, depth)
    elif name.startswith("python"):
        _read_python(name, rest, seen)
    elif name in ("source", "."):
        if rest and program_name(rest[0]) == "activate":
            seen.detour = f"`{name} {rest[0]}`"
        else:
            seen.opaque = True
    elif name in _ACTIVATORS and rest[:1] == ["activate"]:
        seen.detour = f"`{name} activate`"
    elif name in _ACTIVATORS and rest[:1] == ["run"]:
        _read_conda_run(name, rest[1:], seen, depth)
    elif "/" in program or "$" in program or name == "eval":
        # A script file or another program, which may run ditask itself.
        seen.opaque = True


def _read_shell(program: str, rest: Sequence[str], seen: _Seen, depth: int) -> None:
    call = shellwords.parse_call(rest)
    if call.login:
        seen.detour = f"the login shell `{program_name(program)} -l`"
    # The outermost script is not counted again: it is one of the words that `of` has counted.
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
    """Parse `python -m ding.entry.cli_ditask ARGS`, including calls through another launcher, such
    as `python -m torch.distributed.launch -m ding.entry.cli_ditask ARGS`.
    """
    after = rest.index("-m") if "-m" in rest else len(rest)
    modules = [at for at, word in enumerate(rest) if at > after and word.startswith("ding.entry")]
    if modules:
        seen.call(rest[modules[0] + 1 :], f"`{name} -m {rest[modules[0]]}`")
        return
    paths = [at for at, word in enumerate(rest) if program_name(word) in (DITASK, "cli_ditask.py")]
    if paths:
        seen.call(rest[paths[0] + 1 :], f"`{name} {rest[paths[0]]}`")


def _read_conda_run(name: str, rest: Sequence[str], seen: _Seen, depth: int) -> None:
    starts = [at for at, word in enumerate(rest) if shellwords.is_known_program(word)]
    if starts:
        seen.detour = f"`{name} run`"
        _read_argv(rest[starts[0] :], seen, depth + 1)


def _read_options(words: Sequence[str]) -> tuple[dict[str, str], frozenset[str]]:
    """Return the options of one ditask call, and the names of the options that cannot be read.

    The rules are click's: the last of several values is used, and `--` ends the options.
    """
    given: dict[str, str] = {}
    hidden: set[str] = set()
    for name, value in _option_pairs(words):
        given.pop(name, None)
        hidden.discard(name)
        if name == "*" or value is None or shellwords.is_hidden(value):
            hidden.add(name)
        else:
            given[name] = value
    return given, frozenset(hidden)


def _option_pairs(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
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


def _merge_calls(seen: _Seen) -> Command:
    if not seen.calls:
        return Command(dynamic=seen.opaque)
    first = seen.calls[0][0]
    hidden = {name for _, names_ in seen.calls for name in names_}
    # A script can have several calls, for example in an `if` that tests the rank. An option that
    # differs between the calls is unknown, because the operator cannot know which call runs.
    counts = Counter(pair for given, _ in seen.calls for pair in given.items())
    hidden |= {name for (name, _), count in counts.items() if count < len(seen.calls)}
    options = {name: value for name, value in first.items() if name not in hidden}
    return Command(
        runs_ditask=True,
        platform=options.get("platform"),
        parallel_workers=_parse_integer(options.get("parallel-workers")),
        topology=options.get("topology"),
        mq_type=options.get("mq-type"),
        ports=_parse_ports(options.get("ports")),
        bypass=seen.bypass,
        dynamic=seen.opaque or bool(hidden),
        hidden=frozenset(hidden),
        options=options,
    )


def _parse_integer(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _parse_ports(text: str | None) -> tuple[int, ...]:
    ports = [_parse_integer(part) for part in (text or "").split(",")]
    known = tuple(port for port in ports if port is not None and 0 < port < 65536)
    return known if len(known) == len(ports) else ()
