//! Links of groups, old style (symbol tables) and new (link messages, dense storage).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use hdf5_reader::btree_v1::collect_btree_v1_leaves_storage;
use hdf5_reader::btree_v2::{BTreeV2Header, BTreeV2Record, collect_btree_v2_records_storage};
use hdf5_reader::fractal_heap::{FractalHeap, FractalHeapDirectBlockCache};
use hdf5_reader::io::Cursor;
use hdf5_reader::local_heap::LocalHeap;
use hdf5_reader::messages::link::{self, LinkTarget};
use hdf5_reader::messages::link_info;
use hdf5_reader::storage::Storage;
use hdf5_reader::symbol_table::SymbolTableNode;

use super::cursor::{Fields, address};
use super::header::{Header, kind};
use super::{H5Error, H5File, H5Result, Object, ObjectKind, damaged};

/// Soft links that lead to soft links; more is a circle.
const MAX_SOFT_DEPTH: u32 = 16;
/// Listings that are kept for the look-up of soft links.
const KEPT_LISTINGS: usize = 64;

/// A name in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) target: Target,
}

/// What a name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The object at this address.
    Hard(u64),
    /// A path in the same file.
    Soft(String),
    /// A path in another file.
    External { file: String, path: String },
}

/// An address in a file.
#[derive(Clone)]
struct Spot {
    /// `None`: the file that was asked.
    file: Option<Arc<H5File>>,
    address: u64,
}

/// The groups that soft links were last looked up in.
#[derive(Default)]
pub(super) struct Listings(Mutex<VecDeque<(u64, Arc<[Link]>)>>);

impl H5File {
    /// The links of a group, sorted by the bytes of their names.
    pub(crate) fn links(&self, group: &Object) -> H5Result<Vec<Link>> {
        self.of(group).own_links(group)
    }

