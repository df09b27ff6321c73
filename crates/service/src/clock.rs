//! What time it is: the system's, or that of a simulation.

use std::time::Instant;

/// A clock that never goes back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    #[cfg(test)]
    simulated: Option<std::sync::Arc<std::sync::Mutex<Instant>>>,
}

impl Clock {
    /// Now.
    pub(crate) fn now(&self) -> Instant {
        #[cfg(test)]
        if let Some(simulated) = &self.simulated {
            return *simulated.lock().unwrap();
        }
        Instant::now()
    }

    /// One that stands still until it is set.
    #[cfg(test)]
    pub(crate) fn simulated(now: Instant) -> Self {
        let simulated = Some(std::sync::Arc::new(std::sync::Mutex::new(now)));
        Self { simulated }
    }

    #[cfg(test)]
    pub(crate) fn set(&self, now: Instant) {
        if let Some(simulated) = &self.simulated {
            *simulated.lock().unwrap() = now;
        }
    }
}
