"""Stand-ins for individual parts that tests of a module need: an API client, a server, a store."""
