//! Decodes deflate streams, with and without a frame.

use flate2::{Decompress, FlushDecompress, Status};

/// Inflates a zlib stream; `state` is memory from the stream before.
pub(super) fn framed(
    input: &[u8],
    out: &mut [u8],
    state: &mut Option<Decompress>,
) -> Result<usize, String> {
    let inflate = state.get_or_insert_with(|| Decompress::new(true));
    inflate.reset(true);
    match inflate.decompress(input, out, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) => Ok(inflate.total_out() as usize),
        Ok(_) if inflate.total_out() as usize == out.len() => {
            Err(format!("it is longer than {} bytes", out.len()))
        }
        Ok(_) => Err("it ends too soon".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

/// Inflates a stream without a frame; its first `skipped` bytes are passed over.
pub(super) fn raw(
    input: &[u8],
    skipped: u32,
    out: &mut [u8],
    state: &mut Option<Decompress>,
) -> Result<usize, String> {
    let inflate = state.get_or_insert_with(|| Decompress::new(false));
    inflate.reset(false);
    let mut passed = [0; 512];
    let skipped = u64::from(skipped);
    while inflate.total_out() < skipped {
        let now = (skipped - inflate.total_out()).min(passed.len() as u64) as usize;
        let before = inflate.total_out();
        let rest = input.get(inflate.total_in() as usize..).unwrap_or_default();
        let status = inflate
            .decompress(rest, &mut passed[..now], FlushDecompress::None)
            .map_err(|e| e.to_string())?;
        let stuck = inflate.total_out() == before || status == Status::StreamEnd;
        if stuck && inflate.total_out() < skipped {
            return Err("it ends inside the header".to_owned());
        }
    }
    let rest = input.get(inflate.total_in() as usize..).unwrap_or_default();
    match inflate.decompress(rest, out, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) => Ok((inflate.total_out() - skipped) as usize),
        Ok(_) if inflate.total_out() - skipped == out.len() as u64 => {
            Err(format!("it is longer than {} bytes", out.len()))
        }
        Ok(_) => Err("it ends too soon".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}
