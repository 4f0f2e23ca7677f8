"""An open graph as its verbs see it: its states, policy guard, writes, engines and caches."""
