"""`kubectl dijob watch`: a live view of a job.

feed.py merges watches into snapshots, view.py turns a snapshot into text, and live.py prints the
text. The page of `kubectl dijob ui` uses feed.py and view.py as well.
"""
