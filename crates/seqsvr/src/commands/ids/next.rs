//! `seqsvr id next`.

use seqsvr_client::FamilyHandle;
use seqsvr_ids::text::IdForm;

use super::decoded_id::{DecodedId, Reading};
use crate::cli;
use crate::commands::cli_client::CliClient;
use crate::output::stdout;

/// Ids of one call. They are printed before the next call begins.
const PART_IDS: u32 = 10_000;

pub(crate) async fn run(args: cli::NextIdsArgs) -> anyhow::Result<()> {
    let client = CliClient::connect(&args.list.client)?;
    let family = client.sdk.family(&args.name).await?;
    let mut left = args.count;
    while left > 0 {
        let ids = family.many(left.min(PART_IDS)).await?;
        left -= ids.len() as u32;
        if args.list.json {
            for id in ids {
                describe(&family, args.form, id)?.print(true, None)?;
            }
        } else {
            stdout::print_lines(ids.iter().map(|id| Ok(args.form.format(*id))))?;
        }
    }
    Ok(())
}

/// Describes an id as `decode` does.
fn describe(family: &FamilyHandle, form: IdForm, id: u64) -> anyhow::Result<DecodedId> {
    let reading = family.decode(id)?;
    Ok(DecodedId {
        text: form.format(id),
        form: form.name(),
        id: id.to_string(),
        reading: Some(Reading::of_parts(family.scheme(), &reading, None)),
        ..DecodedId::default()
    })
}
