//! Virtual data sets: which elements of which other data sets they show.

use super::cursor::Fields;
use super::dtype::{Type, byte_len};
use super::links::Target;
use super::messages::{self, Space};
use super::part::{Stack, Stored};
use super::read::{self, Heap};
use super::selection::{MAX_RUNS, Run, Selection, count, spans};
use super::{H5File, H5Result, Object, ObjectKind, Remedy, damaged, unsupported};

/// Virtual data sets that show virtual data sets; more is a circle.
const MAX_DEPTH: usize = 8;
/// Sources of one data set.
const MAX_SOURCES: u64 = 1 << 20;

/// Elements of another data set, and where they are shown.
struct Mapping {
    /// `.` is the file itself.
    file: String,
    dataset: String,
    source: Selection,
    shown: Selection,
}

/// A mapping whose source was found.
struct Source {
    stored: Stored,
    space: Space,
    /// Runs along the axes of the source, and of the virtual data set.
    from: Vec<Vec<Run>>,
    to: Vec<Vec<Run>>,
}

/// How a data set is going to be used.
#[derive(Clone, Copy)]
pub(super) struct Use {
    /// Each row is a sample, so rows may lie in different files.
    pub(super) by_rows: bool,
    /// Virtual data sets passed so far.
    pub(super) depth: usize,
}

impl H5File {
    /// Where the elements of a virtual data set lie. `at` and `number` are its object in the heap,
    /// `fill` is what is shown where no source is.
    pub(super) fn virtual_data(
        &self,
        (at, number): (u64, u32),
        element: &Type,
        space: &Space,
        fill: &[u8],
        wanted: Use,
    ) -> H5Result<Stored> {
        if wanted.depth >= MAX_DEPTH {
            return damaged("virtual data sets lead in a circle");
        }
        let mut heap = Heap::default();
        let mappings = mappings(heap.object(self, at, number)?, self.length_size)?;
        let mut sources = Vec::new();
        for mapping in &mappings {
            sources.extend(self.source(mapping, element, space, wanted)?);
        }
        if let [source] = &sources[..]
            && source.space.dims == space.dims
            && covers(&source.to, &space.dims)
            && covers(&source.from, &space.dims)
            && let Some(source) = sources.pop()
        {
            return Ok(source.stored);
        }
        if wanted.by_rows && sources.iter().all(|source| source.stacks(space)) {
            return stacked(sources, space);
        }
        self.must_decode("a virtual data set of several sources or of parts of one")?;
        self.decoded(&sources, element, space, fill)
    }

    fn source(
        &self,
        mapping: &Mapping,
        element: &Type,
        space: &Space,
        wanted: Use,
    ) -> H5Result<Option<Source>> {
        let other = match mapping.file.as_str() {
            "." => None,
            name => Some(self.place.family.hdf5(name, &self.place.path)?),
        };
        let file = other.as_deref().unwrap_or(self);
        let root = file.object(file.root())?;
        let found = file.follow(&root, &Target::Soft(format!("/{}", mapping.dataset)))?;
        let Some(object) = found.filter(|object| object.kind == ObjectKind::Dataset) else {
            let path = file.place.path.display();
            return damaged(format!(
                "its source `{}` of `{path}` is not there",
                mapping.dataset
            ));
        };
        let holder = file.of(&object);
        let (kind, source_space) = holder.shape(&object)?;
        if kind != *element {
            return unsupported(
                "a virtual data set whose source has another type",
                Remedy::Convert,
            );
        }
        let (from, to) = (
            mapping.source.runs(&source_space.dims)?,
            mapping.shown.runs(&space.dims)?,
        );
        let (Some(from), Some(to)) = (from, to) else {
            return Ok(None);
        };
        if count(&from) != count(&to) {
            return damaged("it shows another number of elements than its source has");
        }
        let below = Use {
            depth: wanted.depth + 1,
            // A part of a part would be one row in two files.
            by_rows: false,
        };
        Ok(Some(Source {
            stored: holder.stored(&object, &kind, &source_space, below)?,
            space: source_space,
            from,
            to,
        }))
    }

    fn decoded(
        &self,
        sources: &[Source],
        element: &Type,
        space: &Space,
        fill: &[u8],
    ) -> H5Result<Stored> {
        let Ok(size) = u16::try_from(element.size) else {
            return unsupported(
                format!("elements of {} bytes", element.size),
                Remedy::Convert,
            );
        };
        let len = byte_len(&space.dims, size)?;
        self.place.family.charge_decoded(len)?;
        // Bounded by what may be decoded.
        let mut bytes = vec![0; len as usize];
        if !fill.is_empty() {
            for element in bytes.chunks_exact_mut(fill.len()) {
                element.copy_from_slice(fill);
            }
        }
        let size = usize::from(size);
        for source in sources {
            let whole = source.stored.whole(element, &source.space)?;
            let from = read::bytes(&self.place.family, &whole)?;
            let mut picked = spans(&source.from, &source.space.dims)?
                .into_iter()
                .flat_map(|(at, len)| &from[at as usize * size..][..len as usize * size]);
            for (at, len) in spans(&source.to, &space.dims)? {
                let to = &mut bytes[at as usize * size..][..len as usize * size];
                for (to, from) in to.iter_mut().zip(&mut picked) {
                    *to = *from;
                }
            }
        }
        Ok(Stored::Decoded { bytes })
    }

