//! Which gains reach a goal: the least in one class, and the frontier of several.

use serde::Serialize;

use super::{Case, Gains, MAX_GAIN_PERCENT, Measured, WhatIfError};

/// The most combinations of gains that one search looks at.
pub const MAX_COMBINATIONS: usize = 1_000_000;

/// The gains of a class that a search tries: 0, step, 2 step … up to the last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// Distance of two gains, in percent.
    pub step: f64,
    /// The greatest gain, in percent.
    pub to: f64,
}

impl Default for Axis {
    /// Steps of 10 up to 300 percent.
    fn default() -> Self {
        Self {
            step: 10.0,
            to: 300.0,
        }
    }
}

impl Axis {
    fn check(&self) -> Result<(), WhatIfError> {
        let Self { step, to } = *self;
        let sound = step > 0.0 && to > 0.0 && to <= MAX_GAIN_PERCENT && step.is_finite();
        if sound {
            Ok(())
        } else {
            Err(WhatIfError::Axis { step, to })
        }
    }

    fn gain(&self, place: usize) -> f64 {
        place as f64 * self.step
    }

    /// How many gains there are. Rounding must not lose the last of 0.1, 0.2 … 1.
    fn count(&self) -> f64 {
        (self.to / self.step * (1.0 + 1e-12)).floor() + 1.0
    }
}

/// The least gain of one class that meets a goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum LeastGain {
    /// The goal is met without it.
    Met {
        /// The least cache rate that meets it.
        cache_rate: Option<f64>,
        /// Time there, in seconds.
        seconds: f64,
    },
    /// This gain meets it.
    Gain {
        /// The gain in percent: a little less does not meet the goal.
        percent: f64,
        /// The least cache rate that meets it with this gain.
        cache_rate: Option<f64>,
    },
    /// No gain of this class meets it, not even an endless one.
    Unreachable {
        /// What an endless gain would leave, in seconds.
        limit_seconds: f64,
        /// The cache rate of that.
        cache_rate: Option<f64>,
    },
}

/// A combination of gains that meets a goal, where none with a smaller gain does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrontierPoint {
    /// Gains of the frontier's classes, in percent.
    pub gains: Vec<f64>,
    /// The least cache rate that meets the goal with them.
    pub cache_rate: Option<f64>,
}

/// A combination on the grid that meets the goal: one dot of the picture.
pub type Mark = FrontierPoint;

/// The combinations of gains that meet a goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frontier {
    /// The classes that gain.
    pub classes: Vec<String>,
    /// The goal, in seconds.
    pub goal_seconds: f64,
    /// The gains tried.
    pub axis: Axis,
    /// Combinations that none with smaller gains replaces; empty: unreachable on this grid.
    pub points: Vec<FrontierPoint>,
    /// Every combination on the grid that meets the goal.
    pub marks: Vec<Mark>,
    /// What endless gains in all these classes would leave in the best case, in seconds.
    pub limit_seconds: f64,
}

fn check_goal(goal: f64) -> Result<(), WhatIfError> {
    if goal > 0.0 && goal.is_finite() {
        Ok(())
    } else {
        Err(WhatIfError::Goal(goal))
    }
}

impl Measured {
    /// The least gain in `class` with which some cache rate meets `goal`, where the other classes
    /// have `gains`.
    ///
    /// # Errors
    /// [`WhatIfError`] for an unknown class or a goal that is not above 0.
    pub fn least_gain(
        &self,
        class: &str,
        goal: f64,
        gains: &Gains,
    ) -> Result<LeastGain, WhatIfError> {
        check_goal(goal)?;
        let place = self.class(class)?;
        if let Some(case) = self.least_case(goal, &gains.with(place, 0.0)) {
            let (cache_rate, seconds) = (case.cache_rate, case.seconds(&gains.with(place, 0.0)));
            return Ok(LeastGain::Met {
                cache_rate,
                seconds,
            });
        }
        if self
            .least_case(goal, &gains.with(place, MAX_GAIN_PERCENT))
            .is_none()
        {
            let (case, limit_seconds) = self.best_place(&gains.with(place, f64::INFINITY));
            let cache_rate = case.cache_rate;
            return Ok(LeastGain::Unreachable {
                limit_seconds,
                cache_rate,
            });
        }
        let (mut missed, mut met) = (0.0, MAX_GAIN_PERCENT);
        // Sixty halvings leave less than the rounding of the times themselves.
        for _ in 0..60 {
            let middle = missed + (met - missed) / 2.0;
            match self.least_case(goal, &gains.with(place, middle)) {
                Some(_) => met = middle,
                None => missed = middle,
            }
        }
        let case = self.least_case(goal, &gains.with(place, met));
        Ok(LeastGain::Gain {
            percent: met,
            cache_rate: case.and_then(|case| case.cache_rate),
        })
    }

