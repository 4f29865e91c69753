"""The thin shell: the only part that talks to the apiserver, waits, or reads a clock."""
