//! Finds samples where they lie, and rewrites them where they cannot be read by one range.
