"""Which operator serves which jobs: leader election, and claims of namespaces."""
