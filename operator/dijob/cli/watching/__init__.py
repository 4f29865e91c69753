"""`kubectl dijob watch`: a live view of a job.

feed.py merges watches into snapshots, view.py turns a snapshot into text, live.py prints it. The
page of `kubectl dijob ui` uses the first two as well.
"""
