"""The work queue of jobs to reconcile, and the quarantine of objects that raise exceptions."""
