//! `seqsvr completion SHELL`.

use clap::CommandFactory;

use crate::cli::{CommandLine, CompletionArgs};
use crate::output::stdout;

pub(crate) fn run(args: &CompletionArgs) -> anyhow::Result<()> {
    // clap_complete would panic if stdout is closed, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut CommandLine::command(),
        "seqsvr",
        &mut script,
    );
    stdout::print_text(String::from_utf8(script)?.trim_end())?;
    Ok(())
}
