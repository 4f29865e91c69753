"""The report on a job's time: how much of it was spent on progress, and where the rest went.

`parts` divides the time, `show` formats it as a table and as data, and `svg` draws it.
"""
