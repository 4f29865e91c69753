"""Converts a Slurm batch script into a DIJob: its #SBATCH lines, and the command that srun runs.

The script is read, never executed. Each line that has no counterpart in a DIJob is quoted in a
comment with advice, because a silently dropped line would surprise the user in production.
"""
