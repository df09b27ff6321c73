//! Addresses of endpoints, as their providers write them.

/// Kinds that are a `sockaddr`: of either family, of IPv4, of IPv6.
const SOCKADDR: u32 = 1;
const SOCKADDR_IN: u32 = 2;
const SOCKADDR_IN6: u32 = 3;
/// Linux's numbers of the families, and the lengths of their structures.
const IPV4: (u16, usize) = (2, 16);
const IPV6: (u16, usize) = (10, 28);

/// Where an endpoint is reached. Its length is the provider's affair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Its kind: libfabric's `addr_format`.
    pub format: u32,
    /// Its bytes, at most [`Self::MOST`].
    pub bytes: Vec<u8>,
}

impl Address {
    /// Most bytes of one.
    pub const MOST: usize = 512;

    /// True if the provider of this kind takes host names and addresses of IP.
    pub(crate) fn is_ip(format: u32) -> bool {
        matches!(format, SOCKADDR | SOCKADDR_IN | SOCKADDR_IN6)
    }

    /// False for what no provider can have written: it would read past the end of it, or take it for
    /// something else.
    pub(crate) fn is_sound(&self) -> bool {
        let len = self.bytes.len();
        let family = self
            .bytes
            .first_chunk()
            .map(|bytes| u16::from_ne_bytes(*bytes));
        let is = |(known, bytes)| family == Some(known) && len == bytes;
        match self.format {
            SOCKADDR => is(IPV4) || is(IPV6),
            SOCKADDR_IN => is(IPV4),
            SOCKADDR_IN6 => is(IPV6),
            _ => (1..=Self::MOST).contains(&len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_provider_can_have_written_is_no_address() {
        let is_sound = |format, family: u16, len: usize| {
            let mut bytes = vec![0; len];
            let family = family.to_ne_bytes();
            bytes
                .iter_mut()
                .zip(family)
                .for_each(|(byte, of)| *byte = of);
            Address { format, bytes }.is_sound()
        };
        assert!(is_sound(SOCKADDR_IN, 2, 16) && is_sound(SOCKADDR_IN6, 10, 28));
        assert!(is_sound(SOCKADDR, 2, 16) && is_sound(SOCKADDR, 10, 28));
        assert!(
            !is_sound(SOCKADDR_IN, 2, 15),
            "it would be read past its end"
        );
        assert!(!is_sound(SOCKADDR_IN, 10, 16) && !is_sound(SOCKADDR, 10, 16));
        assert!(is_sound(11, 0, 8), "another provider's own affair");
        assert!(!is_sound(11, 0, 0) && !is_sound(11, 0, Address::MOST + 1));
    }
}
