//! The command line of `seqsvr id next`.

use clap::Args;
use seqsvr_ids::text::IdForm;

use super::parse_form;
use crate::cli::common::ListArgs;

const NEXT_IDS_HELP: &str = "\
Each id is greater than those before it in the output, if ids of the family rise. Ids that were
printed before an error are valid, and no other caller gets them.

Examples:
  seqsvr id next
  seqsvr id next orders --count 1000 --form base62";

#[derive(Args)]
#[command(after_help = NEXT_IDS_HELP)]
pub(crate) struct NextIdsArgs {
    /// Name of the family.
    #[arg(default_value = "snowflake")]
    pub(crate) name: String,
    /// Ids to take, 1 to 1,000,000; printed one per line.
    ///
    /// Each part of 10,000 has the time of --timeout.
    #[arg(
        long,
        short = 'c',
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub(crate) count: u32,
    /// Form of the ids: dec, hex, base32 (Crockford), base36, base58 or base62.
    #[arg(long, default_value = "dec", value_parser = parse_form)]
    pub(crate) form: IdForm,
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::{CliCommand, CommandLine, IdCommand};

    #[test]
    fn count_and_family_are_bounded_and_have_defaults() {
        let parse = |flags: &str| {
            let line = format!("seqsvr id next {flags}");
            match CommandLine::try_parse_from(line.split_whitespace()).map(|line| line.command) {
                Ok(CliCommand::Id(IdCommand::Next(args))) => Some((args.name, args.count)),
                _ => None,
            }
        };
        assert_eq!(parse(""), Some(("snowflake".to_owned(), 1)));
        let most = Some(("orders".to_owned(), 1_000_000));
        assert_eq!(parse("orders -c 1000000 --form base58"), most);
        for bad in ["-c 0", "-c 1000001", "-c -1", "--form roman", "a b"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn decode_takes_a_family_or_another_scheme() {
        let parses = |flags: &str| {
            let line = format!("seqsvr decode 5 {flags}");
            CommandLine::try_parse_from(line.split_whitespace()).is_ok()
        };
        assert!(parses("--family orders --json") && parses("--preset twitter"));
        for other in ["--preset twitter", "--epoch 2026-01-01", "--layout time:41"] {
            assert!(!parses(&format!("--family orders {other}")), "{other}");
        }
    }
}
