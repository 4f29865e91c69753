"""`kubectl dijob cp`: files out of a rank's container, or out of a volume of the job."""
