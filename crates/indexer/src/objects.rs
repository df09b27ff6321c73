//! Finds the objects to index: from listings, without a request for each.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_dataset::{ErrorKind, Fingerprint};
use forebay_origin::{Objects, OriginError, StoreUrl};

use crate::error::Result;
use crate::files::{Found, InputFile};
use crate::scan::parallel_on;
use crate::source::InputObject;
use crate::superblock::superblock_of_object;
use crate::{IndexRequest, IndexerError};

/// Requests that one command has in progress: a store takes its time for each, not a processor's.
pub(crate) const REQUESTS: usize = 32;

/// By key; true for an object that the request names.
type Listed = BTreeMap<String, (Fingerprint, bool)>;

/// The root and the objects of a request whose inputs are URLs; `None` if they are paths.
pub(crate) fn find(request: &IndexRequest) -> Result<Option<(PathBuf, Found)>> {
    let urls: Vec<StoreUrl> = request
        .inputs
        .iter()
        .filter_map(|input| input.to_str().filter(|text| StoreUrl::is_url(text)))
        .map(StoreUrl::parse)
        .collect::<std::result::Result<_, _>>()?;
    let Some(first) = urls.first() else {
        return Ok(None);
    };
    if urls.len() < request.inputs.len() || urls.iter().any(|url| !url.same_store(first)) {
        return Err(IndexerError::Request(
            "the inputs lie in different stores, or some in none: index each store separately"
                .to_owned(),
        ));
    }
    let Some(stores) = &request.stores else {
        let url = first.to_string();
        return Err(OriginError::NoStores { url }.into());
    };
    let objects = stores.open(first)?;
    let mut listed = Listed::new();
    for url in &urls {
        list(&*objects, url, request.hidden, &mut listed)?;
    }
    let root = root(request, &urls, &listed)?;
    check_ranges(&*objects, &root, &listed)?;
    let found = inputs(request, &objects, &root, listed)?;
    Ok(Some((root.to_string().into(), found)))
}

/// Adds the object that `url` names, or those below it.
fn list(objects: &dyn Objects, url: &StoreUrl, hidden: bool, listed: &mut Listed) -> Result<()> {
    if !url.is_prefix() {
        match objects.stat(url.key()) {
            Ok(fingerprint) => {
                listed.insert(url.key().to_owned(), (fingerprint, true));
                return Ok(());
            }
            // A prefix, then. Web servers say so by `/` at the end: to ask them costs a method
            // that most do not know.
            Err(error) if error.kind() == ErrorKind::NotFound && !url.scheme().is_web() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut below = Listed::new();
    objects.list(url.key(), &mut |key, fingerprint| {
        let is_hidden = |name: &str| name.split('/').any(|part| part.starts_with('.'));
        let name = url.name_of(key);
        if name.is_some_and(|name| hidden || !is_hidden(name)) {
            below.insert(key.to_owned(), (fingerprint, false));
        }
    })?;
    remove_markers(&mut below);
    if below.is_empty() {
        return Err(IndexerError::Request(format!(
            "there is no object `{url}`, and none below it"
        )));
    }
    for (key, object) in below {
        listed.entry(key).or_insert(object);
    }
    Ok(())
}

/// Some tools make an empty object where others have a folder.
fn remove_markers(listed: &mut Listed) {
    let is_marker = |(key, (fingerprint, _)): &(&String, &(Fingerprint, bool))| {
        let folder = format!("{key}/");
        let from = (Bound::Included(folder.as_str()), Bound::Unbounded);
        let next = listed.range::<str, _>(from).next();
        fingerprint.size == 0 && next.is_some_and(|(next, _)| next.starts_with(&folder))
    };
    let markers: Vec<String> = listed
        .iter()
        .filter(is_marker)
        .map(|(key, _)| key.clone())
        .collect();
    for marker in markers {
        listed.remove(&marker);
    }
}

/// What the request says, else the prefix that holds all inputs.
fn root(request: &IndexRequest, urls: &[StoreUrl], listed: &Listed) -> Result<StoreUrl> {
    if let Some(root) = &request.root {
        let root = StoreUrl::parse(&root.to_string_lossy())?;
        if !root.same_store(&urls[0]) {
            return Err(IndexerError::Request(format!(
                "the root `{root}` is in another store than the inputs"
            )));
        }
        return Ok(root);
    }
    let folder = |url: &'_ StoreUrl| -> String {
        let named = listed.get(url.key()).is_some_and(|(_, named)| *named);
        let folder = url.key().rsplit_once('/').map_or("", |(folder, _)| folder);
        if named { folder } else { url.key() }.to_owned()
    };
    let folders: Vec<String> = urls.iter().map(folder).collect();
    Ok(urls[0].with_key(&common_prefix(&folders)))
}

/// The longest key that is, or is a folder of, each of these.
pub(crate) fn common_prefix(keys: &[impl AsRef<str>]) -> String {
    let mut keys = keys.iter().map(|key| key.as_ref().split('/'));
    let mut common: Vec<&str> = keys.next().map(Iterator::collect).unwrap_or_default();
    for key in keys {
        let same = common.iter().zip(key).take_while(|(a, b)| *a == b);
        common.truncate(same.count());
    }
    common.join("/")
}

/// Finds out at once whether a web server sends parts of files: many do not.
fn check_ranges(objects: &dyn Objects, root: &StoreUrl, listed: &Listed) -> Result<()> {
    let some = listed.iter().find(|(_, (object, _))| object.size > 1);
    if let Some((key, (fingerprint, _))) = some
        && root.scheme().is_web()
    {
        objects.read_at(key, *fingerprint, 1, &mut [0])?;
    }
    Ok(())
}

fn inputs(
    request: &IndexRequest,
    objects: &Arc<dyn Objects>,
    root: &StoreUrl,
    listed: Listed,
) -> Result<Found> {
    let mut files = Vec::with_capacity(listed.len());
    for (key, (fingerprint, named)) in listed {
        let url = root.with_key(&key).to_string();
        let Some(name) = root.name_of(&key) else {
            return Err(IndexerError::Request(format!(
                "`{url}` does not lie below the root `{root}`"
            )));
        };
        let input = InputFile {
            path: url.into(),
            name: name.to_owned(),
            superblock: None,
            swmr: request.swmr,
            decode: request.decode,
            object: Some(InputObject {
                objects: objects.clone(),
                key: key.clone(),
                fingerprint,
            }),
            listed: None,
        };
        files.push((input, named));
    }
    let superblocks = parallel_on(REQUESTS, files.len(), |number| {
        let (input, named) = &files[number];
        superblock_of_object(request, input, *named)
    })?;
    let with = |((mut input, named), superblock): ((InputFile, bool), Option<u64>)| {
        input.superblock = superblock;
        (input, named)
    };
    Ok(files.into_iter().zip(superblocks).map(with).collect())
}

#[cfg(test)]
mod tests;
