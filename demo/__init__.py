"""The Forebay demonstration: train on a slow origin, directly and through Forebay.

Everything here runs on a plain CPU. `python -m demo.run` is the whole of it.
"""
