"""Jobs, pods and statuses for tests, as users, API servers and kubelets write them."""
