"""The DI_ variables: what DI-engine's ditask, and every program that speaks its contract, reads."""

from dijob.core.members import Gang, Member


def env(member: Member, gang: Gang) -> dict[str, str]:
    """Variables that are known before any pod has an address.

    DI_RANK (with DI_NODES, which the kubelet fills in from the pod's annotations) is all that DI-engine's own
    parser reads (ding/entry/cli_parsers/k8s_parser.py); it takes the node id as DI_RANK * workers + i.
    """
    return {
        "DI_JOB_ID": gang.uid,
        "DI_JOB_NAME": gang.job,
        "DI_JOB_NAMESPACE": gang.namespace,
        "DI_RANK": str(member.rank),
        "DI_NODE_IDS": ",".join(map(str, member.node_ids(gang.workers))),
        "DI_PARALLEL_WORKERS": str(gang.workers),
        "DI_TOPOLOGY": gang.topology.value,
        "DI_LABELS": "",
    }
