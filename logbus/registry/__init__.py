"""A schema registry on the admin listener, which keeps its schemas in a topic."""
