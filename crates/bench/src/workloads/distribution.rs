//! When files come, and how large they are: drawn from a seed. Pure.

use std::time::Duration;

use forebay_analysis::random::Random;

use crate::{BenchError, Params, Result};

/// The longest plan: an arrival beyond it is a slip of the command line.
const LONGEST_S: f64 = 366.0 * 86_400.0;

/// When files come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arrival {
    /// At equal distances.
    Deterministic { interval_s: f64 },
    /// So many a second on average, independent of each other.
    Poisson { rate: f64 },
    /// In groups: files of one `gap_s` apart, and `quiet_s` between groups.
    Burst { size: u64, gap_s: f64, quiet_s: f64 },
}

impl Arrival {
    pub(super) fn new(params: &Params) -> Result<Self> {
        let positive = |name| not_negative(params, name);
        Ok(match params.text("arrival")? {
            "poisson" => {
                let rate = params.number("rate")?;
                if rate <= 0.0 {
                    return Err(BenchError::Usage(format!("`rate` must be above 0: {rate}")));
                }
                Self::Poisson { rate }
            }
            "burst" => Self::Burst {
                size: params.positive("burst_size")?,
                gap_s: positive("burst_gap_s")?,
                quiet_s: positive("quiet_s")?,
            },
            _ => Self::Deterministic {
                interval_s: positive("interval_s")?,
            },
        })
    }

    /// The time of each of `count` files after the start.
    pub(super) fn times(self, count: u64, random: &mut Random) -> Result<Vec<Duration>> {
        let mut at = 0.0f64;
        let mut times = Vec::with_capacity(count as usize);
        for index in 0..count {
            if index > 0 || matches!(self, Self::Poisson { .. }) {
                at += match self {
                    Self::Deterministic { interval_s } => interval_s,
                    Self::Poisson { rate } => -random.unit().ln() / rate,
                    Self::Burst { size, quiet_s, .. } if index % size == 0 => quiet_s,
                    Self::Burst { gap_s, .. } => gap_s,
                };
            }
            if at > LONGEST_S {
                return Err(BenchError::Usage(format!(
                    "file {index} would come after {at:.0} s: at most {LONGEST_S:.0}"
                )));
            }
            times.push(Duration::from_secs_f64(at));
        }
        Ok(times)
    }
}

/// How large files are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// All alike.
    Fixed(f64),
    /// With this mean.
    Exponential(f64),
    /// Anything between two.
    Uniform(f64, f64),
    /// With this mean and deviation of the logarithm.
    Lognormal(f64, f64),
}

/// Sizes, and the bounds they are kept in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    shape: Shape,
    least: u64,
    most: u64,
}

impl Sizes {
    pub(super) fn new(params: &Params) -> Result<Self> {
        let size = |name| params.count(name).map(|bytes| bytes as f64);
        let shape = match params.text("size_distribution")? {
            "exponential" => Shape::Exponential(size("mean")?),
            "uniform" => Shape::Uniform(size("min")?, size("max")?),
            "lognormal" => {
                let median = size("median")?;
                let mu = if median > 0.0 {
                    median.ln()
                } else {
                    params.number("mu")?
                };
                Shape::Lognormal(mu, not_negative(params, "sigma")?)
            }
            _ => Shape::Fixed(size("size")?),
        };
        let (least, most) = (params.count("min_size")?, params.count("max_size")?);
        if least > most {
            return Err(BenchError::Usage(format!(
                "`min_size` must be at most `max_size`: {least} and {most}"
            )));
        }
        if let Shape::Uniform(min, max) = shape
            && min > max
        {
            return Err(BenchError::Usage(format!(
                "`min` must be at most `max`: {min} and {max}"
            )));
        }
        Ok(Self { shape, least, most })
    }

    /// One size in bytes.
    pub(super) fn draw(self, random: &mut Random) -> u64 {
        let drawn = match self.shape {
            Shape::Fixed(size) => size,
            Shape::Exponential(mean) => -random.unit().ln() * mean,
            Shape::Uniform(min, max) => min + random.unit() * (max - min),
            Shape::Lognormal(mu, sigma) => (mu + sigma * normal(random)).exp(),
        };
        // A number that is too large for 64 bits becomes the largest there is.
        (drawn.round() as u64).clamp(self.least, self.most)
    }
}

/// A number of the standard normal distribution (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * random.unit().ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

fn not_negative(params: &Params, name: &str) -> Result<f64> {
    let number = params.number(name)?;
    if number < 0.0 {
        return Err(BenchError::Usage(format!(
            "`{name}` must not be below 0: {number}"
        )));
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(sizes: Sizes, count: u32) -> f64 {
        let mut random = Random::new(3);
        let sum: f64 = (0..count).map(|_| sizes.draw(&mut random) as f64).sum();
        sum / f64::from(count)
    }

    fn sizes(shape: Shape) -> Sizes {
        Sizes {
            shape,
            least: 0,
            most: u64::MAX,
        }
    }

    #[test]
    fn sizes_have_the_mean_of_their_distribution() {
        let cases = [
            (Shape::Fixed(700.0), 700.0),
            (Shape::Exponential(10_000.0), 10_000.0),
            (Shape::Uniform(1_000.0, 3_000.0), 2_000.0),
            (Shape::Lognormal(8.0, 0.5), (8.0f64 + 0.125).exp()),
        ];
        for (shape, wanted) in cases {
            let found = mean(sizes(shape), 20_000);
            assert!((found / wanted - 1.0).abs() < 0.05, "{shape:?}: {found}");
        }
    }

    #[test]
    fn bounds_hold_for_every_distribution() {
        let shapes = [
            Shape::Fixed(1.0),
            Shape::Exponential(1e9),
            Shape::Lognormal(700.0, 50.0),
        ];
        for shape in shapes {
            let sizes = Sizes {
                shape,
                least: 100,
                most: 200,
            };
            let mut random = Random::new(1);
            assert!((0..1_000).all(|_| (100..=200).contains(&sizes.draw(&mut random))));
        }
    }

    #[test]
    fn files_come_as_planned() {
        let times = |arrival: Arrival, count| {
            let times = arrival.times(count, &mut Random::new(2)).unwrap();
            times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>()
        };
        let equal = times(Arrival::Deterministic { interval_s: 0.5 }, 4);
        assert_eq!(equal, [0.0, 0.5, 1.0, 1.5]);
        let burst = Arrival::Burst {
            size: 2,
            gap_s: 0.25,
            quiet_s: 8.0,
        };
        assert_eq!(times(burst, 5), [0.0, 0.25, 8.25, 8.5, 16.5]);
        let poisson = times(Arrival::Poisson { rate: 100.0 }, 10_000);
        assert!(poisson.is_sorted());
        assert!((poisson.last().unwrap() / 100.0 - 1.0).abs() < 0.05);
        let endless = Arrival::Deterministic { interval_s: 1e300 };
        assert!(endless.times(3, &mut Random::new(1)).is_err());
    }
}
