//! Telling a forked child from its parent at the price of one atomic load.

/// A number that changes in a child of `fork`. Whatever holds locks, sockets or file locks keeps
/// the number with which it was made and is not used under another.
pub fn fork_generation() -> u64 {
    crate::sys::forks()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_the_same_without_a_fork() {
        assert_eq!(fork_generation(), fork_generation());
    }
}
