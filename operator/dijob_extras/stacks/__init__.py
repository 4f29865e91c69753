"""Takes stack dumps of the ranks' Python processes with py-spy in an ephemeral container.

This needs nothing in the user's image, and reads processes that hang in C code as well. exec into
the main container has neither py-spy nor SYS_PTRACE (docs/decisions/037).
"""
