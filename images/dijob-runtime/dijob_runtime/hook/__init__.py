"""Patches for DI-engine in the Python processes of a DIJob's pod.

For each DI-engine module that is patched, this package has a module with a `patch` function.
When a program imports the DI-engine module, `hook/sitecustomize.py` calls `patch`. The patches
support ding 0.4 and 0.5. Outside a DIJob, the patches do nothing.
"""
