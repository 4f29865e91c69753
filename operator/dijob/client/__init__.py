"""The Python client: DIJobs built, applied, watched and deleted with a kubeconfig."""
