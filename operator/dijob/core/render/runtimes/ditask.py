"""The DI_ variables: what DI-engine's ditask, and every program that speaks its contract, reads."""

from dijob.core.members import Gang, Member
from dijob.names import Queue


def env(member: Member, gang: Gang) -> dict[str, str]:
    """Variables that are known before any pod has an address.

    DI_RANK (with DI_NODES, which the kubelet fills in from the pod's annotations) is all that
    DI-engine's own parser reads (ding/entry/cli_parsers/k8s_parser.py); it takes the node id as
    DI_RANK * workers + i. With another queue than nng it leaves the node ids out, so the launcher
    gives them (images/launcher/ditask.go).
    """
    return {
        **of_job(member, gang),
        "DI_NODE_IDS": ",".join(map(str, member.node_ids(gang.workers))),
        "DI_PARALLEL_WORKERS": str(gang.workers),
        "DI_TOPOLOGY": gang.topology.value,
        "DI_LABELS": ",".join(member.labels),
        **_queue(gang),
    }


def of_job(member: Member, gang: Gang) -> dict[str, str]:
    """Which job this is, and which rank of it: true in each container of the pod at any time."""
    return {
        "DI_JOB_ID": gang.uid,
        "DI_JOB_NAME": gang.job,
        "DI_JOB_NAMESPACE": gang.namespace,
        "DI_RANK": str(member.rank),
    }


def _queue(gang: Gang) -> dict[str, str]:
    """The variables of the message queue; {} for nng."""
    env = {} if gang.queue == Queue.NNG else {"DI_MQ_TYPE": gang.queue}
    if gang.redis is not None:
        env |= {"DI_REDIS_HOST": gang.redis[0], "DI_REDIS_PORT": str(gang.redis[1])}
    if gang.queue == Queue.REDIS:
        # DI-engine's thread that listens ends when it logs a lost connection: its words do not fit
        # their format, which rich's handler raises (ditk/logging/terminal.py). With the plain one
        # it connects again.
        env |= {"DISABLE_RICH": "1"}
    if gang.queue.startswith(Queue.TORCHRPC):
        # RDMA and fork do not go together without (rdmamojo.com, ibv_fork_init); nothing else reads
        # them.
        env |= {"IBV_FORK_SAFE": "1", "RDMAV_FORK_SAFE": "1"}
    return env
