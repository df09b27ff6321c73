//! Indexes put together from others: as if they had been built at once.

use std::io::Cursor;

use proptest::prelude::*;

use super::model::{build, case};
use super::*;
use crate::IndexError;

/// Samples by (part, sample) each, with keys if any.
struct Listed {
    picks: Vec<Vec<Pick>>,
    keys: Option<Vec<String>>,
}

impl Picks for Listed {
    fn len(&self) -> u64 {
        self.picks.len() as u64
    }

    fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    fn picks(&self, sample: u64, out: &mut Vec<Pick>) {
        out.extend(&self.picks[sample as usize]);
    }

    fn key(&self, sample: u64, out: &mut String) -> Result<(), IndexError> {
        out.push_str(&self.keys.as_ref().unwrap()[sample as usize]);
        Ok(())
    }
}

fn picks(list: &[&[(u32, u64)]], keys: &[&str]) -> Listed {
    let one = |picks: &&[(u32, u64)]| {
        let pick = |(part, sample): &(u32, u64)| Pick {
            part: *part,
            sample: *sample,
        };
        picks.iter().map(pick).collect()
    };
    Listed {
        picks: list.iter().map(one).collect(),
        keys: (!keys.is_empty()).then(|| keys.iter().map(|key| (*key).to_owned()).collect()),
    }
}

fn composed(
    root: &str,
    fields: &[FieldSpec],
    parts: &[(Vec<u8>, &str)],
    picks: &Listed,
) -> Result<Vec<u8>, String> {
    let indexes: Vec<_> = parts
        .iter()
        .map(|(bytes, _)| Index::parse(&bytes[..]).unwrap())
        .collect();
    let parts: Vec<_> = indexes
        .iter()
        .zip(parts)
        .map(|(index, (_, prefix))| Part { index, prefix })
        .collect();
    let mut out = Cursor::new(Vec::new());
    compose(root, fields, &parts, picks, &mut out).map_err(|error| error.to_string())?;
    Ok(out.into_inner())
}

proptest! {
    /// Cut in two at any place and put together again: the same bytes.
    #[test]
    fn parts_of_an_index_make_the_same_index(mut case in case(), cut in any::<prop::sample::Index>()) {
        case.4 &= cut.index(2) == 0;
        let (whole, input, _) = build(&case, 0);
        let cut = match case.4 {
            true => case.1.len(),
            false => cut.index(case.1.len() + 1),
        };
        let mut halves = [case.clone(), case.clone()];
        halves[0].1.truncate(cut);
        halves[1].1.drain(..cut);
        let samples: Vec<[(u32, u64); 1]> = (0..case.1.len())
            .map(|n| if n < cut { [(0, n as u64)] } else { [(1, (n - cut) as u64)] })
            .collect();
        let list: Vec<&[(u32, u64)]> = samples.iter().map(|pick| &pick[..]).collect();
        let keys: Vec<String> = (0..list.len()).map(|n| format!("kéy/{n}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let picks = picks(&list, if case.3 { &keys } else { &[] });
        let mut parts = vec![(build(&halves[0], 0).0, "")];
        if !case.4 {
            parts.push((build(&halves[1], cut).0, ""));
        }
        let out = composed("relative/root", &input.fields, &parts, &picks).unwrap();
        let keyed = Index::parse(&out[..]).unwrap().has_keys();
        // A builder cannot know of keys before its first sample.
        prop_assert!(out == whole || keyed && case.1.is_empty());
    }
}

#[test]
fn samples_are_joined_and_their_files_named_from_above() {
    let parts = [(bytes_of(small()), "raw/"), (bytes_of(valued()), "")];
    let mut fields = vec![field("x", "<f4"), field("y", "|u1")];
    let more = [field("x2", "<f4"), field("y2", "<i8"), field("name", "|S3")];
    let joined = picks(&[&[(0, 1), (1, 0)], &[(0, 0), (1, 1)]], &["b", "a"]);
    let refused = composed("/data", &fields, &parts, &joined).unwrap_err();
    assert!(refused.contains("`x` (<f4)"), "{refused}");
    fields.extend(more);
    let refused = composed("/data", &fields, &parts, &joined).unwrap_err();
    assert!(
        refused.contains("that of others is `x2` (<f4)"),
        "{refused}"
    );

    let fields = [field("x", "<f4"), field("y", "|u1")];
    let only = picks(&[&[(0, 1)], &[(0, 0)]], &["b", "a"]);
    let out = composed("/data", &fields, &parts, &only).unwrap();
    let index = Index::parse(&out[..]).unwrap();
    index.verify().unwrap();
    assert_eq!(index.find("a"), Ok(Some(1)));
    assert_eq!(index.segment(SegmentIndex(1)).unwrap().path, "raw/sub/b.h5");
}

#[test]
fn a_file_of_two_parts_is_one_segment_and_has_to_be_the_same() {
    let part = |size| {
        let mut builder =
            IndexBuilder::new("/d", vec![field("x", "|u1")], BlockSize::DEFAULT).unwrap();
        let segment = builder.add_segment("a", fingerprint(size)).unwrap();
        let extent = FieldExtent {
            segment,
            shape: vec![size],
            storage: Storage::Contiguous { offset: 0 },
        };
        builder.add_sample(None, &[extent], None).unwrap();
        (bytes_of(builder), "")
    };
    let both = picks(&[&[(0, 0)], &[(1, 0)]], &[]);
    let out = composed("/d", &[field("x", "|u1")], &[part(9), part(9)], &both).unwrap();
    let index = Index::parse(&out[..]).unwrap();
    index.verify().unwrap();
    assert_eq!((index.segment_count(), index.len()), (1, 2));
    let refused = composed("/d", &[field("x", "|u1")], &[part(9), part(8)], &both).unwrap_err();
    assert!(
        refused.contains("file `a`") && refused.contains("written to"),
        "{refused}"
    );
}

#[test]
fn a_key_that_is_there_twice_is_refused() {
    let parts = [(bytes_of(small()), "")];
    let fields = [field("x", "<f4"), field("y", "|u1")];
    let twice = picks(&[&[(0, 0)], &[(0, 1)]], &["k", "k"]);
    let refused = composed("/d", &fields, &parts, &twice).unwrap_err();
    assert!(refused.contains("key `k`"), "{refused}");
}
