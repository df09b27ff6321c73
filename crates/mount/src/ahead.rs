//! How far ahead of a read its file is staged. Pure.

/// Most bytes that a read that is not resident stages, its own included.
const MOST: u64 = 8 << 20;

/// What a file's last read that had to wait staged. A reader that goes on where it ended reads in
/// order, and each time twice as much is staged, so that few of its reads wait.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    end: u64,
    window: u64,
}

impl Ahead {
    /// Bytes to stage from `offset` on for a read of `len` bytes there.
    pub(crate) fn window(&mut self, offset: u64, len: u64) -> u64 {
        let in_order = offset == self.end && offset > 0;
        let twice = self.window.max(len).saturating_mul(2).min(MOST);
        self.window = if in_order { twice.max(len) } else { len };
        self.end = offset.saturating_add(self.window);
        self.window
    }

    /// There was no room for it: the next read stages what it needs and no more.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_in_order_is_staged_further_and_further_ahead() {
        let mut ahead = Ahead::default();
        let (len, mut offset, mut windows) = (128 << 10, 0, Vec::new());
        for _ in 0..9 {
            windows.push(ahead.window(offset, len) >> 10);
            offset += windows.last().unwrap() << 10;
        }
        assert_eq!(windows, [128, 256, 512, 1024, 2048, 4096, 8192, 8192, 8192]);
        assert_eq!(ahead.window(0, 100), 100, "from the start again");
        assert_eq!(ahead.window(5000, 100), 100, "somewhere else");
        assert_eq!(ahead.window(5100, MOST * 2), MOST * 2, "never less");
        ahead.forget();
        assert_eq!(ahead.window(5100 + MOST * 2, 100), 100);
    }
}
