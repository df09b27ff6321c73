"""Settings of all Python tests."""

from hypothesis import settings

# A loaded machine is slow, which is not a failure: only a hang is (`timeout` in pyproject.toml).
settings.register_profile("forebay", deadline=None)
settings.load_profile("forebay")
