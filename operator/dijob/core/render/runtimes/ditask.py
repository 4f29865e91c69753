"""The DI_ variables, which DI-engine's ditask and compatible programs read."""

from dijob.core.members import Gang, GangMember
from dijob.names import Queue


def di_variables(member: GangMember, gang: Gang) -> dict[str, str]:
    """Return the variables that are known before any pod has an address.

    DI-engine's own parser reads only DI_RANK and DI_NODES (ding/entry/cli_parsers/k8s_parser.py).
    It computes the node id of worker i as DI_RANK * workers + i. With a queue other than nng, the
    parser omits the node ids, so the launcher passes them (the launcher's ditask/ditask.go). The
    other variables are for other programs.
    """
    return {
        **of_job(member, gang),
        "DI_NODE_IDS": ",".join(map(str, member.node_ids(gang.workers))),
        "DI_PARALLEL_WORKERS": str(gang.workers),
        "DI_TOPOLOGY": gang.topology.value,
        **of_task(member),
        **_queue_variables(gang),
    }


def of_job(member: GangMember, gang: Gang) -> dict[str, str]:
    """Return the variables that identify the job and the rank. Their values never change, and are
    the same in every container of the pod.
    """
    return {
        "DI_JOB_ID": gang.uid,
        "DI_JOB_NAME": gang.job,
        "DI_JOB_NAMESPACE": gang.namespace,
        "DI_RANK": str(member.rank),
    }


def of_task(member: GangMember) -> dict[str, str]:
    """Return the variable with the type and the name of the rank's task. Its value is empty if the
    job has no tasks.
    """
    return {"DI_LABELS": ",".join(member.labels)}


def _queue_variables(gang: Gang) -> dict[str, str]:
    """Return the variables of the message queue; {} for nng."""
    env = {} if gang.queue == Queue.NNG else {"DI_MQ_TYPE": gang.queue}
    if gang.redis is not None:
        env |= {"DI_REDIS_HOST": gang.redis[0], "DI_REDIS_PORT": str(gang.redis[1])}
    if gang.queue == Queue.REDIS:
        # DI-engine's listener thread exits when it logs a lost connection. The message does not
        # match the log format, so rich's handler raises an exception (ditk/logging/terminal.py).
        # With the plain handler, the thread reconnects.
        env |= {"DISABLE_RICH": "1"}
    if gang.queue.startswith(Queue.TORCHRPC):
        # RDMA does not support fork without these (rdmamojo.com, ibv_fork_init). Nothing else reads
        # them.
        env |= {"IBV_FORK_SAFE": "1", "RDMAV_FORK_SAFE": "1"}
    return env
