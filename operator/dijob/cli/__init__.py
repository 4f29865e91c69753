"""`kubectl dijob`: see a job, understand it, mend it, with the user's own rights."""
