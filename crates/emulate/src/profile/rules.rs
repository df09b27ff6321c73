//! The rules a profile must keep, and the step from written numbers to scaled ones.

use std::time::Duration;

use super::{Class, ClassSettings, SlowPlan, SlowSettings, TailSettings};
use crate::draw::{Latency, LogNormal, Slowdown, Tail};

/// Collects every broken rule, so that one run shows all of them.
#[derive(Default)]
pub(super) struct Rules(pub(super) Vec<String>);

impl Rules {
    pub(super) fn broken(&mut self, rule: String) {
        self.0.push(rule);
    }

    pub(super) fn range(&mut self, name: &str, value: f64, low: f64, high: f64) -> bool {
        let holds = value.is_finite() && (low..=high).contains(&value);
        if !holds {
            self.broken(format!("`{name}` must be {low} to {high}: {value}"));
        }
        holds
    }

    pub(super) fn class(&mut self, name: &str, class: &ClassSettings, scale: f64) -> Class {
        let body = self.body(name, class, scale);
        let tail = class
            .tail
            .as_ref()
            .and_then(|tail| self.tail(name, tail, scale));
        if !(1..=65_536).contains(&class.max_parallel) {
            self.broken(format!(
                "`{name}.max_parallel` must be 1 to 65536: {}",
                class.max_parallel
            ));
        }
        if class.bytes_per_s == Some(0) {
            self.broken(format!(
                "`{name}.bytes_per_s` must be at least 1: 0 (leave it out for no cap)"
            ));
        }
        self.range(&format!("{name}.ms_per_mib"), class.ms_per_mib, 0.0, 1e6);
        Class {
            latency: Latency { body, tail },
            max_parallel: class.max_parallel as usize,
            seconds_per_byte: class.ms_per_mib * scale / 1e3 / f64::from(1 << 20),
            bytes_per_s: class.bytes_per_s.map(|rate| rate as f64 / scale),
            burst_bytes: class.burst_bytes,
        }
    }

    fn body(&mut self, name: &str, class: &ClassSettings, scale: f64) -> Option<LogNormal> {
        let median = class.median_ms;
        let mut holds = self.range(&format!("{name}.median_ms"), median, 0.0, 1e6);
        if let Some(sigma) = class.sigma {
            holds &= self.range(&format!("{name}.sigma"), sigma, 0.0, 10.0);
        }
        if let Some(p95) = class.p95_ms {
            if class.sigma.is_some() {
                self.broken(format!(
                    "`{name}` has `p95_ms` and `sigma`: give one of them"
                ));
            }
            if !(p95.is_finite() && p95 >= median && p95 <= 1e6) {
                self.broken(format!(
                    "`{name}.p95_ms` must be `median_ms` ({median}) to 1000000: {p95}"
                ));
                holds = false;
            }
        }
        if !holds || median == 0.0 {
            return None;
        }
        let spread = class.p95_ms.map(|p95| LogNormal::sigma_for(median, p95));
        Some(LogNormal {
            median: milliseconds(median * scale),
            sigma: spread.or(class.sigma).unwrap_or(0.0),
        })
    }

    fn tail(&mut self, name: &str, tail: &TailSettings, scale: f64) -> Option<Tail> {
        let field = |part: &str| format!("{name}.tail.{part}");
        let mut holds = self.range(&field("probability"), tail.probability, 0.0, 1.0);
        holds &= self.range(&field("min_ms"), tail.min_ms, 1e-3, 1e6);
        holds &= self.range(&field("alpha"), tail.alpha, 0.05, 20.0);
        if !(tail.max_ms.is_finite() && tail.max_ms > tail.min_ms && tail.max_ms <= 1e6) {
            self.broken(format!(
                "`{name}.tail.max_ms` must be over `min_ms` ({}) and at most 1000000: {}",
                tail.min_ms, tail.max_ms
            ));
            holds = false;
        }
        holds.then(|| Tail {
            probability: tail.probability,
            min: milliseconds(tail.min_ms * scale),
            max: milliseconds(tail.max_ms * scale),
            alpha: tail.alpha,
        })
    }

    pub(super) fn slow(&mut self, slow: &SlowSettings, scale: f64) -> SlowPlan {
        // A period under 10 ms would be over before a request could notice.
        let mut mean = |name: &str, seconds: f64| {
            self.range(
                &format!("slow_periods.{name} x scale"),
                seconds * scale,
                0.01,
                1e6,
            );
            Duration::try_from_secs_f64(seconds * scale).unwrap_or_default()
        };
        let (mean_normal, mean_slow) = (
            mean("mean_normal_s", slow.mean_normal_s),
            mean("mean_slow_s", slow.mean_slow_s),
        );
        self.range("slow_periods.body_factor", slow.body_factor, 0.0, 1e6);
        self.range("slow_periods.tail_factor", slow.tail_factor, 0.0, 1e6);
        let slowdown = Slowdown {
            body: slow.body_factor,
            tail: slow.tail_factor,
        };
        SlowPlan {
            mean_normal,
            mean_slow,
            slowdown,
        }
    }
}

fn milliseconds(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1e3).unwrap_or(crate::draw::LONGEST)
}
