//! Finds out what a sample is, from a look at part of a file.

use std::fmt::Write;

use crate::error::Result;
use crate::files::InputFile;
use crate::h5::{H5File, Link, Object, ObjectKind, Target};
use crate::pattern::Pattern;
use crate::{IndexerError, scan};

/// Levels of groups that are looked at.
const LEVELS: usize = 8;
/// Groups of one level that are looked at, and members of one group.
const WIDTH: usize = 64;

/// A group, and where it is.
struct Place {
    path: Vec<String>,
    object: Object,
}

/// The data sets and groups in a group.
struct Members {
    datasets: Vec<String>,
    groups: Vec<Place>,
}

/// What a sample is in `input`: the groups of the first level on which all groups that were
/// looked at hold data sets of the same names; else the rows of the data sets in the root group.
/// The walk that follows finds out whether it holds for the whole file.
pub(crate) fn detect(input: &InputFile) -> Result<Pattern> {
    let found = scan::with_file(input, |file, _| {
        let within = |error| IndexerError::h5(&input.path, "")(error);
        let root = Place {
            path: Vec::new(),
            object: file.object(file.root()).map_err(within)?,
        };
        let mut seen = vec![root.object.identity()];
        let first = members(file, &root, &mut seen).map_err(within)?;
        let root_datasets = first.datasets;
        let mut level = first.groups;
        let mut tried = Vec::new();
        for _ in 0..LEVELS {
            level.truncate(WIDTH);
            let mut below = Vec::new();
            let mut names: Vec<Vec<String>> = Vec::new();
            for place in &level {
                let members = members(file, place, &mut seen).map_err(within)?;
                names.push(members.datasets);
                below.extend(members.groups);
            }
            let even = names.windows(2).all(|pair| pair[0] == pair[1]);
            if even && names.first().is_some_and(|names| !names.is_empty()) {
                return Ok(Pattern::Groups(form(&level)));
            }
            tried.extend(level.into_iter().zip(names));
            level = below;
        }
        if !root_datasets.is_empty() && equally_long(file, &root).map_err(within)? {
            return Ok(Pattern::Rows(Vec::new()));
        }
        Err(unclear(input, &root_datasets, &tried))
    });
    Ok(found?.0)
}

/// Names some groups of a file, for a message about a pattern that none of them has.
pub(crate) fn outline(file: &H5File) -> crate::h5::H5Result<String> {
    const NAMED: usize = 6;
    const DEPTH: usize = 3;
    let root = Place {
        path: Vec::new(),
        object: file.object(file.root())?,
    };
    let mut seen = vec![root.object.identity()];
    let mut level = vec![root];
    let mut named = Vec::new();
    for _ in 0..DEPTH {
        let mut below = Vec::new();
        for place in level.iter().take(NAMED) {
            below.extend(members(file, place, &mut seen)?.groups);
        }
        // Of each level some, so that the form of what lies deep is seen too.
        let paths = below.iter().take(NAMED / DEPTH);
        named.extend(paths.map(|place| format!("`{}`", place.path.join("/"))));
        level = below;
    }
    Ok(if named.is_empty() {
        "it has no groups; `--sample /` makes the file a sample, `--sample rows` each row"
            .to_owned()
    } else {
        format!("it has groups such as {}", named.join(", "))
    })
}

fn members(
    file: &H5File,
    place: &Place,
    seen: &mut Vec<(u32, u64)>,
) -> crate::h5::H5Result<Members> {
    let mut found = Members {
        datasets: Vec::new(),
        groups: Vec::new(),
    };
    for Link { name, target } in file.links(&place.object)?.into_iter().take(WIDTH) {
        // What a link to another file leads to, the walk that follows finds out.
        if matches!(target, Target::External { .. }) {
            continue;
        }
        let Some(object) = file.follow(&place.object, &target)? else {
            continue;
        };
        match object.kind {
            ObjectKind::Dataset => found.datasets.push(name),
            ObjectKind::Group if !seen.contains(&object.identity()) => {
                seen.push(object.identity());
                let mut path = place.path.clone();
                path.push(name);
                found.groups.push(Place { path, object });
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The pattern of the groups' paths. A name stays where several groups have it as the only
/// member on its level, as `dcomplex` in `1abc/dcomplex/0`, `2xyz/dcomplex/0`.
fn form(places: &[Place]) -> Vec<String> {
    let depth = places[0].path.len();
    let part = |level: usize| {
        let name = &places[0].path[level];
        let mut parents: Vec<_> = places.iter().map(|place| &place.path[..level]).collect();
        parents.dedup();
        let same = places.iter().all(|place| place.path[level] == *name);
        if same && parents.len() > 1 {
            name.clone()
        } else {
            "*".to_owned()
        }
    };
    (0..depth).map(part).collect()
}

fn equally_long(file: &H5File, root: &Place) -> crate::h5::H5Result<bool> {
    let mut rows = None;
    for link in file.links(&root.object)? {
        if matches!(link.target, Target::External { .. }) {
            continue;
        }
        let Some(object) = file.follow(&root.object, &link.target)? else {
            continue;
        };
        if object.kind != ObjectKind::Dataset {
            continue;
        }
        // What cannot be indexed is named by the walk that follows.
        let Ok(arrays) = file.arrays(&object, true, |_| true) else {
            continue;
        };
        for (_, array) in arrays {
            let first = array.dims.first().copied();
            if first.is_none() || *rows.get_or_insert(first) != first {
                return Ok(false);
            }
        }
    }
    Ok(rows.is_some())
}

fn unclear(input: &InputFile, root: &[String], tried: &[(Place, Vec<String>)]) -> IndexerError {
    let mut text = format!(
        "cannot tell what a sample is in `{}`: name it with `--sample`",
        input.path.display()
    );
    if let Some((place, names)) = tried.iter().find(|(_, names)| !names.is_empty()) {
        let stars = vec!["*"; place.path.len()].join("/");
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "; `--sample '{stars}'` takes every group like `{}`, which holds `{}`",
            place.path.join("/"),
            names[0]
        );
    }
    if let Some(name) = root.first() {
        let _ = write!(
            text,
            "; `--sample 'rows:/{name}'` takes each row of `/{name}`"
        );
    }
    if tried.is_empty() && root.is_empty() {
        text.push_str("; it holds no data set");
    }
    IndexerError::Request(text)
}
