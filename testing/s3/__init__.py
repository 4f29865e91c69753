"""A real S3 server for tests: versitygw, built from its public source.

It stores buckets in a folder.
"""
