"""Reasons of the conditions about what the spec asks for."""

from dijob.reasons.catalogue import Reason, good, problem


class Invalid(Reason):
    """True: the spec asks for what cannot be done; what runs is left alone. Present only once it
    has been True.
    """

    SpecInvalid = problem(
        "the message names each field and what is wrong with it; lost ranks are not re-created",
        "correct it",
        status=True,
    )
    TemplateChanged = problem(
        "the spec differs from what the running pods were made from: lost ones are not re-created",
        "write the old one back, or suspend the job (`spec.suspend: true`) until its pods are gone;"
        " one that has ended: `kubectl dijob restart NAME -f FILE`",
        status=True,
    )
    OperatorError = problem(
        "the operator itself fails with this job, or with what belongs to it, as the message says;"
        " it leaves both alone until they change",
        "report it with the traceback in the operator's log; if something was changed by hand,"
        " change it back",
        status=True,
    )
    Valid = good("corrected", status=False)


class LauncherBypassed(Reason):
    """True: a program knows no peers. Present only once it has been True."""

    LauncherBypassed = problem(
        "a program runs without the launcher (the template has no `command`, or `launcher` is Off"
        " and ditask has no `--platform`), or a program that has succeeded could not be told of its"
        " peers: each pod may train alone",
        "do what the message says, see [the launcher](runtimes.md#the-launcher)",
        status=True,
    )
    Resolved = good("no longer so", status=False)


class SpecWarning(Reason):
    """True: something in the spec cannot be read or done as it is written. Present only once it has
    been True.
    """

    SpecWarning = problem(
        "the message says what, and what is done instead", "do what the message says", status=True
    )
    ProgramSaysOtherwise = problem(
        "a program that has succeeded gave DI-engine other workers, another topology or another"
        " queue than the job has; the program's own held",
        "say the same in both, as the message names it",
        status=True,
    )
    Resolved = good("no longer so", status=False)
