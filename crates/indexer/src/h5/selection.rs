//! Selections of elements, as virtual data sets hold them.

use super::cursor::Fields;
use super::{H5Result, Remedy, damaged, unsupported};

/// Runs of indexes that the selections of one data set have together; more is not a data set that
/// anyone makes.
pub(super) const MAX_RUNS: usize = 1 << 20;
/// Pieces that a selection has in its array.
const MAX_SPANS: usize = 1 << 22;

/// A half-open run of indexes along one axis.
pub(super) type Run = (u64, u64);

/// Elements of an array: of some runs along each axis, all combinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    All,
    None,
    /// For each axis its runs, in order.
    Runs(Vec<Vec<Run>>),
}

impl Selection {
    /// The runs along each axis of an array of shape `dims`; `None` if nothing is selected.
    pub(super) fn runs(&self, dims: &[u64]) -> H5Result<Option<Vec<Vec<Run>>>> {
        let runs = match self {
            Self::None => return Ok(None),
            Self::All => dims.iter().map(|dim| vec![(0, *dim)]).collect(),
            Self::Runs(runs) => runs.clone(),
        };
        let inside = |(runs, dim): (&Vec<Run>, &u64)| runs.iter().all(|(_, end)| end <= dim);
        if runs.len() != dims.len() || !runs.iter().zip(dims).all(inside) {
            return damaged(format!("it selects elements outside of the shape {dims:?}"));
        }
        Ok(Some(runs))
    }

    /// Reads a selection. Its runs are taken from `left`.
    pub(super) fn parse(fields: &mut Fields<'_>, left: &mut usize) -> H5Result<Self> {
        let (kind, version) = (fields.u32()?, fields.u32()?);
        match kind {
            0 | 3 => {
                fields.skip(8)?;
                Ok(if kind == 0 { Self::None } else { Self::All })
            }
            2 => hyperslab(fields, version, left),
            _ => unsupported("a virtual data set of single points", Remedy::Convert),
        }
    }
}

fn hyperslab(fields: &mut Fields<'_>, version: u32, left: &mut usize) -> H5Result<Selection> {
    const REGULAR: u8 = 1;
    let (flags, width) = match version {
        1 => {
            fields.skip(8)?;
            (0, 4)
        }
        2 => {
            let flags = fields.u8()?;
            fields.skip(4)?;
            (flags, 8)
        }
        3 => (fields.u8()?, fields.u8()?),
        _ => return unsupported(format!("version {version} of selections"), Remedy::Convert),
    };
    let rank = fields.u32()? as usize;
    if rank == 0 || rank > 32 {
        return damaged(format!("a selection has {rank} axes"));
    }
    if flags & REGULAR != 0 {
        let axes = (0..rank).map(|_| regular(fields, width, left));
        return Ok(Selection::Runs(axes.collect::<H5Result<_>>()?));
    }
    blocks(fields, rank, width, left)
}

/// Start, stride, count and block along one axis.
fn regular(fields: &mut Fields<'_>, width: u8, left: &mut usize) -> H5Result<Vec<Run>> {
    let mut next = || fields.uint(width);
    let (start, stride, count, block) = (next()?, next()?, next()?, next()?);
    let unlimited = u64::MAX >> (64 - 8 * u32::from(width));
    if count == unlimited || block == unlimited {
        return unsupported(
            "a virtual data set that grows with its sources",
            Remedy::Convert,
        );
    }
    take(left, count)?;
    let mut runs: Vec<Run> = Vec::new();
    for n in 0..count {
        let from = n
            .checked_mul(stride)
            .and_then(|skip| start.checked_add(skip));
        let Some((from, end)) = from.and_then(|from| Some((from, from.checked_add(block)?))) else {
            return damaged("a selection ends beyond any array");
        };
        match runs.last_mut() {
            Some(last) if last.1 == from => last.1 = end,
            Some(last) if last.1 > from => return damaged("a selection runs over itself"),
            _ => runs.push((from, end)),
        }
    }
    Ok(runs)
}

