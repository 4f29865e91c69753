"""Who is in the world: the address list in force, who is lost, who joins, what is counted."""
