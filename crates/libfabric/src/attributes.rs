//! Numbers of libfabric's interface, and their names.

use std::fmt;

use serde::{Serialize, Serializer};

/// A version, of the library, an interface or a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub(crate) u32);

impl Version {
    /// The version of these two numbers.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self((major as u32) << 16 | minor as u32)
    }

    /// The first number.
    pub const fn major(self) -> u32 {
        self.0 >> 16
    }

    /// The second number.
    pub const fn minor(self) -> u32 {
        self.0 & 0xFFFF
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major(), self.minor())
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How an endpoint sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// Connected, reliable messages.
    Message,
    /// Unreliable datagrams.
    Datagram,
    /// Reliable datagrams: one endpoint for all peers.
    ReliableDatagram,
    /// Another, by its number.
    Other(u32),
}

impl Endpoint {
    pub(crate) const RELIABLE_DATAGRAM: u32 = 3;

    pub(crate) fn of(number: u32) -> Self {
        match number {
            1 => Self::Message,
            2 => Self::Datagram,
            Self::RELIABLE_DATAGRAM => Self::ReliableDatagram,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message => f.write_str("MSG"),
            Self::Datagram => f.write_str("DGRAM"),
            Self::ReliableDatagram => f.write_str("RDM"),
            Self::Other(number) => write!(f, "{number}"),
        }
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A set of bits with names.
macro_rules! bits {
    ($(#[$doc:meta])* $set:ident($word:ty) { $($name:ident = $bit:expr),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $set(pub(crate) $word);

        #[allow(dead_code, reason = "each bit has a name; not each is asked for")]
        impl $set {
            $(pub(crate) const $name: $word = 1 << $bit;)+
            const NAMES: &[($word, &str)] = &[$((Self::$name, stringify!($name))),+];

            /// The names of the bits, in libfabric's words; those without a name as one number.
            pub fn names(self) -> Vec<String> {
                let named = Self::NAMES.iter().filter(|(bit, _)| self.0 & bit != 0);
                let mut names: Vec<String> = named.map(|(_, name)| (*name).to_owned()).collect();
                let unnamed = Self::NAMES.iter().fold(self.0, |left, (bit, _)| left & !bit);
                if unnamed != 0 {
                    names.push(format!("{unnamed:#x}"));
                }
                names
            }
        }

        impl Serialize for $set {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.names().serialize(serializer)
            }
        }
    };
}

bits! {
    /// What an endpoint can do.
    Capabilities(u64) {
        MSG = 1, RMA = 2, TAGGED = 3, ATOMIC = 4, MULTICAST = 5, COLLECTIVE = 6,
        READ = 8, WRITE = 9, RECV = 10, SEND = 11, REMOTE_READ = 12, REMOTE_WRITE = 13,
        MULTI_RECV = 16, REMOTE_CQ_DATA = 17, TRIGGER = 20, FENCE = 21,
        AV_USER_ID = 41, PEER = 43, HMEM = 47, VARIABLE_MSG = 48, RMA_PMEM = 49, SOURCE_ERR = 50,
        LOCAL_COMM = 51, REMOTE_COMM = 52, SHARED_AV = 53, RMA_EVENT = 56, SOURCE = 57,
        NAMED_RX_CTX = 58, DIRECTED_RECV = 59,
    }
}

bits! {
    /// What has to be done with memory before a fabric reads or writes it.
    MemoryModes(u32) {
        BASIC = 0, SCALABLE = 1, LOCAL = 2, RAW = 3, VIRT_ADDR = 4, ALLOCATED = 5, PROV_KEY = 6,
        MMU_NOTIFY = 7, RMA_EVENT = 8, ENDPOINT = 9, HMEM = 10, COLLECTIVE = 11,
    }
}

impl Capabilities {
    /// What [`crate::Want::RemoteReads`] asks for.
    pub(crate) const REMOTE_READS: u64 = Self::MSG | Self::RMA | Self::READ | Self::REMOTE_READ;

    /// True if blocks can be read out of the other side's memory, and the other side's out of ours.
    pub fn remote_reads(self) -> bool {
        let has = |bit| self.0 & bit != 0;
        // A set that names no direction has them all.
        let directions = Self::READ | Self::WRITE | Self::REMOTE_READ | Self::REMOTE_WRITE;
        has(Self::RMA) && (!has(directions) || has(Self::READ) && has(Self::REMOTE_READ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_the_names_of_libfabric_and_unknown_ones_are_shown() {
        let set = Capabilities(Capabilities::MSG | Capabilities::RMA | 1 << 63);
        assert_eq!(set.names(), ["MSG", "RMA", "0x8000000000000000"]);
        assert!(Capabilities(0).names().is_empty());
        assert_eq!(MemoryModes(0x44).names(), ["LOCAL", "PROV_KEY"]);
    }

    #[test]
    fn remote_reads_need_both_directions() {
        assert!(Capabilities(Capabilities::REMOTE_READS).remote_reads());
        assert!(Capabilities(Capabilities::RMA).remote_reads());
        let half = Capabilities::RMA | Capabilities::READ | Capabilities::WRITE;
        assert!(!Capabilities(half).remote_reads());
        assert!(!Capabilities(Capabilities::MSG).remote_reads());
    }

    #[test]
    fn versions_are_ordered_and_shown_by_their_two_numbers() {
        assert_eq!(Version(117 << 16).to_string(), "117.0");
        assert!(Version::new(1, 17) > Version::new(1, 9));
    }
}
