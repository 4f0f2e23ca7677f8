"""Performance as ratios within one run, the raw numbers beside them."""
