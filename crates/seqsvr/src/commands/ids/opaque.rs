//! `seqsvr hide` and `seqsvr show`.

use anyhow::bail;
use seqsvr_ids::InputError;
use seqsvr_ids::opaque_numbers::{OpaqueNumbers, OpaqueWidth};

use crate::cli::OpaqueArgs;
use crate::output::exit_code::BadInput;
use crate::output::stdout;
use crate::secret_file::read_secret_file;

/// Prints what `map`, which hides or shows, makes of each number.
pub(crate) fn run(
    args: &OpaqueArgs,
    map: impl Fn(&OpaqueNumbers, u64) -> Result<u64, InputError>,
) -> anyhow::Result<()> {
    let file = args.key_file.display();
    let (secret, open_mode) = read_secret_file("--key-file", &args.key_file)?;
    if let Some(mode) = open_mode {
        bail!(BadInput(format!(
            "--key-file {file}: every user of this machine may read or write it (mode {mode:04o}); make \
             a new key in a file of mode 0600, or run `chmod 600` on it as its owner"
        )));
    }
    let width = match &*args.bits {
        "53" => OpaqueWidth::Bits53,
        _ => OpaqueWidth::Bits64,
    };
    let opaque = OpaqueNumbers::new(&secret, &args.name, width)
        .map_err(|error| BadInput(format!("--key-file {file}: {error}")))?;
    // Nothing is printed if one of them is wrong.
    let mapped = args.numbers.iter().map(|number| map(&opaque, *number));
    let mapped: Result<Vec<u64>, _> = mapped.collect();
    mapped?.into_iter().try_for_each(stdout::print_line)?;
    Ok(())
}