/// Blocks by their corners, which have to be all combinations of some runs.
fn blocks(
    fields: &mut Fields<'_>,
    rank: usize,
    width: u8,
    left: &mut usize,
) -> H5Result<Selection> {
    let count = fields.uint(width)?;
    take(left, count)?;
    let count = count as usize;
    let mut axes: Vec<Vec<Run>> = vec![Vec::new(); rank];
    for _ in 0..count {
        let mut corner = || {
            (0..rank)
                .map(|_| fields.uint(width))
                .collect::<H5Result<Vec<_>>>()
        };
        let (starts, ends) = (corner()?, corner()?);
        for (axis, runs) in axes.iter_mut().enumerate() {
            match ends[axis].checked_add(1).filter(|end| starts[axis] < *end) {
                Some(end) => runs.push((starts[axis], end)),
                None => return damaged("a selection ends before it starts"),
            }
        }
    }
    for runs in &mut axes {
        runs.sort_unstable();
        runs.dedup();
    }
    let product: usize = axes.iter().map(Vec::len).fold(1, usize::saturating_mul);
    let apart = |runs: &Vec<Run>| runs.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    if product != count || !axes.iter().all(apart) {
        return unsupported("a virtual data set of scattered blocks", Remedy::Convert);
    }
    Ok(Selection::Runs(axes))
}

fn take(left: &mut usize, count: u64) -> H5Result<()> {
    let rest = usize::try_from(count)
        .ok()
        .and_then(|count| left.checked_sub(count));
    let Some(rest) = rest else {
        return unsupported(
            format!("a virtual data set of over {MAX_RUNS} pieces"),
            Remedy::Convert,
        );
    };
    *left = rest;
    Ok(())
}

/// Elements that runs along each axis select together, or `None` past 64 bits.
pub(super) fn count(runs: &[Vec<Run>]) -> Option<u64> {
    runs.iter().try_fold(1_u64, |all, runs| {
        let along = runs
            .iter()
            .try_fold(0_u64, |sum, (start, end)| sum.checked_add(end - start))?;
        all.checked_mul(along)
    })
}

/// Runs of elements that lie side by side in an array of shape `dims`, row-major, in order: first
/// element and how many.
pub(super) fn spans(runs: &[Vec<Run>], dims: &[u64]) -> H5Result<Vec<(u64, u64)>> {
    let mut spans = vec![(0, 1)];
    // From the last axis on, each axis repeats what lies behind it.
    let mut stride = 1_u64;
    for (runs, dim) in runs.iter().zip(dims).rev() {
        let whole = spans == [(0, stride)];
        let mut wider = Vec::new();
        for (start, end) in runs {
            if whole {
                wider.push((start * stride, (end - start) * stride));
            } else {
                let more = (end - start).saturating_mul(spans.len() as u64);
                take(&mut (MAX_SPANS - wider.len().min(MAX_SPANS)), more)?;
                for index in *start..*end {
                    wider.extend(spans.iter().map(|(at, len)| (index * stride + at, *len)));
                }
            }
        }
        spans = wider;
        stride = stride.saturating_mul(*dim);
    }
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_the_elements_in_order() {
        let dims = [3, 4, 5];
        for runs in [
            vec![vec![(0, 3)], vec![(0, 4)], vec![(0, 5)]],
            vec![vec![(1, 2)], vec![(0, 4)], vec![(0, 5)]],
            vec![vec![(0, 2)], vec![(1, 3)], vec![(0, 5)]],
            vec![
                vec![(0, 1), (2, 3)],
                vec![(0, 1), (2, 4)],
                vec![(1, 3), (4, 5)],
            ],
        ] {
            let mut wanted = Vec::new();
            let inside = |axis: usize, at: u64| runs[axis].iter().any(|r| (r.0..r.1).contains(&at));
            for at in 0..60_u64 {
                if inside(0, at / 20) && inside(1, at / 5 % 4) && inside(2, at % 5) {
                    wanted.push(at);
                }
            }
            let spans = spans(&runs, &dims).unwrap();
            let found: Vec<u64> = spans.iter().flat_map(|(at, len)| *at..at + len).collect();
            assert_eq!(found, wanted);
            assert_eq!(count(&runs), Some(wanted.len() as u64));
        }
    }
}
