"""Every comparison of speed with its baseline: `make bench`."""
