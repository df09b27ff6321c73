//! Records to statistics and reports. Pure.
