"""Converts a Slurm batch script into a DIJob: its #SBATCH lines, and the command that srun runs.

The script is read, never executed. If a line has no counterpart in a DIJob, a comment quotes the
line and gives advice. A line that was dropped silently would surprise the user in production.
"""
