//! Buffers for reads.

use std::cell::RefCell;

/// No read that a kernel sends is longer, in bytes.
pub const LONGEST_READ: u32 = 16 << 20;

/// Lends this thread's buffer of `len` bytes, so that a read allocates nothing.
pub fn with_buffer<T>(len: usize, run: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        run(&mut buffer[..len])
    })
}
