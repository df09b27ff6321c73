//! Records on standard input to a report on standard output, with its table on standard error:
//! `cargo run -p forebay-analysis --example report < records.jsonl > report.html`

use std::error::Error;
use std::io;

use forebay_analysis::report::{self, ReportOptions};
use forebay_analysis::{Run, table};

fn main() -> Result<(), Box<dyn Error>> {
    let run = Run::read(io::stdin().lock())?;
    let options = ReportOptions::default();
    eprint!("{}", table::epochs(&run.summary(&options.window, None)));
    print!("{}", report::render(&run, &options));
    Ok(())
}
