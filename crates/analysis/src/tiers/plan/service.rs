//! Times of requests to an origin, drawn.

use super::origin::{Latency, Origin, Tail};
use crate::random::Random;

/// From so many requests on, the sum of their usual times is drawn as one normal number.
const SUMMED_FROM: u32 = 32;

/// What some requests took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawn {
    /// Sum of the usual times, in seconds.
    pub body_s: f64,
    /// The longest of the usual times, in seconds; an estimate where there are many.
    pub longest_s: f64,
    /// The rare long times, in seconds.
    pub tails_s: Vec<f64>,
}

impl Drawn {
    /// All of them one after the other, in seconds.
    #[must_use]
    pub fn sum_s(&self) -> f64 {
        self.body_s + self.tails_s.iter().sum::<f64>()
    }
}

/// Where a simulation gets its times from.
///
/// # Contract
/// Every time is finite and at least 0, and the same calls in the same order give the same times.
pub trait Service {
    /// `n` reads of `bytes` each, in the order in which they begin.
    fn reads(&mut self, n: u32, bytes: f64) -> Drawn;

    /// `n` metadata operations.
    fn metadata(&mut self, n: u32) -> Drawn;
}

/// Times drawn from an origin's distributions.
#[derive(Clone, Debug)]
pub struct Seeded {
    origin: Origin,
    random: Random,
}

impl Seeded {
    /// The same origin and seed give the same times.
    #[must_use]
    pub fn new(origin: Origin, seed: u64) -> Self {
        Self {
            origin,
            random: Random::new(seed),
        }
    }

    fn draw(&mut self, latency: &Latency, n: u32, size_s: f64) -> Drawn {
        let mut tails_s = Vec::new();
        if let Some(tail) = &latency.tail {
            let count = binomial(&mut self.random, n, tail.probability);
            tails_s.extend((0..count).map(|_| draw_tail(&mut self.random, tail)));
        }
        let usual = n - tails_s.len() as u32;
        let Some(body) = latency.body.filter(|_| usual > 0) else {
            return Drawn {
                body_s: f64::from(n) * size_s,
                longest_s: size_s,
                tails_s,
            };
        };
        let (mut sum, mut longest) = (0.0, 0.0f64);
        if usual < SUMMED_FROM {
            for _ in 0..usual {
                let time = body.median_s * (body.sigma * normal(&mut self.random)).exp();
                sum += time;
                longest = longest.max(time);
            }
        } else {
            let n = f64::from(usual);
            let spread = body.deviation_s() * n.sqrt() * normal(&mut self.random);
            sum = (body.mean_s() * n + spread).max(0.0);
            longest = body.longest_s(n).min(sum);
        }
        Drawn {
            body_s: sum + f64::from(n) * size_s,
            longest_s: longest + size_s,
            tails_s,
        }
    }
}

impl Service for Seeded {
    fn reads(&mut self, n: u32, bytes: f64) -> Drawn {
        let latency = self.origin.read;
        self.draw(&latency, n, bytes * self.origin.seconds_per_byte)
    }

    fn metadata(&mut self, n: u32) -> Drawn {
        let latency = self.origin.metadata;
        self.draw(&latency, n, 0.0)
    }
}

fn draw_tail(random: &mut Random, tail: &Tail) -> f64 {
    tail.quantile(random.unit())
}

/// A draw from the standard normal distribution.
fn normal(random: &mut Random) -> f64 {
    let (radius, turn) = (random.unit(), random.unit());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
}

/// How many of `n` requests are struck, each with the same probability.
///
/// The gaps between those that are struck are geometric, so it costs as many numbers as it finds.
fn binomial(random: &mut Random, n: u32, probability: f64) -> u32 {
    if probability <= 0.0 {
        return 0;
    }
    if probability >= 1.0 {
        return n;
    }
    let scale = 1.0 / (-probability).ln_1p();
    let (mut found, mut place) = (0, 0.0);
    loop {
        place += (random.unit().ln() * scale).floor() + 1.0;
        if place > f64::from(n) {
            return found;
        }
        found += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiers::plan::origin::Body;

    fn latency() -> Latency {
        Latency {
            body: Some(Body::of_quantiles(0.001, 0.004)),
            tail: Some(Tail {
                probability: 0.001,
                min_s: 1.0,
                max_s: 30.0,
                alpha: 0.6,
            }),
        }
    }

    fn service(seed: u64) -> Seeded {
        Seeded::new(
            Origin {
                read: latency(),
                ..Origin::default()
            },
            seed,
        )
    }

    #[test]
    fn many_at_once_and_one_by_one_are_the_same_distribution() {
        let (mut one, mut many) = (service(1), service(2));
        let (mut ones, mut manys) = (Drawn::default(), Drawn::default());
        for _ in 0..400_000 {
            let drawn = one.reads(1, 0.0);
            ones.body_s += drawn.body_s;
            ones.tails_s.extend(drawn.tails_s);
        }
        for _ in 0..400 {
            let drawn = many.reads(1_000, 0.0);
            manys.body_s += drawn.body_s;
            manys.tails_s.extend(drawn.tails_s);
        }
        let near = |a: f64, b: f64, share: f64| assert!((a / b - 1.0).abs() < share, "{a} and {b}");
        near(ones.body_s, manys.body_s, 0.01);
        let mean = Body::of_quantiles(0.001, 0.004).mean_s();
        near(manys.body_s, 400_000.0 * 0.999 * mean, 0.01);
        near(ones.tails_s.len() as f64, 400.0, 0.15);
        near(manys.tails_s.len() as f64, 400.0, 0.15);
        let over = |drawn: &Drawn| {
            drawn.tails_s.iter().filter(|tail| **tail > 5.0).count() as f64
                / drawn.tails_s.len() as f64
        };
        let wanted = latency().tail.expect("it has one").share_over(5.0);
        assert!((over(&ones) - wanted).abs() < 0.08 && (over(&manys) - wanted).abs() < 0.08);
    }

    #[test]
    fn draws_replay_and_need_no_distribution() {
        assert_eq!(service(7).reads(500, 10.0), service(7).reads(500, 10.0));
        assert_ne!(service(7).reads(500, 10.0), service(8).reads(500, 10.0));
        let mut none = Seeded::new(
            Origin {
                seconds_per_byte: 0.5,
                ..Origin::default()
            },
            1,
        );
        assert_eq!(
            none.reads(3, 2.0),
            Drawn {
                body_s: 3.0,
                longest_s: 1.0,
                tails_s: Vec::new()
            }
        );
        assert_eq!(none.metadata(9).sum_s(), 0.0);
    }
}
