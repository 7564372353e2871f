//! `seqsvr check FILE`.

use anyhow::bail;
use seqsvr_check::Error;

use crate::cli;
use crate::output::exit_code::unreadable_input;
use crate::output::stdout;

pub(crate) fn run(args: &cli::CheckArgs) -> anyhow::Result<()> {
    let report = match seqsvr_check::check_file(&args.file) {
        Err(Error::Open { path, source }) => {
            let name = path.display().to_string();
            let advice = "name a file that `seqsvr bench --history` wrote";
            return Err(unreadable_input(&name, &source, advice));
        }
        report => report?,
    };
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
