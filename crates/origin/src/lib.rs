//! The data set as it lies on shared storage: its index file and its segments.
