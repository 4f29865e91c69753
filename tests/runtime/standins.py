"""Test doubles with the interfaces of DI-engine (ding 0.5.3) and redis-py: a Parallel, queues and
subscriptions.
"""

from types import ModuleType, SimpleNamespace
from typing import Any

from dijob_runtime.hook import parallel


def di_engine() -> Any:
    """Return a module with a Parallel whose runner returns a function that has its arguments."""

    class Parallel:
        @classmethod
        def runner(
            cls,
            n_parallel_workers: int,
            mq_type: str = "nng",
            attach_to: Any = None,
            protocol: str = "ipc",
            ports: int = 50515,
            **more: Any,
        ) -> Any:
            def run(main: Any) -> None:
                main()

            given = {"mq_type": mq_type, "attach_to": attach_to, "protocol": protocol}
            vars(run)["told"] = {"n_parallel_workers": n_parallel_workers, **given}
            return run

        def _handle_message(self, topic: str, msg: bytes) -> None: ...

        def on(self, event: str, fn: Any) -> None: ...

        once = on

        def _supervised_runner(self, main: Any) -> None: ...

        @classmethod
        def _subprocess_runner(cls, runner_kwargs: Any, main_params: Any) -> None: ...

    module: Any = ModuleType("ding.framework.parallel")
    module.Parallel = Parallel
    parallel.patch(module)
    return module


def queue(*hosts: str, dials: int = 0) -> Any:
    """Return DI-engine's NNGMQ with connections to these hosts."""
    pipes = [SimpleNamespace(remote_address=f"{host}:1234") for host in hosts]
    links = [f"tcp://x:{port}" for port in range(dials)]
    return SimpleNamespace(_running=True, _sock=SimpleNamespace(pipes=pipes), attach_to=links)


class PubSub:
    """redis-py's PubSub with these messages. It records subscriptions."""

    def __init__(self, *messages: tuple[str, bytes, bytes]) -> None:
        kinds = ("type", "channel", "data")
        self.messages = [dict(zip(kinds, message, strict=True)) for message in messages]
        self.left: list[str] = []

    def get_message(self, **_: Any) -> Any:
        return self.messages.pop(0) if self.messages else None

    def punsubscribe(self, pattern: str) -> None:
        self.left.append(pattern)