    /// The case of the least cache rate that meets the goal.
    fn least_case(&self, goal: f64, gains: &Gains) -> Option<&Case> {
        self.cases().iter().find(|case| case.seconds(gains) <= goal)
    }

    /// The frontier of two or more classes for a goal, on a grid of gains, where the other
    /// classes have `gains`.
    ///
    /// # Errors
    /// [`WhatIfError`] for an unknown class or one named twice, a goal that is not above 0, and a
    /// grid of more than [`MAX_COMBINATIONS`].
    pub fn frontier(
        &self,
        classes: &[String],
        goal: f64,
        axis: Axis,
        gains: &Gains,
    ) -> Result<Frontier, WhatIfError> {
        check_goal(goal)?;
        axis.check()?;
        let none: Vec<(String, f64)> = classes.iter().map(|class| (class.clone(), 0.0)).collect();
        Gains::of(self, &none)?;
        let places: Vec<usize> = classes
            .iter()
            .map(|class| self.class(class))
            .collect::<Result<_, _>>()?;
        let combinations = axis.count().powi(places.len() as i32);
        if combinations > MAX_COMBINATIONS as f64 {
            return Err(WhatIfError::TooMany { combinations });
        }
        let endless = places
            .iter()
            .fold(gains.clone(), |all, place| all.with(*place, f64::INFINITY));
        let grid = Grid {
            measured: self,
            places: &places,
            axis,
            goal,
            gains,
        };
        let marks = grid.marks();
        Ok(Frontier {
            classes: places
                .iter()
                .map(|place| self.classes()[*place].to_string())
                .collect(),
            goal_seconds: goal,
            axis,
            points: least(&marks),
            marks,
            limit_seconds: self.best_place(&endless).1,
        })
    }
}

struct Grid<'a> {
    measured: &'a Measured,
    places: &'a [usize],
    axis: Axis,
    goal: f64,
    gains: &'a Gains,
}

impl Grid<'_> {
    /// Every combination that meets the goal, the last class changing fastest.
    ///
    /// Time falls along the last class, so for each case its least gain is found by halving.
    fn marks(&self) -> Vec<Mark> {
        let count = self.axis.count() as usize;
        let Some((last, first)) = self.places.split_last() else {
            return Vec::new();
        };
        let mut marks = Vec::new();
        for row in 0..count.pow(first.len() as u32) {
            let mut gains = self.gains.clone();
            let mut rest = row;
            for place in first.iter().rev() {
                gains = gains.with(*place, self.axis.gain(rest % count));
                rest /= count;
            }
            let starts: Vec<usize> = self
                .measured
                .cases()
                .iter()
                .map(|case| self.start(case, &gains, *last))
                .collect();
            for column in 0..count {
                let Some(case) = starts.iter().position(|start| *start <= column) else {
                    continue;
                };
                let mut named: Vec<f64> = first.iter().map(|place| gains.0[*place]).collect();
                named.push(self.axis.gain(column));
                let cache_rate = self.measured.cases()[case].cache_rate;
                marks.push(Mark {
                    gains: named,
                    cache_rate,
                });
            }
        }
        marks
    }

    /// The first place on the axis of the last class at which the case meets the goal.
    fn start(&self, case: &Case, gains: &Gains, last: usize) -> usize {
        let (mut low, mut high) = (0, self.axis.count() as usize);
        while low < high {
            let middle = low + (high - low) / 2;
            if case.seconds(&gains.with(last, self.axis.gain(middle))) <= self.goal {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

/// The marks of which no other has every gain as small.
fn least(marks: &[Mark]) -> Vec<FrontierPoint> {
    let mut found: Vec<FrontierPoint> = Vec::new();
    // Marks come in rising order of their gains, so what replaces a mark comes before it.
    for mark in marks {
        let replaced = found.iter().any(|point| {
            point
                .gains
                .iter()
                .zip(&mark.gains)
                .all(|(less, gain)| less <= gain)
        });
        if !replaced {
            found.push(mark.clone());
        }
    }
    found
}
