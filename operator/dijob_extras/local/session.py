"""One local run, from the file to the job's outcome.

It prepares what a cluster would provide: addresses, volumes, resolvable names and a Redis server.
Then it runs the ranks. At the end it removes everything that it has prepared.
"""

import asyncio
import shutil
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import DEVNULL, Popen
from tempfile import TemporaryDirectory

from dijob.api.model import DIJob
from dijob.cli.errors import CliError, Exit
from dijob.cli.files import JobFile, job_of
from dijob.core.members import gang_of
from dijob.core.render.redis import COMMAND as REDIS
from dijob.names import REDIS_PORT, Addressing

from dijob_extras.local import names, places, plan
from dijob_extras.local.group import kill_marked
from dijob_extras.local.ledger import LocalFailureAccount
from dijob_extras.local.output import open_printer
from dijob_extras.local.run import GRACE_SECONDS, Limits, LocalRunEnd, Run

REDIS_SECONDS = 10


@dataclass(frozen=True)
class Choices:
    """The options of the command: folder for logs ("" for none), timeout in seconds, volumes."""

    logs: str = ""
    timeout: float | None = None
    folders: Mapping[str, Path] = field(default_factory=dict)


def run_job_locally(file: JobFile, choices: Choices) -> LocalRunEnd:
    """Run the file's job to completion. Raises CliError (USAGE) if it cannot run on this
    machine.
    """
    # Programs expect DI_JOB_ID, which is the uid that the apiserver would assign.
    job = job_of(file, uid=str(uuid.uuid4()))
    if found := plan.find_obstacles(job):
        raise CliError(f"{file.name} cannot run locally: {'; '.join(found)}", Exit.USAGE)
    mark = uuid.uuid4().hex
    with (
        TemporaryDirectory(prefix="dijob-local-") as folder,
        places.reserve_addresses(gang_of(job).size) as addresses,
    ):
        request = plan.Request(
            job, file, addresses, Path(folder), folders=choices.folders, mark=mark
        )
        try:
            with _run_redis(job, addresses[0], request) as redis:
                planned = plan.plan_starts(replace(request, redis=redis))
                if absent := _missing_program(planned):
                    raise CliError(absent, Exit.USAGE)
                starts = _add_resolver_prefix(planned, request)
                with open_printer(starts, choices.logs) as show:
                    for text in plan.describe_omissions(job):
                        show(None, text)
                    return asyncio.run(
                        Run(
                            starts, LocalFailureAccount(job), _time_limits(job, choices), show
                        ).run()
                    )
        finally:
            # Processes that have left their process group may have survived the exit of their rank.
            kill_marked(mark)


def _missing_program(starts: tuple[plan.Start, ...]) -> str:
    """Return a message about a program that is missing on this machine, or "".

    Without this check, each rank would be restarted until backoffLimit is exceeded, and then the
    job would fail anyway.
    """
    for start in starts:
        program = start.words[0]
        place = str(start.folder / program) if "/" in program else program
        if shutil.which(place, path=start.env.get("PATH")) is None:
            return (
                f"rank {start.rank} runs {program}, which is not in PATH: install it (ditask is"
                " part of `pip install DI-engine`), or activate the environment that contains it"
            )
    return ""


def _add_resolver_prefix(
    starts: tuple[plan.Start, ...], request: plan.Request
) -> tuple[plan.Start, ...]:
    """Return the programs. If the peer list contains names, each program gets a prefix that makes
    the names resolvable.
    """
    if request.job.addressing is not Addressing.HOSTNAME:
        return starts
    words = names.resolver_prefix(gang_of(request.job), request.addresses, request.work)
    return tuple(replace(start, words=(*words, *start.words)) for start in starts)


def _time_limits(job: DIJob, choices: Choices) -> Limits:
    graces = (pod_set.pod.get("terminationGracePeriodSeconds") for pod_set in job.pod_sets)
    # All ranks share one limit, so the longest grace period is used.
    given = [grace for grace in graces if isinstance(grace, int)]
    deadline = job.spec.active_deadline_seconds
    return Limits(choices.timeout, deadline, max(given) if given else GRACE_SECONDS)


@contextmanager
def _run_redis(job: DIJob, address: str, request: plan.Request) -> Iterator[str]:
    """Run the job's own Redis server, and provide its address; "" if the job has none."""
    if not job.server:
        yield ""
        return
    program = shutil.which("redis-server")
    if program is None:
        raise CliError(
            "the job needs a Redis server, and redis-server is not in PATH: install it, or set"
            " spec.messageQueue.host to a running server",
            Exit.USAGE,
        )
    port = job.spec.message_queue.port if job.spec.message_queue else REDIS_PORT
    words = [program, *REDIS[1:], "--port", str(port), "--bind", address]
    # The server runs in its own session, so that the terminal's Ctrl-C does not end it before the
    # ranks have exited.
    server = Popen(words, stdin=DEVNULL, stdout=DEVNULL, cwd=request.work, start_new_session=True)
    try:
        _wait_for(address, port, server)
        yield address
    finally:
        server.kill()
        server.wait()


def _wait_for(address: str, port: int, server: Popen[bytes]) -> None:
    end = time.monotonic() + REDIS_SECONDS
    while server.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection((address, port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise CliError(f"redis-server does not accept connections on {address}:{port}")
