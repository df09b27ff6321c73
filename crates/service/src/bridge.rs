//! Ranges that lie near each other are read in one go, where each request costs more than the
//! bytes between them.

use forebay_dataset::index::Index;
use forebay_dataset::{ByteRange, ShardIndex};

/// The ranges in order, those of one segment joined where at most `gap` bytes lie between them.
/// Ranges of two segments stay apart: each segment is a request of its own.
pub(crate) fn bridged<B: AsRef<[u8]>>(
    index: &Index<B>,
    mut ranges: Vec<(ShardIndex, ByteRange)>,
    gap: u64,
) -> Vec<(ShardIndex, ByteRange)> {
    if gap == 0 {
        return ranges;
    }
    ranges.sort_unstable_by_key(|(shard, range)| (*shard, range.start()));
    let mut joined: Vec<(ShardIndex, ByteRange)> = Vec::with_capacity(ranges.len());
    for (shard, range) in ranges {
        if let Some((last_shard, last)) = joined.last_mut()
            && *last_shard == shard
            && range.start() <= last.end().saturating_add(gap)
            && same_segment(index, shard, last.start(), range.start())
            && let end = last.end().max(range.end())
            && let Ok(both) = ByteRange::new(last.start(), end - last.start())
        {
            *last = both;
            continue;
        }
        joined.push((shard, range));
    }
    joined
}

fn same_segment<B: AsRef<[u8]>>(index: &Index<B>, shard: ShardIndex, a: u64, b: u64) -> bool {
    let segment = |at| index.segment_at(shard, at).ok().flatten();
    segment(a).is_some() && segment(a) == segment(b)
}

#[cfg(test)]
mod tests {
    use forebay_dataset::index::{FieldSpec, IndexBuilder};
    use forebay_dataset::{BlockSize, Fingerprint};

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Two objects of a MiB in one shard.
    fn index() -> Index<Vec<u8>> {
        let field = FieldSpec {
            name: "x".to_owned(),
            dtype: "|u1".parse().unwrap(),
        };
        let mut builder = IndexBuilder::new("s3://b", vec![field], BlockSize::DEFAULT).unwrap();
        for path in ["a", "b"] {
            let object = Fingerprint::of_object(MIB, Some(path), None).unwrap();
            builder.add_segment(path, object).unwrap();
        }
        let mut bytes = Vec::new();
        builder.write(&mut bytes).unwrap();
        Index::parse(bytes).unwrap()
    }

    fn joined(ranges: &[(u64, u64)], gap: u64) -> Vec<(u64, u64)> {
        let range = |(start, end): &(u64, u64)| {
            (ShardIndex(0), ByteRange::new(*start, end - start).unwrap())
        };
        let ranges = ranges.iter().map(range).collect();
        let joined = bridged(&index(), ranges, gap);
        joined
            .iter()
            .map(|(_, range)| (range.start(), range.end()))
            .collect()
    }

    #[test]
    fn near_ranges_of_one_object_are_one() {
        assert_eq!(joined(&[(200, 300), (0, 100)], 100), [(0, 300)]);
        assert_eq!(joined(&[(0, 100), (201, 300)], 100), [(0, 100), (201, 300)]);
        assert_eq!(joined(&[(0, 500), (100, 200), (500, 600)], 1), [(0, 600)]);
        let ends = [(MIB - 10, MIB), (MIB, MIB + 10)];
        assert_eq!(joined(&ends, 100), ends, "two objects are two requests");
    }

    #[test]
    fn files_are_left_as_they_are() {
        let ranges = [(200, 300), (0, 100)];
        assert_eq!(joined(&ranges, 0), ranges);
    }
}
