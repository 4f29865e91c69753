"""The command line of the history: `python -m dijob.history`."""

import asyncio
import logging
import socket
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from dijob import __version__
from dijob.controller.cache.informer import Informer
from dijob.controller.cache.jobs import WentBackError
from dijob.history import metrics
from dijob.history.app import HistoryApi, error_response
from dijob.history.bucket import BucketStore, open_bucket
from dijob.history.recorder import JobRecorder
from dijob.history.sqlite import SqliteStore
from dijob.history.store import RecordStore, Retention, StoreError
from dijob.history.tails import TailLimits, TailReader
from dijob.history.views import JobView, PodView, view_job, view_pod
from dijob.kube.api import Api, Stream
from dijob.kube.connection import CredentialsError
from dijob.kube.kinds import JOBS, PODS, SELECTOR
from dijob.process.bounded_http import Bounds, serve_app
from dijob.process.metrics_page import add_metrics
from dijob.process.service import build_health_app, set_up_log, watch_signals
from dijob.server.callers import Callers

log = logging.getLogger("dijob.history")

# All requests that come through the API server have the API server's address.
BOUNDS: Final = Bounds(in_total=512, of_one_address=256, idle_seconds=60.0)

# The API server sends a bookmark at least once a minute, and a watch is abandoned after 70 s. A
# process whose watches are silent for longer than this is restarted.
SILENT_SECONDS: Final = 300.0

# How long to wait for the first lists of jobs and pods. After this time, jobs are recorded even if
# the lists are incomplete.
LIST_SECONDS: Final = 60


@dataclass(frozen=True)
class HistorySettings:
    """The command-line options. The records are in a database (`sqlite`) or in a bucket. Without
    namespaces, the jobs of the whole cluster are recorded.
    """

    sqlite: Path | None = None
    bucket: str = ""
    bucket_ca: Path | None = None
    bucket_index: Path | None = None
    namespaces: tuple[str, ...] = ()
    port: int = 8080
    health_port: int = 8081
    retention: Retention = field(default_factory=Retention)
    tails: TailLimits = field(default_factory=TailLimits)


# The options that are fields of HistorySettings.
_AS_GIVEN: Final = (
    "sqlite",
    "bucket",
    "bucket_ca",
    "bucket_index",
    "namespaces",
    "port",
    "health_port",
)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DIJOB_HISTORY"}
)
@click.option(
    "--sqlite",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of the SQLite database with the records, on a separate volume.",
)
@click.option(
    "--bucket",
    default="",
    metavar="s3://BUCKET/FOLDER",
    help="Folder in an S3-compatible bucket for the records, instead of a database. The AWS_*"
    " variables contain the endpoint, the region and the credentials.",
)
@click.option(
    "--bucket-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="PEM file with the certificate authorities of a private bucket server.",
)
@click.option(
    "--bucket-index",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the index of the bucket. Only one process may use it, and its content need not"
    " survive a restart. Default: a temporary folder.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    help="Record the jobs of this namespace only (repeatable). Default: all namespaces.",
)
@click.option("--port", default=8080, show_default=True, help="Port of the API.")
@click.option(
    "--health-port",
    default=8081,
    show_default=True,
    help="Port of /livez, /readyz and /metrics (0: they are not served). Requests to this port need"
    " no token.",
)
@click.option(
    "--keep-days",
    type=click.IntRange(1, 3650),
    default=90,
    show_default=True,
    help="Delete the record of a deleted job this many days after the job's end.",
)
@click.option(
    "--max-jobs",
    type=click.IntRange(1, 1_000_000),
    default=10_000,
    show_default=True,
    help="Maximum number of records. If there are more, the oldest records of deleted jobs are"
    " removed.",
)
@click.option(
    "--max-megabytes",
    type=click.IntRange(1, 1_000_000),
    default=512,
    show_default=True,
    help="If the database is larger than this, the oldest records of deleted jobs are removed. With"
    " a bucket, the limit applies to the bucket's index.",
)
@click.option(
    "--log-kilobytes",
    type=click.IntRange(0, 1024),
    default=16,
    show_default=True,
    help="How many KiB from the end of each log are kept. 0: none.",
)
@click.option(
    "--kubeconfig", type=click.Path(exists=True), help="Kubeconfig file for use outside a cluster."
)
@click.version_option(__version__)
def main(kubeconfig: str | None, **options: Any) -> None:
    """Record jobs, and serve the records after the jobs have been deleted."""
    if bool(options["sqlite"]) == bool(options["bucket"]):
        raise click.UsageError("Set either --sqlite or --bucket.")
    set_up_log()
    settings = HistorySettings(
        **{name: options[name] for name in _AS_GIVEN},
        retention=Retention(
            timedelta(days=options["keep_days"]),
            options["max_jobs"],
            options["max_megabytes"] * 2**20,
        ),
        tails=TailLimits(most_bytes=options["log_kilobytes"] * 1024),
    )
    try:
        asyncio.run(run_history(settings, kubeconfig))
    except (CredentialsError, StoreError) as error:
        log.critical("%s", error)
        raise SystemExit(1) from error


