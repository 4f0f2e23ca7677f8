"""What differs between two states of a graph, and the feed of what commits changed."""
