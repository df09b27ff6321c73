//! What an origin is to a plan: distributions of its times, and its rates.

/// The 95 % quantile of the standard normal distribution.
const Z95: f64 = 1.644_853_626_951_472_2;

/// The usual time of a request: lognormal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Body {
    /// Median, in seconds.
    pub median_s: f64,
    /// Standard deviation of the natural logarithm; 0: every time is the median.
    pub sigma: f64,
}

impl Body {
    /// The body with this median and 95 % quantile, both in seconds.
    #[must_use]
    pub fn of_quantiles(median_s: f64, p95_s: f64) -> Self {
        let sigma = if median_s > 0.0 && p95_s > median_s {
            (p95_s / median_s).ln() / Z95
        } else {
            0.0
        };
        Self { median_s, sigma }
    }

    /// Mean, in seconds.
    #[must_use]
    pub fn mean_s(&self) -> f64 {
        self.median_s * (self.sigma * self.sigma / 2.0).exp()
    }

    /// The 95 % quantile, in seconds.
    #[must_use]
    pub fn p95_s(&self) -> f64 {
        self.median_s * (self.sigma * Z95).exp()
    }

    pub(super) fn deviation_s(&self) -> f64 {
        self.mean_s() * ((self.sigma * self.sigma).exp() - 1.0).sqrt()
    }

    /// About the longest of `n` times: the 1 − 1/(n+1) quantile, by the usual approximation.
    pub(super) fn longest_s(&self, n: f64) -> f64 {
        self.median_s * (self.sigma * (2.0 * (n + 1.0).ln()).sqrt()).exp()
    }
}

/// The rare time: a Pareto distribution cut at its longest time, not clamped there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// Share of the requests, from 0 to 1.
    pub probability: f64,
    /// Shortest, in seconds.
    pub min_s: f64,
    /// Longest, in seconds.
    pub max_s: f64,
    /// Steepness: the lower, the heavier.
    pub alpha: f64,
}

impl Tail {
    /// The share of the tail's times that are longer than this.
    #[must_use]
    pub fn share_over(&self, seconds: f64) -> f64 {
        if seconds <= self.min_s {
            return 1.0;
        }
        if seconds >= self.max_s {
            return 0.0;
        }
        let power = |time: f64| (self.min_s / time).powf(self.alpha);
        (power(seconds) - power(self.max_s)) / (1.0 - power(self.max_s))
    }

    /// The time at a place from 0 (shortest) to 1 (longest) of the distribution.
    #[must_use]
    pub fn quantile(&self, place: f64) -> f64 {
        let cut = 1.0 - (self.min_s / self.max_s).powf(self.alpha);
        let time = self.min_s * (1.0 - place * cut).powf(-1.0 / self.alpha);
        time.clamp(self.min_s, self.max_s)
    }
}

/// What the time of one request is drawn from: the body, and now and then the tail instead.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// The usual time; none: no time at all.
    pub body: Option<Body>,
    /// The rare time.
    pub tail: Option<Tail>,
}

/// An origin, as measured or as stated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Origin {
    /// Times of reads.
    pub read: Latency,
    /// Seconds that each byte of a read adds.
    pub seconds_per_byte: f64,
    /// Bytes a second over all reads of the job; none: no cap.
    pub bytes_per_s: Option<f64>,
    /// Reads that are served at one time.
    pub parallel_reads: Option<u32>,
    /// Times of metadata operations.
    pub metadata: Latency,
    /// Metadata operations a second over the whole job; none: no cap.
    pub metadata_per_s: Option<f64>,
}

impl Origin {
    /// When a read counts as late, in seconds: three times the body's 95 % quantile and at least
    /// 10 ms, as Forebay's daemon judges it.
    #[must_use]
    pub fn late_after_s(&self) -> f64 {
        let p95 = self.read.body.map_or(0.0, |body| body.p95_s());
        (3.0 * p95).max(0.010)
    }
}
