//! What came of it.

use std::time::Duration;

/// What a seed came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) from_members: u64,
    pub(super) from_origin: u64,
    pub(super) hedges: u64,
    pub(super) crashes: u64,
    pub(super) given_up: u64,
    pub(super) recovered: u64,
    pub(super) corrupt: u64,
    pub(super) refused_links: u64,
    /// How often a node went over to another list of members.
    pub(super) changes: u64,
    pub(super) failed_requests: u64,
    /// Requests whose bytes were handed over before they were written.
    pub(super) handed: u64,
    /// The longest that a request was with members, before the origin was read.
    pub(super) longest_asked: Duration,
    /// How often one was waited for although its request was not to wait for others.
    pub(super) followed_at_once: u64,
    pub(super) events: u64,
    /// Of all that happened and when.
    pub(super) trace: u64,
}

impl Outcome {
    pub(super) fn add(&mut self, other: &Self) {
        self.from_members += other.from_members;
        self.from_origin += other.from_origin;
        self.hedges += other.hedges;
        self.crashes += other.crashes;
        self.given_up += other.given_up;
        self.recovered += other.recovered;
        self.corrupt += other.corrupt;
        self.refused_links += other.refused_links;
        self.changes += other.changes;
        self.longest_asked = self.longest_asked.max(other.longest_asked);
        self.failed_requests += other.failed_requests;
        self.handed += other.handed;
        self.events += other.events;
    }
}
