"""The API: the model of a DIJob, its checks, and the reading of its command lines."""
