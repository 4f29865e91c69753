"""The containers of a simulated pod, and their processes."""

from dataclasses import dataclass

from simulator.objects import Body


@dataclass(frozen=True)
class Process:
    """The environment of a main container's process. The simulator resolves it when the process
    starts, as the kubelet does.
    """

    rank: int
    uid: str
    env: dict[str, str]

    @property
    def list_number(self) -> int:
        return int(self.env["DI_LIST_NUMBER"])

    @property
    def nodes(self) -> list[str]:
        return self.env["DI_NODES"].split(",")


@dataclass
class Box:
    """One container: waiting, running or ended, and how it ended the last time."""

    name: str
    state: str = "waiting"
    restarts: int = 0
    last: int | None = None
    message: str = ""
    since: str = ""  # when it started
    until: str = ""  # when it ended the last time
    error: str = ""  # the reason of a container that cannot be created or started
    collected: bool = False  # the kubelet has deleted the record of its last termination

    @property
    def failed_before(self) -> bool:
        """Whether it has ended for a reason other than a re-rendezvous."""
        return self.last is not None and not self.message.startswith("dijob: renewal")

    def start(self, now: str) -> None:
        self.restarts += 1 if self.last is not None else 0
        self.state, self.since = "running", now

    def end(self, code: int, now: str, message: str = "") -> None:
        self.state, self.last, self.until, self.message, self.collected = (
            "dead",
            code,
            now,
            message,
            False,
        )

    def status(self) -> Body:
        reason = (self.error or "Error") if self.last else "Completed"
        ended = {
            "terminated": {
                "exitCode": self.last,
                "reason": reason,
                "message": self.message,
                "finishedAt": self.until,
            }
        }
        if self.state == "dead":
            return {"name": self.name, "restartCount": self.restarts, "state": ended}
        known: Body = {} if self.last is None or self.collected else {"lastState": ended}
        now: Body = {"waiting": {"reason": "PodInitializing"}}
        if self.state == "running":
            now = {"running": {"startedAt": self.since}}
        elif self.error:
            now = {"waiting": {"reason": self.error, "message": self.message}}
        return {"name": self.name, "restartCount": self.restarts, "state": now, **known}
