"""Defines what a package can add to `doctor` through an entry point of the group `dijob.doctor`.

An extension has options, and collects its own findings if one of its options is given. It is
imported even if only the help text of `doctor` is printed, so its module must import as little as
possible.
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
    """The name of the check in the checklist."""
    findings: Sequence[Finding]
    data: Mapping[str, Any] = field(default_factory=dict)
    """Additional keys in the output with -o json and -o yaml."""
    note: str = ""
    """A line for stderr, so that the output of -o json remains valid JSON."""


Collect = Callable[["AsyncClient", "Job", "Sequence[RankPod]"], Awaitable[ExtensionFindings]]


@dataclass(frozen=True)
class DoctorExtension:
    """The options of an extension and what they do."""

    options: Sequence[click.Option]
    help: str
    """A paragraph for the help text of `doctor`."""
    example: str
    """An example command line for the help text of `doctor`."""
    hint: str
    """A hint: one of the extension's options, and what this option shows about a hanging program.
    `doctor` prints the hint if the running ranks print nothing, or if `doctor` finds no problem in
    a running job."""
    prepare: Callable[[Mapping[str, Any]], Collect | None]
    """Return the function that collects the findings; None if no option requests them."""
