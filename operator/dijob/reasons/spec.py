"""Reasons of the conditions about the spec: errors, and warnings about what may be a mistake."""

from dijob.reasons.catalogue import Reason, good, problem


class Invalid(Reason):
    """True: the operator cannot do what the spec asks for. It leaves running pods alone. Present
    only after it has been True once.
    """

    SpecInvalid = problem(
        "the message names each invalid field and what is wrong with it; lost ranks are not"
        " recreated",
        "correct the spec",
        status=True,
    )
    TemplateChanged = problem(
        "the spec differs from what the running pods were made from; lost ranks are not recreated",
        "restore the old spec, or suspend the job (`spec.suspend: true`) until its pods are gone;"
        " if the job has ended: `kubectl dijob restart NAME -f FILE`",
        status=True,
    )
    OperatorError = problem(
        "the operator failed unexpectedly on this job, or on an object that belongs to it, as the"
        " message says. It leaves both alone until they change",
        "report it with the traceback from the operator's log; if something was changed by hand,"
        " revert the change",
        status=True,
    )
    Valid = good("the spec is valid again", status=False)


class LauncherBypassed(Reason):
    """True: a program might not know its peers. Present only after it has been True once."""

    LauncherBypassed = problem(
        "a program runs without the launcher (the template has no `command`, or `launcher` is Off"
        " and ditask has no `--platform`), or the launcher could not pass the peers to a program"
        " that has succeeded. Each pod may train alone",
        "do what the message says, see [the launcher](runtimes.md#the-launcher)",
        status=True,
    )
    Resolved = good("all programs know their peers", status=False)


class SpecWarning(Reason):
    """True: something in the spec cannot be read, or cannot be done as written. Present only after
    it has been True once.
    """

    SpecWarning = problem(
        "the message says what it is, and what the operator does instead",
        "do what the message says",
        status=True,
    )
    # A program's own arguments win over the job's, so the ranks might not be connected as the
    # status says.
    ProgramSaysOtherwise = problem(
        "a program that has succeeded passed DI-engine a number of workers, a topology or a queue"
        " that differs from the job's; the program's values were used",
        "use the same values in the program and in the job, as the message says",
        status=True,
    )
    Resolved = good("the cause is gone", status=False)
