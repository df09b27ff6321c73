//! Seeded draws: distributions of times as pure functions of (seed, stream, counter).
//!
//! Nothing here keeps state, so the nth request of a run gets the nth draw whatever happened
//! before it, and a run with the same seed and the same order of requests replays.

use std::time::Duration;

/// No draw exceeds this, however wide a distribution is written.
pub const LONGEST: Duration = Duration::from_secs(3600);

/// The 95 % quantile of the standard normal distribution.
const Z95: f64 = 1.644_853_626_951_472_2;

/// Independent sequences under one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Service times of reads.
    Read = 1,
    /// Service times of metadata operations.
    Metadata = 2,
    /// Lengths of normal and slow periods.
    Periods = 3,
    /// Whether a fault strikes.
    Faults = 4,
}

/// A uniform draw in the open interval (0, 1). `lane` separates the draws that one counter needs.
pub fn uniform(seed: u64, stream: Stream, counter: u64, lane: u64) -> f64 {
    let mut word = seed;
    for part in [stream as u64, counter, lane] {
        word = scramble(word ^ part.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    }
    // The upper 53 bits plus a half: never 0 and never 1, so logarithms are finite.
    ((word >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// An exponential draw with the given mean: how long one period lasts.
pub fn exponential(mean: Duration, seed: u64, stream: Stream, counter: u64) -> Duration {
    let share = -uniform(seed, stream, counter, 0).ln();
    bounded(mean.as_secs_f64() * share)
}

/// A bijection of 64 bits in which every input bit reaches every output bit.
fn scramble(mut word: u64) -> u64 {
    word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

fn bounded(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).map_or(LONGEST, |time| time.min(LONGEST))
}

/// The usual case: a lognormal time, given by its median and the width of its logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    /// Half of the draws are below this.
    pub median: Duration,
    /// Standard deviation of the natural logarithm. 0: every draw is the median.
    pub sigma: f64,
}

impl LogNormal {
    /// The width that puts the 95 % quantile at `p95`, for `0 < median <= p95`.
    pub fn sigma_for(median: f64, p95: f64) -> f64 {
        (p95 / median).ln() / Z95
    }

    fn draw(&self, u1: f64, u2: f64) -> f64 {
        let normal = (-2.0 * u1.ln()).sqrt() * (std::f64::consts::TAU * u2).cos();
        self.median.as_secs_f64() * (self.sigma * normal).exp()
    }
}

/// The rare case: a Pareto time between two bounds.
///
/// The distribution is cut at `max` and rescaled, not clamped, so that the longest time stays
/// rare instead of collecting everything beyond it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// Share of requests that are in the tail, 0 to 1.
    pub probability: f64,
    /// The shortest tail time.
    pub min: Duration,
    /// The longest tail time.
    pub max: Duration,
    /// Steepness: the lower, the heavier.
    pub alpha: f64,
}

impl Tail {
    /// The share of tail draws that last longer than `time`.
    pub fn share_over(&self, time: Duration) -> f64 {
        if time <= self.min {
            return 1.0;
        }
        if time >= self.max {
            return 0.0;
        }
        let power = |t: Duration| (self.min.as_secs_f64() / t.as_secs_f64()).powf(self.alpha);
        (power(time) - power(self.max)) / (1.0 - power(self.max))
    }

    fn draw(&self, u: f64) -> f64 {
        let (low, high) = (self.min.as_secs_f64(), self.max.as_secs_f64());
        let cut = 1.0 - (low / high).powf(self.alpha);
        (low * (1.0 - u * cut).powf(-1.0 / self.alpha)).clamp(low, high)
    }
}

/// How much worse the server is at the moment of a draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowdown {
    /// Multiplies the body's time.
    pub body: f64,
    /// Multiplies the tail's probability, which stays at most 1.
    pub tail: f64,
}

impl Slowdown {
    /// No slowdown.
    pub const NONE: Self = Self {
        body: 1.0,
        tail: 1.0,
    };
}

/// What the time of one request is drawn from: a body, and now and then a tail instead.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// The usual time; none: no time at all.
    pub body: Option<LogNormal>,
    /// The rare time.
    pub tail: Option<Tail>,
}