    /// Type and shape of a data set.
    pub(super) fn shape(&self, object: &Object) -> H5Result<(Type, Space)> {
        use super::header::kind;
        let header = &object.header;
        let element = Type::parse(&self.required(header, kind::DATATYPE, "data type")?)?;
        let body = self.required(header, kind::DATASPACE, "data space")?;
        Ok((element, messages::space(&body, self.length_size)?))
    }
}

/// Whether runs are all of an array.
fn covers(runs: &[Vec<Run>], dims: &[u64]) -> bool {
    runs.len() == dims.len()
        && runs
            .iter()
            .zip(dims)
            .all(|(runs, dim)| *runs == [(0, *dim)])
}

impl Source {
    /// Whether it is whole rows of the virtual data set, from whole rows of its source, or one
    /// row that is all of its source.
    fn stacks(&self, space: &Space) -> bool {
        let ([rows], Some((_, inner))) = (&self.to[0][..], space.dims.split_first()) else {
            return false;
        };
        if !covers(&self.to[1..], inner) {
            return false;
        }
        if self.space.dims == inner {
            return rows.1 - rows.0 == 1 && covers(&self.from, inner);
        }
        self.space.dims.get(1..) == Some(inner)
            && self.from[0].len() == 1
            && covers(&self.from[1..], inner)
    }
}

/// Rows of sources, one after the other, without a gap.
fn stacked(mut sources: Vec<Source>, space: &Space) -> H5Result<Stored> {
    sources.sort_by_key(|source| source.to[0][0]);
    let mut next = 0;
    let mut stack = Vec::with_capacity(sources.len());
    for source in sources {
        let (first_row, end) = source.to[0][0];
        if first_row != next {
            return unsupported(
                format!("a virtual data set without a source for row {next}"),
                Remedy::Flatten,
            );
        }
        next = end;
        let one_row = source.space.dims.len() < space.dims.len();
        stack.push(Stack {
            first_row,
            from_row: if one_row {
                None
            } else {
                Some(source.from[0][0].0)
            },
            stored: source.stored,
            space: source.space,
        });
    }
    if Some(&next) != space.dims.first() {
        return unsupported(
            format!("a virtual data set without a source for row {next}"),
            Remedy::Flatten,
        );
    }
    Ok(Stored::Stacked(stack))
}

/// Reads the list of sources.
fn mappings(body: &[u8], length_size: u8) -> H5Result<Vec<Mapping>> {
    const FILE_OF_ANOTHER: u8 = 1;
    const NAME_OF_ANOTHER: u8 = 2;
    const SAME_FILE: u8 = 4;
    let Some((content, _checksum)) = body.split_last_chunk::<4>() else {
        return damaged("its list of sources is too short");
    };
    let mut fields = Fields::new(content, "list of sources");
    let version = fields.u8()?;
    if version > 1 {
        return unsupported(
            format!("version {version} of virtual data sets"),
            Remedy::Convert,
        );
    }
    let count = fields.uint(length_size)?;
    if count > MAX_SOURCES {
        return unsupported(
            format!("a virtual data set of {count} sources"),
            Remedy::Convert,
        );
    }
    let (mut found, mut left): (Vec<Mapping>, usize) = (Vec::new(), MAX_RUNS);
    for _ in 0..count {
        let flags = if version == 0 { 0 } else { fields.u8()? };
        let another = |found: &[Mapping], fields: &mut Fields<'_>| {
            let number = fields.uint(length_size)? as usize;
            match found.get(number) {
                Some(mapping) => Ok((mapping.file.clone(), mapping.dataset.clone())),
                None => damaged(format!("a source is named like number {number}")),
            }
        };
        let file = if flags & SAME_FILE != 0 {
            ".".to_owned()
        } else if flags & FILE_OF_ANOTHER != 0 {
            another(&found, &mut fields)?.0
        } else {
            text(&mut fields)?
        };
        let dataset = if flags & NAME_OF_ANOTHER != 0 {
            another(&found, &mut fields)?.1
        } else {
            text(&mut fields)?
        };
        found.push(Mapping {
            file,
            dataset,
            source: Selection::parse(&mut fields, &mut left)?,
            shown: Selection::parse(&mut fields, &mut left)?,
        });
    }
    Ok(found)
}

fn text(fields: &mut Fields<'_>) -> H5Result<String> {
    match std::str::from_utf8(fields.text()?) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => damaged("a source has a name that is not UTF-8"),
    }
}
