//! One question to the measurements of a setup, and everything that answers it.

use serde::Serialize;

use super::{Axis, Estimate, Frontier, Gains, LeastGain, Measured, Sensitivity, WhatIfError};
use crate::stats::{BootstrapPlan, StatsError};
use crate::tiers::Class;

/// What to ask.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// Gains in throughput by class, in percent.
    pub gains: Vec<(String, f64)>,
    /// Seconds that an epoch's I/O may take.
    pub goal_seconds: Option<f64>,
    /// Classes of which the least gain is wanted; empty with a goal: each class.
    pub least: Vec<String>,
    /// Classes that may gain together; empty: no frontier.
    pub frontier: Vec<String>,
    /// The gains that a frontier tries.
    pub axis: Axis,
    /// How to resample.
    pub plan: BootstrapPlan,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AskError {
    /// The question does not fit the measurements.
    #[error(transparent)]
    WhatIf(#[from] WhatIfError),
    /// The plan for resampling is not sound.
    #[error(transparent)]
    Stats(#[from] StatsError),
    /// A least gain or a frontier is asked for without the goal that it is to reach.
    #[error("a least gain and a frontier need a goal: the seconds that an epoch's I/O may take")]
    NoGoal,
}

/// A class and the least gain in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Least {
    /// The class.
    pub class: String,
    /// Its least gain.
    #[serde(flatten)]
    pub gain: LeastGain,
}

/// What the measurements say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The classes, in the order of every `stack`.
    pub classes: Vec<Class>,
    /// The gains asked about, in percent.
    pub gains: Vec<(String, f64)>,
    /// Every cache rate as measured.
    pub measured: Vec<Estimate>,
    /// Every cache rate with the gains.
    pub improved: Vec<Estimate>,
    /// The best cache rate as measured.
    pub best_measured: Estimate,
    /// The best cache rate with the gains.
    pub best_improved: Estimate,
    /// Change of the best time by the gains, in percent; never above 0.
    pub change_percent: f64,
    /// The goal, in seconds.
    pub goal_seconds: Option<f64>,
    /// Least gains in single classes, where the others have the gains asked about.
    pub least: Vec<Least>,
    /// The frontier of several classes, where the others have the gains asked about.
    pub frontier: Option<Frontier>,
    /// How sure the best rate with the gains is.
    pub sensitivity: Sensitivity,
}

impl Measured {
    /// Answers a question.
    ///
    /// # Errors
    /// [`AskError`] that names what does not fit.
    pub fn ask(&self, question: &Question) -> Result<Answer, AskError> {
        let gains = Gains::of(self, &question.gains)?;
        let none = Gains::none(self);
        let (best_measured, best_improved) = (self.best(&none), self.best(&gains));
        let wants_goal = !question.least.is_empty() || !question.frontier.is_empty();
        let (mut least, mut frontier) = (Vec::new(), None);
        match question.goal_seconds {
            None if wants_goal => return Err(AskError::NoGoal),
            None => {}
            Some(goal) => {
                least = self.least_gains(&question.least, goal, &gains)?;
                if !question.frontier.is_empty() {
                    let found = self.frontier(&question.frontier, goal, question.axis, &gains);
                    frontier = Some(found?);
                }
            }
        }
        Ok(Answer {
            classes: self.classes().to_vec(),
            gains: question.gains.clone(),
            measured: self.estimates(&none),
            improved: self.estimates(&gains),
            change_percent: 100.0 * (best_improved.seconds / best_measured.seconds - 1.0),
            best_measured,
            best_improved,
            goal_seconds: question.goal_seconds,
            least,
            frontier,
            sensitivity: self.sensitivity(&gains, question.goal_seconds, &question.plan)?,
        })
    }

    fn least_gains(
        &self,
        named: &[String],
        goal: f64,
        gains: &Gains,
    ) -> Result<Vec<Least>, WhatIfError> {
        let every: Vec<String> = self.classes().iter().map(Class::to_string).collect();
        let named = if named.is_empty() { &every } else { named };
        let least = |class: &String| {
            let gain = self.least_gain(class, goal, gains)?;
            let class = self.classes()[self.class(class)?].to_string();
            Ok(Least { class, gain })
        };
        named.iter().map(least).collect()
    }
}
