//! `member list|add|remove|transfer`: lists and changes the StoreSvrs of a running cluster.

use seqsvr_proto::v1::StoreStatus;
use serde_json::{Value, json};

use super::server::Session;
use crate::exit::BadInput;
use crate::{cli, out};

pub(crate) async fn run(command: cli::Member) -> anyhow::Result<()> {
    let (stores, json) = match command {
        cli::Member::List(args) => {
            let session = Session::open(&args.server)?;
            (list(&session).await?, args.json)
        }
        cli::Member::Add(args) => {
            let (id, address) = cli::store_at(&args.store, "store")?;
            let session = Session::open(&args.server)?;
            let admin = session.client.admin();
            (admin.add_member(id, &address).await?, args.json)
        }
        cli::Member::Remove(args) => {
            let session = Session::open(&args.server)?;
            known(&list(&session).await?, args.id)?;
            let admin = session.client.admin();
            (admin.remove_member(args.id).await?, args.json)
        }
        cli::Member::Transfer(args) => {
            let session = Session::open(&args.server)?;
            let admin = session.client.admin();
            admin.transfer_leader(args.id).await?;
            // Requested again: only the new leader has the progress of the others.
            (list(&session).await?, args.json)
        }
    };
    print(&stores, json)?;
    Ok(())
}

async fn list(session: &Session) -> anyhow::Result<Vec<StoreStatus>> {
    Ok(session.client.admin().cluster_status().await?.stores)
}

/// Rejects an id that no member has. The store answers "removed" for such an id; in a command it
/// is a typing error.
fn known(stores: &[StoreStatus], id: u64) -> Result<(), BadInput> {
    if stores.iter().any(|s| s.id == id) {
        return Ok(());
    }
    let ids: Vec<String> = stores.iter().map(|s| s.id.to_string()).collect();
    Err(BadInput(format!(
        "store {id} is no member; the members are {}",
        ids.join(", ")
    )))
}

fn print(stores: &[StoreStatus], json: bool) -> std::io::Result<()> {
    let leader = stores.iter().find(|s| s.leader);
    let last = leader.map_or(0, |s| s.matched);
    // 0: unknown to the store that answered.
    let lag = |s: &StoreStatus| (s.matched > 0 && last > 0).then(|| last.saturating_sub(s.matched));
    if json {
        for s in stores {
            out::line(object(s, lag(s)))?;
        }
        return Ok(());
    }
    let width = stores.iter().map(|s| s.address.len()).max().unwrap_or(0);
    let width = width.max("address".len());
    out::line(format_args!(
        "{:>4}  {:width$}  {:7}  {:>6}  heard",
        "id", "address", "role", "lag"
    ))?;
    for s in stores {
        let lag = lag(s).map_or_else(|| "-".to_owned(), |lag| lag.to_string());
        let heard = match (s.leader, s.heard_ms_ago) {
            (false, Some(ms)) => format!("{ms} ms ago"),
            _ => "-".to_owned(),
        };
        let (id, address, role) = (s.id, &s.address, role(s));
        out::line(format_args!(
            "{id:>4}  {address:width$}  {role:7}  {lag:>6}  {heard}"
        ))?;
    }
    Ok(())
}

fn role(store: &StoreStatus) -> &'static str {
    match (store.leader, store.voter) {
        (true, _) => "leader",
        (false, true) => "voter",
        (false, false) => "learner",
    }
}

fn object(store: &StoreStatus, lag: Option<u64>) -> Value {
    json!({ "id": store.id, "address": store.address, "role": role(store), "lag": lag, "heard_ms_ago": store.heard_ms_ago })
}
