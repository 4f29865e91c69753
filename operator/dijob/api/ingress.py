"""Who else may connect to a job's pods: rules as in a NetworkPolicy (k8s.io/api/networking/v1).

An unknown key is refused at every depth: a misspelt selector would be an empty one, which selects
all pods, and a rule without `from` lets in everybody.
"""

from typing import Annotated, Literal

from pydantic import Field, StrictInt

from dijob.api.parts import Labels, Written

Port = Annotated[StrictInt, Field(ge=1, le=65535)]
PortName = Annotated[str, Field(min_length=1, max_length=15)]
Cidr = Annotated[str, Field(min_length=1, max_length=43)]


class Expression(Written):
    """A requirement of a label selector."""

    key: Annotated[str, Field(max_length=317)]
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Annotated[tuple[str, ...], Field(max_length=64)] = ()


class Selector(Written):
    """A label selector; an empty one selects all."""

    match_labels: Labels | None = None
    match_expressions: Annotated[tuple[Expression, ...], Field(max_length=16)] = ()


class IpBlock(Written):
    """Addresses outside the cluster."""

    cidr: Cidr
    except_: Annotated[tuple[Cidr, ...], Field(max_length=64, alias="except")] = ()


class Peer(Written):
    """Pods, those of whole namespaces, or addresses: who may connect."""

    pod_selector: Selector | None = None
    namespace_selector: Selector | None = None
    ip_block: IpBlock | None = None


class PolicyPort(Written):
    """A port of the pods, by its number or its name in them."""

    port: Port | PortName | None = None
    end_port: Port | None = None
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"


class IngressRule(Written):
    """Peers that may connect, to these ports or to all."""

    from_: Annotated[tuple[Peer, ...], Field(min_length=1, max_length=64, alias="from")]
    ports: Annotated[tuple[PolicyPort, ...], Field(max_length=64)] = ()


class NetworkPolicy(Written):
    """Who may connect to the job's pods besides these themselves, where the operator makes a
    NetworkPolicy for each job (the chart's value networkPolicy.jobs)."""

    ingress: Annotated[tuple[IngressRule, ...], Field(max_length=32)] = ()
    """Rules as in a NetworkPolicy's spec.ingress, for example for TensorBoard or Prometheus. Each
    names its peers in `from`."""
