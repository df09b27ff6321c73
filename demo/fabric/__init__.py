"""The miniature fabric: hosts as network namespaces, storage and collectives on shaped links."""
