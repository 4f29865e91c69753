"""Leader election and claims of namespaces. They determine which operator serves which jobs."""
