//! When a silent peer is given up, and how long one that failed is left alone. No clock and no
//! socket: a link says what time it is.

use std::time::{Duration, Instant};

/// Time after the first failure for which a peer is left alone; it doubles with each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// Longest time for which a peer is left alone.
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
/// A link that lived so long was a good one.
const GOOD_LINK: Duration = Duration::from_secs(5);
/// An idle link is tried after so long.
const IDLE_PING: Duration = Duration::from_secs(10);

/// What to do about a peer that says nothing at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Wait on.
    Wait,
    /// Ask whether it is there.
    Ping,
    /// It was silent for so long: end the link.
    GiveUp(Duration),
}

/// How long a link bears with its peer.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    silence: Duration,
    backoff: Duration,
}

impl Patience {
    /// With a peer that is given up after `silence` while something is asked of it.
    pub fn new(silence: Duration) -> Self {
        Self {
            silence,
            backoff: FIRST_BACKOFF,
        }
    }

    /// Nothing came for a while: it was heard last at `heard`, and the first of those who wait for
    /// an answer has asked at `asked`.
    pub fn look(&self, now: Instant, heard: Instant, asked: Option<Instant>) -> Look {
        // Nobody expects a word before the first ask of those that wait.
        let since = asked.map_or(heard, |asked| heard.max(asked));
        let quiet = now.saturating_duration_since(since);
        let (most, ping) = match asked {
            Some(_) => (self.silence, self.silence / 4),
            None => (IDLE_PING + self.silence, IDLE_PING),
        };
        if quiet >= most {
            Look::GiveUp(quiet)
        } else if quiet >= ping {
            Look::Ping
        } else {
            Look::Wait
        }
    }

    /// A link that lived so long, or was never made, has failed: how long to leave the peer alone.
    pub fn failed(&mut self, lived: Duration) -> Duration {
        if lived >= GOOD_LINK {
            self.backoff = FIRST_BACKOFF;
        }
        let pause = self.backoff;
        self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_peer_is_asked_before_it_is_given_up_and_only_while_somebody_waits() {
        let patience = Patience::new(400 * MS);
        let heard = Instant::now();
        let look = |at: u32, asked: Option<u32>| {
            patience.look(
                heard + at * MS,
                heard,
                asked.map(|asked| heard + asked * MS),
            )
        };
        assert_eq!(look(99, Some(0)), Look::Wait);
        assert_eq!(look(100, Some(0)), Look::Ping);
        assert_eq!(look(400, Some(0)), Look::GiveUp(400 * MS));
        assert_eq!(look(400, Some(350)), Look::Wait, "asked a moment ago");
        assert_eq!(look(9_999, None), Look::Wait);
        assert_eq!(look(10_000, None), Look::Ping);
        assert_eq!(look(10_400, None), Look::GiveUp(10_400 * MS));
    }

    #[test]
    fn one_that_fails_again_and_again_is_left_alone_for_longer_up_to_a_bound() {
        let mut patience = Patience::new(400 * MS);
        let pauses: Vec<u128> = (0..8)
            .map(|_| patience.failed(Duration::ZERO).as_millis())
            .collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(patience.failed(GOOD_LINK), 100 * MS);
    }
}
