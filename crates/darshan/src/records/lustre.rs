//! LUSTRE: how files are striped over object storage targets (OSTs).

use serde::Serialize;

use super::Step;
use crate::bytes::{Bytes, text};

/// Names of the counters, in the order of [`Component::counters`].
pub const COUNTERS: [&str; 7] = [
    "LUSTRE_COMP_STRIPE_SIZE",
    "LUSTRE_COMP_STRIPE_COUNT",
    "LUSTRE_COMP_STRIPE_PATTERN",
    "LUSTRE_COMP_FLAGS",
    "LUSTRE_COMP_EXT_START",
    "LUSTRE_COMP_EXT_END",
    "LUSTRE_COMP_MIRROR_ID",
];

/// Layout of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LustreRecord {
    /// Stands for the file's name.
    pub id: u64,
    /// The rank.
    pub rank: i64,
    /// The parts of a composite layout; one where the layout is plain.
    pub components: Vec<Component>,
}

/// One part of a layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Component {
    /// Counters, named by [`COUNTERS`].
    #[serde(skip)]
    pub counters: [i64; 7],
    /// The pool that the targets belong to; empty for none.
    pub pool: String,
    /// Targets of the stripes.
    pub osts: Vec<i64>,
}

const POOL_BYTES: usize = 16;

/// A reader of records of a version; `None` for a version that is not known.
pub(crate) fn reader(
    version: u32,
) -> Option<impl Fn(&mut Bytes<'_>) -> Option<Step<LustreRecord>>> {
    let one = match version {
        1 => plain,
        2 => composite,
        _ => return None,
    };
    Some(move |bytes: &mut Bytes<'_>| {
        let (id, rank) = (bytes.u64()?, bytes.i64()?);
        let components = one(bytes)?;
        Some(Step::Record(LustreRecord {
            id,
            rank,
            components,
        }))
    })
}

/// Version 1: numbers of targets and of metadata servers, stripe offset, size and count, targets.
fn plain(bytes: &mut Bytes<'_>) -> Option<Vec<Component>> {
    bytes.i64s(3)?;
    let (size, count) = (bytes.i64()?, bytes.i64()?);
    // There is room for one target even where there is none.
    let osts = bytes.i64s(usize::try_from(count.max(1)).ok()?)?;
    let stripes = usize::try_from(count).unwrap_or(0);
    Some(vec![Component {
        counters: [size, count, -1, -1, 0, -1, -1],
        pool: String::new(),
        osts: osts[..stripes].to_vec(),
    }])
}

/// Version 2: as many components and targets as there was room for. Those that were not used have
/// a size of -1.
fn composite(bytes: &mut Bytes<'_>) -> Option<Vec<Component>> {
    const COMPONENT_BYTES: usize = 8 * COUNTERS.len() + POOL_BYTES;
    let count = usize::try_from(bytes.i64()?).ok()?;
    let stripes = usize::try_from(bytes.i64()?).ok()?;
    if count.checked_mul(COMPONENT_BYTES)? > bytes.len() {
        return None;
    }
    let mut components = Vec::with_capacity(count);
    for _ in 0..count {
        components.push(Component {
            counters: bytes.i64s(COUNTERS.len())?.try_into().ok()?,
            pool: text(bytes.take(POOL_BYTES)?),
            osts: Vec::new(),
        });
    }
    let all = bytes.i64s(stripes)?;
    let used = components.iter().position(|one| one.counters[0] == -1);
    components.truncate(used.unwrap_or(count));
    let mut rest = all.as_slice();
    for component in &mut components {
        let stripes = usize::try_from(component.counters[1]).unwrap_or(0);
        let (own, others) = rest.split_at(stripes.min(rest.len()));
        component.osts = own.to_vec();
        rest = others;
    }
    Some(components)
}
