//! Which member owns which region of a data set: a pure function of the index and the members.
//!
//! Each region ranks the members by weighted rendezvous hashing and goes to the first that is not
//! full. A member is full at its share of all regions and a twelfth of that; without the limit the
//! most loaded of 64 would own a fifth more than the mean. When a member joins or leaves, only its
//! own regions move, and the few that were or become too many for one.

use std::num::NonZeroU32;

use thiserror::Error;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::{REGION_BYTES, ShardIndex};

/// Largest number of regions in a data set: 4 PiB.
const MAX_REGIONS: u64 = 1 << 24;
/// Largest number of members.
const MAX_MEMBERS: usize = u16::MAX as usize;
/// A member may own its share of the regions and this part of the share more.
const SLACK: u64 = 12;

/// One node that owns regions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its name: the same on every node, and unlike all others.
    pub name: String,
    /// Its share of the regions, compared with those of the others.
    pub weight: NonZeroU32,
}

impl Member {
    /// A member that owns as much as any other of its kind.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            weight: NonZeroU32::MIN,
        }
    }
}

/// What a list of members hashes to, in whatever order they are named. Nodes with the same list
/// come to the same owners.
pub fn hash_of_members(members: &[Member]) -> u64 {
    let mut members: Vec<&Member> = members.iter().collect();
    members.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let mut bytes = Vec::new();
    for member in members {
        bytes.extend_from_slice(member.name.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&member.weight.get().to_le_bytes());
    }
    xxh3_64(&bytes)
}

/// All members, in the order in which they keep a published name: the first that are there do.
/// Ranked by weighted rendezvous hashing, alike in every process, in whatever order the members
/// are named.
///
/// # Errors
/// [`PlacementError`] where there is nobody, or somebody twice.
pub fn keepers_of_name(name: &str, members: &[Member]) -> Result<Vec<usize>, PlacementError> {
    let seeds = seeds(members)?;
    let key = xxh3_64(name.as_bytes()).to_le_bytes();
    Ok(ranked(&seeds, &key))
}

/// A part of a shard that has one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Region {
    /// Shard in the index.
    pub shard: ShardIndex,
    /// Bytes `[number * REGION_BYTES, (number + 1) * REGION_BYTES)` of it.
    pub number: u32,
}

impl Region {
    /// The region that byte `offset` of a shard is in.
    pub fn at(shard: ShardIndex, offset: u64) -> Self {
        let number = u32::try_from(offset / REGION_BYTES).unwrap_or(u32::MAX);
        Self { shard, number }
    }
}

/// Members or a data set that no placement can be made for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// Nobody to own anything.
    #[error("no members: name at least one")]
    NoMembers,
    /// More members than a placement can tell apart.
    #[error("{0} members are too many: at most {MAX_MEMBERS}")]
    TooManyMembers(usize),
    /// Two members of one name.
    #[error("member `{0}` is named twice")]
    Twice(String),
    /// More regions than a placement can hold.
    #[error("data set of {0} regions is too large to be placed: at most {MAX_REGIONS}")]
    TooLarge(u64),
}

/// The owner of every region of one data set. Equal in every process that makes it from the same
/// index and the same members, in whatever order they are named.
#[derive(Clone, Debug)]
pub struct Placement {
    generation: u128,
    /// In the order of the caller.
    seeds: Vec<Seed>,
    /// For each shard the position of its first region in `owners`; then their number.
    first: Vec<u32>,
    owners: Vec<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Seed {
    hash: u64,
    weight: NonZeroU32,
}

impl Placement {
    /// Places the regions of the data set `generation` with shards of `shard_lens` bytes.
    ///
    /// Takes a few nanoseconds for each region and member.
    ///
    /// # Errors
    /// [`PlacementError`] where there is nobody, somebody twice, or too much of anything.
    pub fn new(
        generation: u128,
        shard_lens: impl IntoIterator<Item = u64>,
        members: &[Member],
    ) -> Result<Self, PlacementError> {
        let mut placement = Self {
            generation,
            seeds: seeds(members)?,
            first: vec![0],
            owners: Vec::new(),
        };
        let mut total: u64 = 0;
        for len in shard_lens {
            total = total.saturating_add(len.div_ceil(REGION_BYTES).max(1));
            if total > MAX_REGIONS {
                return Err(PlacementError::TooLarge(total));
            }
            placement.first.push(total as u32);
        }
        placement.owners = placement.fill(members, total);
        Ok(placement)
    }

    /// Number of regions.
    pub fn regions(&self) -> usize {
        self.owners.len()
    }

