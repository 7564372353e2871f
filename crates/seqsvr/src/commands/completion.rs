//! `seqsvr completion SHELL`.

use clap::CommandFactory;

use crate::cli::{Cli, Completion};
use crate::out;

pub(crate) fn run(args: &Completion) -> anyhow::Result<()> {
    // clap_complete would panic if stdout is closed, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "seqsvr", &mut script);
    out::line(String::from_utf8(script)?.trim_end())?;
    Ok(())
}