impl Latency {
    /// The time of request number `counter`.
    pub fn draw(&self, seed: u64, stream: Stream, counter: u64, slow: Slowdown) -> Duration {
        let u = |lane| uniform(seed, stream, counter, lane);
        if let Some(tail) = &self.tail
            && u(0) < tail.probability * slow.tail
        {
            return bounded(tail.draw(u(1)));
        }
        match &self.body {
            Some(body) => bounded(body.draw(u(2), u(3)) * slow.body),
            None => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: u64 = 100_000;

    fn sorted(latency: Latency, seed: u64) -> Vec<f64> {
        let mut all: Vec<f64> = (0..N)
            .map(|n| {
                latency
                    .draw(seed, Stream::Read, n, Slowdown::NONE)
                    .as_secs_f64()
            })
            .collect();
        all.sort_by(f64::total_cmp);
        all
    }

    fn quantile(sorted: &[f64], q: f64) -> f64 {
        sorted[(q * (sorted.len() - 1) as f64) as usize]
    }

    fn near(found: f64, wanted: f64, share: f64) {
        assert!(
            (found / wanted - 1.0).abs() < share,
            "found {found}, wanted {wanted}"
        );
    }

    #[test]
    fn lognormal_quantiles_are_those_asked_for() {
        let sigma = LogNormal::sigma_for(2.0, 10.0);
        let body = LogNormal {
            median: Duration::from_millis(2),
            sigma,
        };
        let all = sorted(
            Latency {
                body: Some(body),
                tail: None,
            },
            7,
        );

        near(quantile(&all, 0.5), 0.002, 0.02);
        near(quantile(&all, 0.95), 0.010, 0.03);
        // 16 % below one sigma under the median: the shape, not only two points.
        near(quantile(&all, 0.158_655), 0.002 * (-sigma).exp(), 0.03);
    }

    #[test]
    fn tail_quantiles_and_share_match_the_formula() {
        let tail = Tail {
            probability: 1.0,
            min: Duration::from_millis(600),
            max: Duration::from_secs(42),
            alpha: 0.5,
        };
        let all = sorted(
            Latency {
                body: None,
                tail: Some(tail),
            },
            11,
        );

        assert!(
            all[0] >= 0.6 && all[all.len() - 1] <= 42.0,
            "inside its bounds"
        );
        for seconds in [1.0, 4.0, 11.4, 30.0] {
            let over = all.iter().filter(|t| **t > seconds).count() as f64 / N as f64;
            let wanted = tail.share_over(Duration::from_secs_f64(seconds));
            assert!(
                (over - wanted).abs() < 0.006,
                "over {seconds} s: {over}, wanted {wanted}"
            );
        }
    }

    #[test]
    fn tail_strikes_as_often_as_asked_and_more_often_when_slow() {
        let latency = Latency {
            body: Some(LogNormal {
                median: Duration::from_millis(1),
                sigma: 0.1,
            }),
            tail: Some(Tail {
                probability: 0.02,
                min: Duration::from_secs(1),
                max: Duration::from_secs(2),
                alpha: 1.0,
            }),
        };
        let share = |slow| {
            let hit = (0..N)
                .filter(|n| latency.draw(3, Stream::Read, *n, slow) >= Duration::from_secs(1));
            hit.count() as f64 / N as f64
        };

        assert!((share(Slowdown::NONE) - 0.02).abs() < 0.002);
        assert!(
            (share(Slowdown {
                body: 1.0,
                tail: 10.0
            }) - 0.2)
                .abs()
                < 0.006
        );
        assert_eq!(
            share(Slowdown {
                body: 1.0,
                tail: 100.0
            }),
            1.0
        );
    }

    #[test]
    fn draws_depend_on_seed_stream_and_counter_only() {
        let body = LogNormal {
            median: Duration::from_millis(2),
            sigma: 1.0,
        };
        let latency = Latency {
            body: Some(body),
            tail: None,
        };
        let draw = |seed, stream, n| latency.draw(seed, stream, n, Slowdown::NONE);

        assert_eq!(draw(1, Stream::Read, 5), draw(1, Stream::Read, 5));
        assert_ne!(draw(1, Stream::Read, 5), draw(2, Stream::Read, 5));
        assert_ne!(draw(1, Stream::Read, 5), draw(1, Stream::Metadata, 5));
        assert_ne!(draw(1, Stream::Read, 5), draw(1, Stream::Read, 6));
    }

    #[test]
    fn uniform_words_are_frozen() {
        // A recorded run must replay under a later version.
        let found = [0, 1, 2].map(|n| (uniform(42, Stream::Read, n, 0) * 1e9) as u64);
        assert_eq!(
            found, FROZEN,
            "draws changed: recorded runs no longer replay"
        );
    }

    const FROZEN: [u64; 3] = [741_330_497, 132_256_234, 459_380_582];
}
