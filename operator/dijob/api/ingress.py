"""Rules for connections to a job's pods, as in a NetworkPolicy (k8s.io/api/networking/v1).

A mistake in these rules could open the job's ports, and DI-engine executes what it receives. So an
unknown key is rejected at every depth. A misspelled selector would be an empty selector, which
selects all pods. A rule without `from` would allow all peers. The apiserver treats a null value as
absent, so null values are rejected as well.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictInt, field_validator
from pydantic_core import PydanticCustomError

from dijob.api.parts import Labels, Strict, Written


def _number_or_name(value: Any) -> Any:
    """Return a port's number or name unchanged.

    For a union, pydantic would report one error for each type, at paths that do not exist in the
    user's file. This validator reports one error for both types.
    """
    named = isinstance(value, str) and 1 <= len(value) <= 15
    if named or (type(value) is int and 1 <= value <= 65535):
        return value
    raise PydanticCustomError(
        "port", "it must be a number from 1 to 65535, or the name of a port (at most 15 characters)"
    )


# `from` and `except` are Python keywords, so the fields below have other names and use aliases.
Port = Annotated[StrictInt, Field(ge=1, le=65535)]
PortOrName = Annotated[int | str, BeforeValidator(_number_or_name)]
Cidr = Annotated[str, Field(min_length=1, max_length=43)]


class Part(Strict):
    """A part of a rule. A key with a null value is rejected."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_given(cls, value: Any) -> Any:
        if value is None:
            raise PydanticCustomError("no_value", "has no value: set one, or remove the key")
        return value


class Expression(Part):
    """A requirement of a label selector."""

    key: Annotated[str, Field(max_length=317)]
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Annotated[tuple[str, ...], Field(max_length=64)] = ()


class Selector(Part):
    """A label selector. An empty selector selects everything."""

    match_labels: Labels | None = None
    match_expressions: Annotated[tuple[Expression, ...], Field(max_length=16)] = ()


class IpBlock(Part):
    """A range of addresses outside the cluster."""

    cidr: Cidr
    except_: Annotated[tuple[Cidr, ...], Field(max_length=64, alias="except")] = ()


class Peer(Part):
    """A peer that may connect: selected pods, all pods of selected namespaces, or addresses."""

    pod_selector: Selector | None = None
    namespace_selector: Selector | None = None
    ip_block: IpBlock | None = None


class PolicyPort(Part):
    """A port of the pods, by its number or by its name in the pod's spec."""

    port: PortOrName | None = None
    end_port: Port | None = None
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"


class IngressRule(Part):
    """Peers that may connect to these ports, or to all ports if no ports are listed."""

    from_: Annotated[tuple[Peer, ...], Field(min_length=1, max_length=64, alias="from")]
    ports: Annotated[tuple[PolicyPort, ...], Field(max_length=64)] = ()


class NetworkPolicy(Written):
    """Peers that may connect to the job's pods, in addition to the job's pods themselves. Applies
    only if the operator creates a NetworkPolicy for each job (the chart value
    networkPolicy.jobs)."""

    ingress: Annotated[tuple[IngressRule, ...], Field(max_length=32)] = ()
    """Rules as in a NetworkPolicy's spec.ingress, for example for TensorBoard or Prometheus. Each
    rule must have `from`."""
