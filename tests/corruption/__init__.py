"""Every kind of file of a graph, damaged in every way, and then every verb."""
