"""What DI-engine is told in each Python process of a DIJob's pod: a module for each of its modules
that is changed, with a function `patch`. `hook/sitecustomize.py` calls it when a program imports
DI-engine's module; nothing here is imported before. Written for ding 0.4 and 0.5.
"""
