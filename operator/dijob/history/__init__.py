"""The history of jobs: a separate process that records each job, and serves the records after the
jobs have been deleted (docs/decisions/069).

The history watches the jobs and their pods itself, so the operator neither waits for it nor sends
anything to it.
"""
