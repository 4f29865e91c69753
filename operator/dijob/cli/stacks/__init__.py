"""Where the ranks' Python processes stand: py-spy beside each, in an ephemeral container."""
