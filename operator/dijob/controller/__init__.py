"""The controller around the core: it watches, queues and reconciles jobs, and writes the results.

All decisions are made in `dijob.core`, which is pure: it does not talk to the apiserver, wait or
read a clock. So it can be tested without any of these (docs/decisions/001).
"""
