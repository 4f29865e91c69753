"""Takes stack dumps of the ranks' Python processes with py-spy in an ephemeral container.

The user's image does not need to contain anything for this, and py-spy can also read processes that
hang in C code. `exec` into the main container would not work, because that container has neither
py-spy nor SYS_PTRACE (docs/decisions/037).
"""
