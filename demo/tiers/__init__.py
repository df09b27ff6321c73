"""The demonstration of the tier analysis: three shapes on emulated tiers, and a plan's check."""
