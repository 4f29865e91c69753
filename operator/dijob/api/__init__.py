"""The API: the model of a DIJob, its validation, and the parser of its command lines."""
