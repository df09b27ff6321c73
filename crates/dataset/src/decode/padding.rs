//! Text that is filled up with spaces, as text that is filled up with zeros.

/// Puts zeros for the spaces at the end of each element of `element_size` bytes.
pub fn spaces_to_zeros(elements: &mut [u8], element_size: u16) {
    for element in elements.chunks_mut(usize::from(element_size).max(1)) {
        let end = element.iter().rposition(|byte| *byte != b' ');
        element[end.map_or(0, |last| last + 1)..].fill(0);
    }
}
