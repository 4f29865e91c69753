"""Defines what a package can add to `doctor` through an entry point of the group `dijob.doctor`.

An extension has options, and collects its own findings if one of its options is given. It is
imported to print the help of `doctor`, so its module must import little.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from dijob.cli.doctor.verdict import Finding

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Job, RankPod


@dataclass(frozen=True)
class ExtensionFindings:
    """The findings of an extension."""

    check: str
    """The name in the checklist."""
    findings: Sequence[Finding]
    data: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the output with -o json and -o yaml."""
    note: str = ""
    """A line for stderr, so that the output of -o json remains valid JSON."""


Collect = Callable[["AsyncClient", "Job", "Sequence[RankPod]"], Awaitable[ExtensionFindings]]


@dataclass(frozen=True)
class DoctorExtension:
    """The options of an extension and what they do."""

    options: Sequence[click.Option]
    help: str
    """A paragraph of the help of `doctor`."""
    example: str
    """A command line for the help."""
    hint: str
    """The option, and what it shows of a program that may hang, for the hint about silent ranks."""
    prepare: Callable[[Mapping[str, Any]], Collect | None]
    """Return what collects the findings; None if the given options do not ask for them."""