    fn own_links(&self, group: &Object) -> H5Result<Vec<Link>> {
        let mut found = match group.header.find(kind::SYMBOL_TABLE) {
            Some(message) => self.symbol_table(group.header.body(message))?,
            None => self.link_messages(&group.header)?,
        };
        found.sort_unstable_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        if let Some(pair) = found.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return damaged(format!("a group holds `{}` twice", pair[0].name));
        }
        Ok(found)
    }

    fn symbol_table(&self, body: &[u8]) -> H5Result<Vec<Link>> {
        let mut fields = Fields::new(body, "symbol table");
        let tree = fields.uint(self.offset_size)?;
        let heap_address = fields.uint(self.offset_size)?;
        let (offset, length) = (self.offset_size, self.length_size);
        let heap = LocalHeap::parse_at_storage(&self.storage, heap_address, offset, length)?;
        let heap_len = usize::try_from(heap.data_segment_size)
            .map_err(|_| H5Error::Damaged("a local heap is too large".to_owned()))?;
        let names = self
            .storage
            .read_range(heap.data_segment_address, heap_len)?;
        let leaves =
            collect_btree_v1_leaves_storage(&self.storage, tree, offset, length, None, &[], None)?;
        let mut found = Vec::new();
        for (_, node) in leaves {
            let prefix = self.storage.read_range(node, 8)?;
            let count = usize::from(u16::from_le_bytes([prefix[6], prefix[7]]));
            let entry_len = 2 * usize::from(offset) + 24;
            let bytes = self.storage.read_range(node, 8 + count * entry_len)?;
            let node = SymbolTableNode::parse(&mut Cursor::new(&bytes), offset, length)?;
            for entry in node.entries {
                let target = if entry.cache_type == 2 {
                    let [a, b, c, d, ..] = entry.scratch;
                    Target::Soft(heap_text(
                        &names,
                        u64::from(u32::from_le_bytes([a, b, c, d])),
                    )?)
                } else {
                    Target::Hard(entry.object_header_address)
                };
                let name = heap_text(&names, entry.link_name_offset)?;
                found.push(Link { name, target });
            }
        }
        Ok(found)
    }

    fn link_messages(&self, header: &Header) -> H5Result<Vec<Link>> {
        let mut found = Vec::new();
        for message in &header.messages {
            if message.kind == kind::LINK {
                found.push(self.link(header.body(message))?);
            }
        }
        let Some(message) = header.find(kind::LINK_INFO) else {
            return Ok(found);
        };
        let body = header.body(message);
        let (offset, length) = (self.offset_size, self.length_size);
        let info = link_info::parse(&mut Cursor::new(body), offset, length, body.len())?;
        if address(info.fractal_heap_address, offset).is_some() {
            self.dense_links(
                info.fractal_heap_address,
                info.btree_name_index_address,
                &mut found,
            )?;
        }
        Ok(found)
    }

    fn dense_links(&self, heap: u64, tree: u64, found: &mut Vec<Link>) -> H5Result<()> {
        let (offset, length) = (self.offset_size, self.length_size);
        let heap = FractalHeap::parse_at_storage(&self.storage, heap, offset, length)?;
        let tree = BTreeV2Header::parse_at_storage(&self.storage, tree, offset, length)?;
        let records = collect_btree_v2_records_storage(
            &self.storage,
            &tree,
            offset,
            length,
            None,
            &[],
            None,
        )?;
        let mut blocks = FractalHeapDirectBlockCache::default();
        for record in records {
            let BTreeV2Record::LinkNameHash { heap_id, .. } = record else {
                return damaged("a group's index of names holds something else");
            };
            let body = heap.get_object_storage_cached(
                &heap_id,
                &self.storage,
                offset,
                length,
                &mut blocks,
            )?;
            // The heap hands out copies, which one large block could multiply.
            self.storage.charge(body.len() as u64)?;
            found.push(self.link(&body)?);
        }
        Ok(())
    }

    fn link(&self, body: &[u8]) -> H5Result<Link> {
        let mut cursor = Cursor::new(body);
        let message = link::parse(&mut cursor, self.offset_size, self.length_size, body.len())?;
        Ok(Link {
            name: message.name,
            target: match message.target {
                LinkTarget::Hard { address } => Target::Hard(address),
                LinkTarget::Soft { path } => Target::Soft(path),
                LinkTarget::External { filename, path } => Target::External {
                    file: filename,
                    path,
                },
            },
        })
    }

    /// The object that a link of `group` leads to; `None` for a link to nowhere in a file that is
    /// there.
    pub(crate) fn follow(&self, group: &Object, target: &Target) -> H5Result<Option<Object>> {
        let at = Spot {
            file: group.file.clone(),
            address: group.address,
        };
        let Some(spot) = self.locate(at, target, 0)? else {
            return Ok(None);
        };
        let file = spot.file.as_deref().unwrap_or(self);
        let mut object = file.object(spot.address)?;
        object.file = spot.file;
        Ok(Some(object))
    }

    fn locate(&self, group: Spot, target: &Target, depth: u32) -> H5Result<Option<Spot>> {
        let here = group.file.clone();
        let file = here.as_deref().unwrap_or(self);
        let (mut at, path) = match target {
            Target::Hard(address) => {
                let file = group.file;
                return Ok(Some(Spot {
                    file,
                    address: *address,
                }));
            }
            Target::External { file: name, path } => {
                let other = file.place.family.hdf5(name, &file.place.path)?;
                let root = Spot {
                    address: other.root,
                    file: Some(other),
                };
                (root, path)
            }
            Target::Soft(path) if path.starts_with('/') => {
                let root = Spot {
                    address: file.root,
                    file: group.file,
                };
                (root, path)
            }
            Target::Soft(path) => (group, path),
        };
        if depth >= MAX_SOFT_DEPTH {
            return damaged(format!("soft links lead in a circle at `{path}`"));
        }
        for part in path
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
        {
            // Links of many parts that lead to links of many parts multiply.
            self.storage.charge(1)?;
            let file = at.file.as_deref().unwrap_or(self);
            let Some(links) = file.listing(at.address)? else {
                return Ok(None);
            };
            let Ok(found) =
                links.binary_search_by(|link| link.name.as_bytes().cmp(part.as_bytes()))
            else {
                return Ok(None);
            };
            match self.locate(at, &links[found].target, depth + 1)? {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// The links of the group at `address`, from memory if it was listed lately; `None` if it is
    /// not a group.
    fn listing(&self, address: u64) -> H5Result<Option<Arc<[Link]>>> {
        let lock = || {
            self.listings
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some((_, links)) = lock().iter().find(|(held, _)| *held == address) {
            return Ok(Some(Arc::clone(links)));
        }
        let object = self.object(address)?;
        if object.kind != ObjectKind::Group {
            return Ok(None);
        }
        let links: Arc<[Link]> = self.own_links(&object)?.into();
        let mut kept = lock();
        if kept.len() == KEPT_LISTINGS {
            kept.pop_front();
        }
        kept.push_back((address, Arc::clone(&links)));
        Ok(Some(links))
    }
}

pub(super) fn heap_text(heap: &[u8], offset: u64) -> H5Result<String> {
    let text = usize::try_from(offset)
        .ok()
        .and_then(|start| heap.get(start..))
        .and_then(|rest| {
            rest.split(|byte| *byte == 0)
                .next()
                .filter(|text| text.len() < rest.len())
        });
    let Some(text) = text else {
        return damaged("a name lies outside its heap");
    };
    match std::str::from_utf8(text) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => damaged(format!("the name {text:02x?} is not UTF-8")),
    }
}
