"""The report on a job's time: which part of the wall time it made progress, and where the rest went.

`parts` divides the time, `show` formats it as a table and as data, and `svg` draws it.
"""
