//! Axes: from a value to a place on the page, and where the ticks stand.

use super::svg::{Anchor, Svg};

/// Decades that one axis shows at most; values below the lowest are drawn at its edge.
const MAX_DECADES: i32 = 7;

/// One axis, from its lowest to its highest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Axis {
    Linear {
        high: f64,
    },
    /// Powers of ten.
    Log {
        low: i32,
        high: i32,
    },
}

impl Axis {
    /// From 0 to a little above `high`.
    pub(super) fn linear(high: f64) -> Self {
        Self::Linear {
            high: if high > 0.0 { high } else { 1.0 },
        }
    }

    /// Whole decades around the values that are above 0.
    pub(super) fn log(values: impl IntoIterator<Item = f64>) -> Self {
        let positive = values.into_iter().filter(|value| *value > 0.0);
        let (least, most) = positive.fold((f64::MAX, 0.0f64), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        if most == 0.0 {
            return Self::Log { low: -3, high: 0 };
        }
        let high = most.log10().ceil() as i32;
        let low = (least.log10().floor() as i32).min(high - 1);
        Self::Log {
            low: low.max(high - MAX_DECADES),
            high,
        }
    }

    /// The place of a value, from 0 at the low end to 1 at the high end.
    pub(super) fn place(self, value: f64) -> f64 {
        let place = match self {
            Self::Linear { high } => value / high,
            Self::Log { low, high } => {
                let value = value.max(f64::MIN_POSITIVE).log10();
                (value - f64::from(low)) / f64::from(high - low)
            }
        };
        place.clamp(0.0, 1.0)
    }

    /// Values that get a line and a label: about five, or every decade.
    pub(super) fn ticks(self) -> Vec<f64> {
        match self {
            Self::Log { low, high } => (low..=high).map(|power| 10f64.powi(power)).collect(),
            Self::Linear { high } => {
                let rough = high / 5.0;
                let decade = 10f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0]
                    .map(|part| part * decade)
                    .into_iter()
                    .find(|step| *step >= rough)
                    .unwrap_or(high);
                let count = (high / step) as usize;
                (0..=count.min(12)).map(|i| i as f64 * step).collect()
            }
        }
    }

    /// Values between the ticks of a logarithmic axis.
    fn small_ticks(self) -> Vec<f64> {
        match self {
            Self::Linear { .. } => Vec::new(),
            Self::Log { low, high } => (low..high)
                .flat_map(|power| (2..10).map(move |part| f64::from(part) * 10f64.powi(power)))
                .collect(),
        }
    }
}

/// A plotting area with two axes.
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) x: Axis,
    pub(super) y: Axis,
}

impl Frame {
    pub(super) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x_at(x), self.y_at(y))
    }

    pub(super) fn x_at(&self, x: f64) -> f64 {
        self.left + self.width * self.x.place(x)
    }

    pub(super) fn y_at(&self, y: f64) -> f64 {
        self.bottom() - self.height * self.y.place(y)
    }

    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Lines across and labels on the left.
    pub(super) fn draw_y(&self, svg: &mut Svg, label: impl Fn(f64) -> String) {
        for tick in self.y.small_ticks() {
            let y = self.y_at(tick);
            svg.line("tick", (self.left - 3.0, y), (self.left, y));
        }
        for tick in self.y.ticks() {
            let y = self.y_at(tick);
            svg.line("grid", (self.left, y), (self.right(), y));
            svg.text(
                "label",
                (self.left - 8.0, y + 4.0),
                Anchor::End,
                &label(tick),
            );
        }
    }

    /// Lines up and labels below.
    pub(super) fn draw_x(&self, svg: &mut Svg, label: impl Fn(f64) -> String) {
        for tick in self.x.small_ticks() {
            let x = self.x_at(tick);
            svg.line("tick", (x, self.bottom()), (x, self.bottom() + 3.0));
        }
        for tick in self.x.ticks() {
            let x = self.x_at(tick);
            if matches!(self.x, Axis::Log { .. }) {
                svg.line("grid", (x, self.top), (x, self.bottom()));
            }
            let at = (x, self.bottom() + 18.0);
            svg.text("label", at, Anchor::Middle, &label(tick));
        }
        svg.line(
            "axis",
            (self.left, self.bottom()),
            (self.right(), self.bottom()),
        );
    }

    /// The name of what is drawn, above the area on the left.
    pub(super) fn draw_title(&self, svg: &mut Svg, title: &str) {
        svg.text("title", (self.left, self.top - 12.0), Anchor::Start, title);
    }
}

/// A time on an axis: `100 ms`, `1 s`, without needless digits.
pub(super) fn time_label(seconds: f64) -> String {
    let (value, unit) = match seconds {
        0.0 => return "0".into(),
        s if s < 0.999e-3 => (s * 1e6, "µs"),
        s if s < 0.999 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    format!("{} {unit}", (value * 1e3).round() / 1e3)
}

/// A share on an axis: `10 %`, `0.1 %`.
pub(super) fn share_label(share: f64) -> String {
    format!("{} %", (share * 1e8).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_axis_holds_its_values_in_bounded_decades() {
        let axis = Axis::log([0.0, 0.015, 41.8]);
        assert_eq!(axis, Axis::Log { low: -2, high: 2 });
        assert_eq!(axis.ticks().len(), 5);
        assert_eq!(Axis::log([1e-300, 1e7]), Axis::Log { low: 0, high: 7 });
        assert_eq!(Axis::log([]), Axis::Log { low: -3, high: 0 });
        assert_eq!(Axis::log([1.0]), Axis::Log { low: -1, high: 0 });
        assert_eq!(axis.place(0.0), 0.0);
        assert_eq!(axis.place(100.0), 1.0);
    }

    #[test]
    fn a_linear_axis_has_a_few_round_ticks() {
        for high in [1e-7, 0.9, 1.0, 7.3, 44.0, 11_843.9, 1e7] {
            let ticks = Axis::linear(high).ticks();
            assert!((3..=12).contains(&ticks.len()), "{high}: {ticks:?}");
        }
        assert_eq!(Axis::linear(44.0).ticks(), [0.0, 10.0, 20.0, 30.0, 40.0]);
    }

    #[test]
    fn labels_have_no_needless_digits() {
        assert_eq!(time_label(1e-5), "10 µs");
        assert_eq!(time_label(0.1), "100 ms");
        assert_eq!(time_label(100.0), "100 s");
        assert_eq!(share_label(1.0), "100 %");
        assert_eq!(share_label(1e-4), "0.01 %");
    }
}
