"""Patches for DI-engine in the Python processes of a DIJob's pod.

Each patched module of DI-engine has a module here with a function `patch`. `hook/sitecustomize.py`
imports and calls it when a program imports DI-engine's module. The patches support ding 0.4 and
0.5. They do nothing outside a DIJob.
"""
