//! Indexes files and says how long it took: `index_speed OUTPUT INPUT [RULE …]`.

use std::error::Error;
use std::path::PathBuf;

use forebay_indexer::{IndexRequest, index};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(output), Some(input)) = (args.next(), args.next()) else {
        return Err("usage: index_speed OUTPUT INPUT [RULE ...]".into());
    };
    let mut request = IndexRequest::new(vec![PathBuf::from(input)], PathBuf::from(output));
    request.samples = args.map(|rule| rule.parse()).collect::<Result<_, _>>()?;
    let summary = index(&request, &())?;
    let records = summary.samples * summary.fields.len() as u64;
    println!(
        "samples={} records={records} index_bytes={} seconds={:.3} us_per_record={:.2}",
        summary.samples,
        summary.index_bytes,
        summary.seconds,
        summary.seconds * 1e6 / records as f64,
    );
    Ok(())
}
