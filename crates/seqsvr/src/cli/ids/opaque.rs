//! The command line of `seqsvr hide` and `seqsvr show`.

use std::path::PathBuf;

use clap::Args;

pub(in crate::cli) const OPAQUE_HELP: &str = "\
A hidden number tells neither order nor volume to those who do not have the key. It is no
authentication: every number shows some number, so check who may see it as before.

The file has 64 hexadecimal digits, and every user of the machine may not read it:
  (umask 077; openssl rand -hex 32 > key)
  seqsvr hide 42 --key-file key --name orders

A hidden number of 64 bits may be above 2^63 - 1, which signed columns do not have: use --bits 53
for them. Keep the key: without it no hidden number can be shown, and another key shows another number.";

#[derive(Args)]
pub(crate) struct OpaqueArgs {
    /// Numbers, 0 to 2^64 - 1; at most 2^53 - 1 with --bits 53.
    #[arg(value_name = "NUMBER", required = true)]
    pub(crate) numbers: Vec<u64>,
    /// File with the key.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: PathBuf,
    /// Namespace of the numbers; the same number is hidden differently in each.
    #[arg(long, value_name = "NS", default_value = "default")]
    pub(crate) name: String,
    /// Width of hidden numbers; JavaScript reads those of 53 bits exactly.
    #[arg(long, default_value = "64", value_parser = ["64", "53"])]
    pub(crate) bits: String,
}
