"""An open graph as its verbs see it: its states, its guard, its writes, the engines, and what is kept between calls."""
