//! `seqsvr completion SHELL`.

use clap::CommandFactory;

use crate::cli::{Cli, Completion};
use crate::out;

pub(crate) fn run(args: &Completion) -> anyhow::Result<()> {
    // Printing it is ours: a reader that leaves is no panic.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "seqsvr", &mut script);
    out::line(String::from_utf8(script)?.trim_end())?;
    Ok(())
}
