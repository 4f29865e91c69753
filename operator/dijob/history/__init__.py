"""The history of jobs: a process of its own that records each job, and serves the records after the
jobs have been deleted (docs/decisions/069).

It watches the jobs and their pods, so the operator neither waits for it nor sends anything to it.
"""
