//! Every byte that the index leads to is the byte that h5py reads.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

mod common;

use common::Case;

#[test]
fn groups_with_contiguous_data_sets() {
    let case = Case::make("contiguous");
    let summary = case.check(&case.request(&["*/*"]));
    assert_eq!((summary.segments, summary.shards), (1, 1));
    let detected = case.check(&case.request(&[]));
    assert_eq!(detected.rules[0].to_string(), "*/*");
    assert_eq!(detected.generation, summary.generation, "deterministic");
}

#[test]
fn every_type_that_numpy_has() {
    let case = Case::make("dtypes");
    let mut request = case.request(&["s*"]);
    request.fields = vec!["*".to_owned()];
    case.check(&request);
}

#[test]
fn chunks_by_every_index_and_filter() {
    for name in [
        "chunked_earliest",
        "chunked_v108",
        "chunked_v110",
        "chunked_latest",
    ] {
        let case = Case::make(name);
        case.check(&case.request(&["*"]));
    }
}

#[test]
fn filters_that_a_chunk_left_out() {
    let case = Case::make("filter_masks");
    case.check(&case.request(&["*"]));
}

#[test]
fn data_sets_that_were_never_written_read_as_the_fill_value() {
    let case = Case::make("unwritten");
    case.check(&case.request(&["*"]));
}

#[test]
fn compact_data_sets_lie_in_the_header() {
    let case = Case::make("compact");
    case.check(&case.request(&["*"]));
}

#[test]
fn offsets_count_from_before_a_user_block() {
    let case = Case::make("user_block");
    case.check(&case.request(&["*"]));
}

#[test]
fn links_are_followed_and_circles_end() {
    let case = Case::make("links");
    for version in ["new", "old"] {
        let mut request = case.request(&["s/*"]);
        request.inputs = vec![case.files.join(version)];
        case.check(&request);
        std::fs::remove_file(&request.output).unwrap();
        // The only group of this form is one that the path came through.
        request.samples = vec!["ring/*/*".parse().unwrap()];
        let (_, text) = common::refusal(&request);
        assert!(text.contains("no group of"), "{text}");
    }
}

#[test]
fn keys_that_repeat_across_files_get_the_file_in_front() {
    let case = Case::make("many_groups");
    case.check(&case.request(&["*"]));
}

#[test]
fn a_committed_type_is_looked_up() {
    let case = Case::make("committed_type");
    case.check(&case.request(&["s*"]));
}

#[test]
fn rows_are_samples() {
    let case = Case::make("rows");
    case.check(&case.request(&["rows"]));
    let detected = case.check(&case.request(&[]));
    assert_eq!(detected.rules[0].to_string(), "rows");
}

#[test]
fn rows_of_named_data_sets() {
    let case = Case::make("rows_below");
    case.check(&case.request(&["rows:/train/y,train/x"]));
}

#[test]
fn samples_of_two_files_are_joined_by_key() {
    let case = Case::make("sair");
    let rules = ["raw*.h5=*/dcomplex/*", "edge*.h5=*/*"];
    let summary = case.check(&case.request(&rules));
    assert_eq!(summary.segments, 4);
    let names: Vec<_> = summary.fields.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["coord", "feat", "edge_attr", "edge_index"]);
}

#[test]
fn each_file_is_a_sample() {
    let case = Case::make("whole_files");
    case.check(&case.request(&["/"]));
}

#[test]
fn incomplete_samples_are_refused_or_left_out() {
    let case = Case::make("uneven");
    let mut request = case.request(&["*"]);
    let (error, text) = common::refusal(&request);
    assert_eq!(error.kind().code(), "invalid-input");
    for part in ["`0`", "`2`", "a.h5", "`y` (<f4)", "--skip-incomplete"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    request.skip_incomplete = true;
    let summary = case.check(&request);
    assert_eq!(summary.skipped, 2);
}

#[test]
fn every_compression_that_plugins_write() {
    let case = Case::make("plugins");
    case.check(&case.request(&["*"]));
}

#[test]
fn filters_that_hdf5_itself_has() {
    for name in ["scale_offset", "n_bit", "szip"] {
        let case = Case::make(name);
        case.check(&case.request(&["*"]));
    }
}

#[test]
fn each_member_of_a_compound_is_a_field() {
    let case = Case::make("compounds");
    let mut request = case.request(&["*"]);
    let all = case.check(&request).fields;
    request.fields = vec!["contiguous/at/x".to_owned(), "sparse".to_owned()];
    let some = forebay_indexer::index(&request, &()).unwrap().fields;
    let names: Vec<_> = some.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["contiguous/at/x", "sparse/a", "sparse/b"]);
    assert!(some.iter().all(|field| all.contains(field)));
}

#[test]
fn text_padded_with_spaces_is_read_without_them() {
    for (name, rule) in [("space_padded", "s*"), ("space_padded_rows", "rows")] {
        let case = Case::make(name);
        case.check(&case.request(&[rule]));
    }
}

#[test]
fn rows_of_compounds() {
    let case = Case::make("compound_rows");
    case.check(&case.request(&["rows"]));
}

#[test]
fn enumerations_bits_complex_numbers_and_arrays() {
    let case = Case::make("more_types");
    case.check(&case.request(&["s*"]));
}

#[test]
fn layouts_from_before_hdf5_1_6_3() {
    let case = Case::make("old_layouts");
    case.check(&case.request(&["s*"]));
}

#[test]
fn a_file_that_others_may_read_is_indexed_as_it_stands_if_asked_to() {
    let case = Case::make("swmr");
    let mut request = case.request(&["s*"]);
    let (error, text) = common::refusal(&request);
    assert_eq!(error.kind().code(), "unsupported", "{text}");
    for part in ["a.h5", "open for writing", "--swmr"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    request.swmr = true;
    case.check(&request);
}
