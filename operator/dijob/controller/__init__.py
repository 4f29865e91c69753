"""The controller around the core: watches, queue, leader election, API requests.

Only this package talks to the apiserver, waits, or reads a clock. All decisions are made in
`dijob.core`, which is pure and therefore testable without any of these (docs/decisions/001).
"""