async def run_history(settings: HistorySettings, kubeconfig: str | None) -> None:
    """Record and serve until SIGTERM or SIGINT."""
    stop = watch_signals()
    with open_store(settings) as store:
        api = await Api.connect(kubeconfig, f"history {socket.gethostname()}")
        try:
            await _serve(settings, api, store, stop)
        finally:
            await api.close()


async def _serve(
    settings: HistorySettings, api: Api, store: RecordStore, stop: asyncio.Event
) -> None:
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        watches = Watches.of(api, settings, store)
        work = group.create_task(_until_it_went_back(watches, stop))
        app = HistoryApi(Callers(api), store).app()
        if settings.port:
            await stack.enter_async_context(
                serve_app(app, settings.port, BOUNDS, error=error_response)
            )
        if settings.health_port:
            health = add_metrics(build_health_app(watches.find_problem), metrics.REGISTRY)
            await stack.enter_async_context(serve_app(health, settings.health_port))
        log.info("serving on port %d", settings.port)
        await stop.wait()
        work.cancel()


@contextmanager
def open_store(settings: HistorySettings) -> Iterator[RecordStore]:
    """Yield the store of the records, and close it afterwards. Raises StoreError."""
    most_bytes = settings.retention.most_bytes
    with ExitStack() as stack:
        store: RecordStore
        if settings.sqlite:
            store = SqliteStore(settings.sqlite, most_bytes)
        else:
            bucket = open_bucket(settings.bucket, settings.bucket_ca)
            folder = settings.bucket_index or Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="dijob-history-"))
            )
            store = BucketStore(bucket, settings.bucket, folder, most_bytes)
        stack.callback(store.close)
        yield store


async def _until_it_went_back(watches: "Watches", stop: asyncio.Event) -> None:
    """Record until canceled, but stop the process if etcd was restored from a backup. The kubelet
    restarts the container, and the new process reads everything again.
    """
    try:
        await watches.run()
    except* WentBackError as group:
        log.error("%s; exiting to restart with the restored state", group.exceptions[0])
        stop.set()


@dataclass
class Watches:
    """The watches of jobs and pods, and the recorder and the log reader that get their events."""

    api: Api
    jobs: Informer[JobView]
    pods: Informer[PodView]
    recorder: JobRecorder
    tails: TailReader
    namespaces: tuple[str, ...]
    has_begun: bool = False
    """Whether the stored records have been read. The watches start only after that."""

    @staticmethod
    def of(api: Api, settings: HistorySettings, store: RecordStore) -> "Watches":
        """Create the watches, the recorder and the log reader, and connect them."""
        served = settings.namespaces or ("",)
        jobs = Informer(
            JOBS.plural, tuple(Stream(JOBS.path(name), "") for name in served), view_job
        )
        pods = Informer(
            PODS.plural, tuple(Stream(PODS.path(name), SELECTOR) for name in served), view_pod
        )
        tails = TailReader(api, api.clock, settings.tails)
        recorder = JobRecorder(api, store, tails, settings.retention, api.clock)
        recorder.jobs = lambda: {view.uid: view for view in jobs}

        def saw_job(owner: str) -> None:
            for view in jobs.of(owner):
                recorder.saw(view)

        jobs.on_change, jobs.on_drop = saw_job, recorder.saw_end
        pods.on_change, pods.on_drop = lambda owner: tails.saw(pods.of(owner)), tails.forget
        return Watches(api, jobs, pods, recorder, tails=tails, namespaces=settings.namespaces)

    async def run(self) -> None:
        """Record until canceled."""
        await self.recorder.begin(lambda name: not self.namespaces or name in self.namespaces)
        self.has_begun = True
        async with asyncio.TaskGroup() as group:
            group.create_task(self.jobs.run(self.api))
            group.create_task(self.pods.run(self.api))
            group.create_task(self.tails.run())
            if await self._are_listed():
                self.recorder.close_missing(view.uid for view in self.jobs)
            group.create_task(self.recorder.run())

    async def _are_listed(self) -> bool:
        """Wait until all jobs and pods are listed. Return False if this takes more than
        LIST_SECONDS.
        """
        try:
            async with asyncio.timeout(LIST_SECONDS):
                await self.jobs.synced()
                # A record is complete only if the job's logs have been read, so its pods must be
                # known.
                await self.pods.synced()
        except TimeoutError:
            # If one namespace cannot be read, the jobs of all others must still be recorded. Only
            # deletions that happened while no history was running go unnoticed until the next
            # start.
            log.warning("not all jobs and pods could be listed within %d s", LIST_SECONDS)
            return False
        return True

    def find_problem(self) -> str:
        """Return why a restart would help; "" if the last event of the watches is recent."""
        if not self.has_begun:
            return ""
        # While the API server is unreachable, a new process would receive no events either.
        silent = min(max(self.jobs.silence, self.pods.silence), self.api.availability.presence)
        return f"no event from the API server for {silent:.0f} s" if silent > SILENT_SECONDS else ""


if __name__ == "__main__":
    main()
