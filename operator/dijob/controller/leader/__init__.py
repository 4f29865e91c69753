"""Leader election and claims of namespaces, which determine which operator serves which jobs."""
