"""A real S3 server for tests: versitygw, which stores buckets in a folder, built from its public
source.
"""
