"""Everything that speaks to Redis. Stores return commands; one script commits them under a lease."""