    /// The region's owner, by its position among the members; `None` if there is no such region.
    pub fn owner(&self, region: Region) -> Option<usize> {
        let shard = region.shard.0 as usize;
        let end = *self.first.get(shard.checked_add(1)?)?;
        let at = self.first[shard].checked_add(region.number)?;
        (at < end).then(|| usize::from(self.owners[at as usize]))
    }

    /// All members, the owner first and then those that take its place when it fails, in turn.
    /// Empty if there is no such region.
    pub fn order(&self, region: Region) -> Vec<usize> {
        let Some(owner) = self.owner(region) else {
            return Vec::new();
        };
        let mut ranked = ranked(&self.seeds, &self.key(region));
        ranked.retain(|member| *member != owner);
        ranked.insert(0, owner);
        ranked
    }

    fn key(&self, region: Region) -> [u8; 8] {
        let mut bytes = [0; 24];
        bytes[0..16].copy_from_slice(&self.generation.to_le_bytes());
        bytes[16..20].copy_from_slice(&region.shard.0.to_le_bytes());
        bytes[20..24].copy_from_slice(&region.number.to_le_bytes());
        xxh3_64(&bytes).to_le_bytes()
    }

    fn fill(&self, members: &[Member], total: u64) -> Vec<u16> {
        let weights: u64 = members
            .iter()
            .map(|member| u64::from(member.weight.get()))
            .sum();
        let room = |member: &Member| {
            let share = u128::from(total) * u128::from(member.weight.get()) * u128::from(SLACK + 1);
            share.div_ceil(u128::from(weights) * u128::from(SLACK)) as u64
        };
        let mut room: Vec<u64> = members.iter().map(room).collect();
        let mut owners = Vec::with_capacity(total as usize);
        for (shard, ends) in (0..).map(ShardIndex).zip(self.first.windows(2)) {
            for number in 0..ends[1] - ends[0] {
                let key = self.key(Region { shard, number });
                let owner = self.nearest(&key, &room);
                room[owner] -= 1;
                owners.push(owner as u16);
            }
        }
        owners
    }

    /// The first in rank that has room. All room together is at least the number of regions.
    fn nearest(&self, key: &[u8; 8], room: &[u64]) -> usize {
        let with_room = (self.seeds.iter().enumerate()).filter(|(member, _)| room[*member] > 0);
        let nearest = with_room
            .map(|(member, seed)| (seed.distance(key), seed.hash, member))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        nearest.map_or(0, |(_, _, member)| member)
    }
}

fn seeds(members: &[Member]) -> Result<Vec<Seed>, PlacementError> {
    if members.is_empty() {
        return Err(PlacementError::NoMembers);
    }
    if members.len() > MAX_MEMBERS {
        return Err(PlacementError::TooManyMembers(members.len()));
    }
    let mut names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(PlacementError::Twice(twice[0].to_owned()));
    }
    let seed = |member: &Member| Seed {
        hash: xxh3_64(member.name.as_bytes()),
        weight: member.weight,
    };
    Ok(members.iter().map(seed).collect())
}

/// The members by rendezvous hashing, whoever is full.
fn ranked(seeds: &[Seed], key: &[u8; 8]) -> Vec<usize> {
    let mut ranked: Vec<usize> = (0..seeds.len()).collect();
    ranked.sort_by(|a, b| {
        let (a, b) = (&seeds[*a], &seeds[*b]);
        (a.distance(key).total_cmp(&b.distance(key))).then(a.hash.cmp(&b.hash))
    });
    ranked
}

impl Seed {
    /// A draw from the exponential distribution with the weight as its rate: the least of several
    /// falls to each as often as its weight says.
    fn distance(&self, key: &[u8; 8]) -> f64 {
        let draw = xxh3_64_with_seed(key, self.hash);
        minus_ln(draw) / f64::from(self.weight.get())
    }
}

/// `-ln((draw + 1) / 2^64)`, by operations that IEEE 754 defines to the bit. A logarithm of the
/// system's library may differ between nodes in its last bit, and two of them then in the owner.
fn minus_ln(draw: u64) -> f64 {
    let value = u128::from(draw) + 1;
    let exponent = 127 - value.leading_zeros();
    // The leading bits as a number from 1 to 2.
    let leading = (value << (127 - exponent)) >> (127 - 52);
    let mantissa = leading as f64 / (1u64 << 52) as f64;
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let mut sum = 0.0;
    // 2 artanh(s) with s at most 1/3: what is left out is below the last bit.
    for odd in (0..18).rev().map(|term| f64::from(2 * term + 1)) {
        sum = sum * s * s + 1.0 / odd;
    }
    f64::from(64 - exponent) * std::f64::consts::LN_2 - 2.0 * s * sum
}

#[cfg(test)]
mod tests;
