//! `seqsvr check FILE`.

use anyhow::bail;

use crate::cli;
use crate::output::stdout;

pub(crate) fn run(args: &cli::CheckArgs) -> anyhow::Result<()> {
    let report = seqsvr_check::check_file(&args.file)?;
    stdout::print_text(&report)?;
    if !report.is_ok() {
        bail!(
            "the calls in {} break the guarantees: {} violations; see the report on stdout",
            args.file.display(),
            report.violations_total()
        );
    }
    if report.answered_calls() == 0 {
        bail!(
            "{} has no answered call, so it proves nothing; record calls that succeed",
            args.file.display()
        );
    }
    Ok(())
}
