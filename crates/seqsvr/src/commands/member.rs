//! `member list|add|remove|transfer`: lists and changes the StoreSvrs of a running cluster.

use seqsvr_proto::v1::StoreStatus;
use serde_json::{Value, json};

use super::cli_client::CliClient;
use crate::cli;
use crate::output::exit_code::BadInput;
use crate::output::stdout;

pub(crate) async fn run(command: cli::MemberCommand) -> anyhow::Result<()> {
    let (stores, json) = match command {
        cli::MemberCommand::List(args) => {
            let client = CliClient::connect(&args.client)?;
            (list_stores(&client).await?, args.json)
        }
        cli::MemberCommand::Add(args) => {
            let (id, address) = cli::parse_store_member(&args.store, "store")?;
            let client = CliClient::connect(&args.client)?;
            let admin = client.sdk.admin();
            (admin.add_member(id, &address).await?, args.json)
        }
        cli::MemberCommand::Remove(args) => {
            let client = CliClient::connect(&args.client)?;
            require_member(&list_stores(&client).await?, args.id)?;
            let admin = client.sdk.admin();
            (admin.remove_member(args.id).await?, args.json)
        }
        cli::MemberCommand::Transfer(args) => {
            let client = CliClient::connect(&args.client)?;
            if let Some(id) = args.id {
                require_member(&list_stores(&client).await?, id)?;
            }
            let admin = client.sdk.admin();
            admin.transfer_leader(args.id).await?;
            // Requested again: only the new leader has the progress of the others.
            (list_stores(&client).await?, args.json)
        }
    };
    print_stores(&stores, json)?;
    Ok(())
}

async fn list_stores(client: &CliClient) -> anyhow::Result<Vec<StoreStatus>> {
    Ok(client.sdk.admin().cluster_status().await?.stores)
}

/// Rejects an id that no member has. The store answers "removed" for such an id; in a command it
/// is a typing error.
fn require_member(stores: &[StoreStatus], id: u64) -> Result<(), BadInput> {
    if stores.iter().any(|s| s.id == id) {
        return Ok(());
    }
    let ids: Vec<String> = stores.iter().map(|s| s.id.to_string()).collect();
    Err(BadInput(format!(
        "store {id} is no member; the members are {}",
        ids.join(", ")
    )))
}

fn print_stores(stores: &[StoreStatus], json: bool) -> std::io::Result<()> {
    let leader = stores.iter().find(|s| s.leader);
    let leader_index = leader.map_or(0, |s| s.match_index);
    // 0: unknown to the store that answered.
    let lag = |s: &StoreStatus| {
        (s.match_index > 0 && leader_index > 0).then(|| leader_index.saturating_sub(s.match_index))
    };
    if json {
        for s in stores {
            stdout::print_json(store_json(s, lag(s)))?;
        }
        return Ok(());
    }
    let width = stores.iter().map(|s| s.address.len()).max().unwrap_or(0);
    let width = width.max("address".len());
    stdout::print_line(format_args!(
        "{:>4}  {:width$}  {:7}  {:>6}  last ack",
        "id", "address", "role", "lag"
    ))?;
    for s in stores {
        let lag = lag(s).map_or_else(|| "-".to_owned(), |lag| lag.to_string());
        let last_ack = match (s.leader, s.last_ack_age_ms) {
            (false, Some(ms)) => format!("{ms} ms ago"),
            _ => "-".to_owned(),
        };
        let (id, address, role) = (s.id, &s.address, role_name(s));
        stdout::print_line(format_args!(
            "{id:>4}  {address:width$}  {role:7}  {lag:>6}  {last_ack}"
        ))?;
    }
    Ok(())
}

pub(super) fn role_name(store: &StoreStatus) -> &'static str {
    match (store.leader, store.voter) {
        (true, _) => "leader",
        (false, true) => "voter",
        (false, false) => "learner",
    }
}

fn store_json(store: &StoreStatus, lag: Option<u64>) -> Value {
    json!({ "id": store.id, "address": store.address, "role": role_name(store), "lag": lag, "last_ack_age_ms": store.last_ack_age_ms })
}
