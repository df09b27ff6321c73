//! Where ranks meet: every rank brings some bytes, and goes on when it has those of all.

mod folder;
mod tcp;

use std::time::Instant;

pub use folder::FolderMeeting;
pub use tcp::{Server, TcpMeeting};

use crate::Result;

/// The most bytes that a rank brings to one meeting.
pub const MAX_BYTES: usize = 8 << 20;

/// A meeting place, as one rank sees it.
///
/// # Contract
/// - `gather` returns when all ranks have called it as often, with what each brought, by rank.
/// - It ends: at the deadline, or as soon as it is known that a rank is gone, with an error that
///   names who is missing. Every rank is then told on its next call.
pub trait Meeting: Send {
    /// Brings `bytes` and waits for all.
    ///
    /// # Errors
    /// [`crate::BenchError::Ranks`] names the ranks that did not come.
    fn gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Waits for all.
    ///
    /// # Errors
    /// As [`Meeting::gather`].
    fn barrier(&mut self) -> Result<()> {
        self.gather(&[]).map(|_| ())
    }
}

/// The meeting of a rank that is alone.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Meeting for Alone {
    fn gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(vec![bytes.to_vec()])
    }
}

/// Ranks in words: `rank 3`, `ranks 3, 5 and 2 more`.
pub(crate) fn named(ranks: &[u32]) -> String {
    let shown: Vec<String> = ranks.iter().take(8).map(u32::to_string).collect();
    let more = match ranks.len().saturating_sub(shown.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let ending = if ranks.len() == 1 { "" } else { "s" };
    format!("rank{ending} {}{more}", shown.join(", "))
}

/// What is left until `deadline`, or nothing.
pub(crate) fn left(deadline: Instant) -> std::time::Duration {
    deadline.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests;
