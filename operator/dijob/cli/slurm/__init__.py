"""Makes a DIJob of a batch script for Slurm: of its #SBATCH lines and of what srun runs."""
