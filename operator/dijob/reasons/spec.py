"""Reasons of the conditions about the spec: errors, and warnings about possible mistakes."""

from dijob.reasons.catalogue import Reason, good, problem


class Invalid(Reason):
    """True: the operator cannot do what the spec asks for. The operator leaves running pods alone.
    Present only if the condition has ever been True.
    """

    SpecInvalid = problem(
        "the message names each invalid field and says what is wrong with it; lost ranks are not"
        " recreated",
        "correct the spec",
        status=True,
    )
    TemplateChanged = problem(
        "the running pods were created from a different spec; lost ranks are not recreated",
        "restore the old spec, or suspend the job (`spec.suspend: true`) until its pods are gone;"
        " if the job has ended: `kubectl dijob restart NAME -f FILE`",
        status=True,
    )
    OperatorError = problem(
        "an unexpected error occurred while the operator processed this job or one of its"
        " objects; the message contains the error. The operator leaves the job as it is until the"
        " job or one of its objects changes",
        "report the error with the traceback from the operator's log; if something was changed by"
        " hand, revert the change",
        status=True,
    )
    Valid = good("the spec is valid again", status=False)


class LauncherBypassed(Reason):
    """True: a program might not know its peers. Present only if the condition has ever been
    True.
    """

    LauncherBypassed = problem(
        "a program runs without the launcher, or a program has succeeded although the launcher"
        " could not pass the peers to it. Each pod may train alone. A program runs without the"
        " launcher if the template has no `command`, or if `launcher` is Off and ditask has no"
        " `--platform`",
        "do what the message says; see [the launcher](runtimes.md#the-launcher)",
        status=True,
    )
    Resolved = good("all programs know their peers", status=False)


class SpecWarning(Reason):
    """True: something in the spec cannot be read, or cannot be done as written. Present only if the
    condition has ever been True.
    """

    SpecWarning = problem(
        "the message names the part of the spec that cannot be read or applied as written, and says"
        " what the operator does instead",
        "do what the message says",
        status=True,
    )
    # A program's own arguments take precedence over the job's, so the ranks might not be connected
    # as the status says.
    ProgramSaysOtherwise = problem(
        "a program has succeeded, but it gave DI-engine a number of workers, a topology or a queue"
        " type that conflicts with the job's spec. The program's values were used",
        "use the same values in the program and in the job, as the message says",
        status=True,
    )
    Resolved = good("the cause is gone", status=False)
