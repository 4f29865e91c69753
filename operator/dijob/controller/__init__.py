"""The controller around the core: it watches, queues and reconciles jobs, and writes the results.

All decisions are made in `dijob.core`, which is pure: it neither talks to the apiserver, nor waits,
nor reads a clock, and can therefore be tested without any of these (docs/decisions/001).
"""
