//! Classes of traffic, as libfabric names them.

use std::fmt;

/// The class in which a provider is asked to send. Whether it does it does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficClass {
    /// A class by its meaning.
    Label(Label),
    /// Differentiated services code point, 0 to 63.
    Dscp(u8),
}

/// What traffic is, by libfabric's labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Nothing in particular.
    BestEffort,
    /// Little that must be fast.
    LowLatency,
    /// A share of its own.
    DedicatedAccess,
    /// Much that may wait.
    BulkData,
    /// Whatever is left over.
    Scavenger,
    /// What the network itself needs.
    NetworkControl,
}

impl Label {
    /// All labels, with their names.
    pub const ALL: [(Self, &str); 6] = [
        (Self::BestEffort, "best-effort"),
        (Self::LowLatency, "low-latency"),
        (Self::DedicatedAccess, "dedicated-access"),
        (Self::BulkData, "bulk-data"),
        (Self::Scavenger, "scavenger"),
        (Self::NetworkControl, "network-control"),
    ];

    /// The label of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        let named = Self::ALL.iter().find(|(_, each)| *each == name);
        named.map(|(label, _)| *label)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(label, _)| *label == self);
        named.map_or("", |(_, name)| name)
    }
}

impl TrafficClass {
    /// What a code point is to a provider: itself, or for one that takes labels only the label of
    /// bulk data, and of the code points for less than best effort (LE and CS1) that of a scavenger.
    pub fn of_dscp(dscp: u8, provider: &str) -> Self {
        match (provider, dscp) {
            ("cxi", 1 | 8) => Self::Label(Label::Scavenger),
            ("cxi", _) => Self::Label(Label::BulkData),
            _ => Self::Dscp(dscp),
        }
    }

    /// Its number in libfabric's interface.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Label(Label::BestEffort) => 0x200,
            Self::Label(Label::LowLatency) => 0x201,
            Self::Label(Label::DedicatedAccess) => 0x202,
            Self::Label(Label::BulkData) => 0x203,
            Self::Label(Label::Scavenger) => 0x204,
            Self::Label(Label::NetworkControl) => 0x205,
            Self::Dscp(dscp) => 0x100 | u32::from(dscp),
        }
    }

    /// The class of a number of libfabric's interface; `None` for none.
    pub(crate) fn of_number(number: u32) -> Option<Self> {
        let labels = Label::ALL.iter().map(|(label, _)| Self::Label(*label));
        let mut known = labels.chain((0..64).map(Self::Dscp));
        known.find(|class| class.number() == number)
    }
}

impl fmt::Display for TrafficClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(label) => f.write_str(label.name()),
            Self::Dscp(dscp) => write!(f, "dscp {dscp}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_names_and_numbers_that_lead_back() {
        for (label, name) in Label::ALL {
            assert_eq!(Label::of_name(name), Some(label));
            let class = TrafficClass::Label(label);
            assert_eq!(class.to_string(), name);
            assert_eq!(TrafficClass::of_number(class.number()), Some(class));
        }
        let class = TrafficClass::Dscp(10);
        assert_eq!(
            (class.number(), class.to_string().as_str()),
            (0x10A, "dscp 10")
        );
        assert_eq!(TrafficClass::of_number(0), None, "none was asked for");
        assert_eq!(Label::of_name("bulk"), None);
    }

    #[test]
    fn a_provider_that_takes_labels_only_gets_one() {
        let of = |dscp, provider| TrafficClass::of_dscp(dscp, provider).to_string();
        assert_eq!(of(10, "cxi"), "bulk-data");
        assert_eq!(of(8, "cxi"), "scavenger");
        assert_eq!(of(10, "tcp"), "dscp 10");
    }
}
