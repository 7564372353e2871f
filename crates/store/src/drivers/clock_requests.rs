//! Requests of the leader for the wall clocks of the other stores, once a second while the cluster
//! has families.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use seqsvr_core::command::Command;
use seqsvr_core::family::IdsCommand;
use seqsvr_core::layout::format_utc_ms;
use seqsvr_proto::v1::ClockRequest;
use seqsvr_proto::v1::store_client::StoreClient;
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;

use crate::context::StoreContext;
use crate::store_time::{LeaderView, NS_PER_MS, SuspectClocks};

/// Time between two requests to one store.
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time of a request. A later answer does not count: its middle is too uncertain.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(200);
/// Most time that the state's lags behind store time, so that a cluster that was off is noticed.
const RECORD_INTERVAL_MS: u64 = 3_600_000;

/// The other stores that vote, each with a channel.
type Channels = BTreeMap<(u64, String), StoreClient<Channel>>;

/// Requests until the store stops.
pub(crate) async fn run(context: Arc<StoreContext>) {
    let stop = context.stop.clone();
    let requesting = async {
        let (mut channels, mut logged) = (Channels::new(), None);
        loop {
            let is_requested = tokio::select! {
                () = context.store_time.wait_for_request() => true,
                () = sleep(REQUEST_INTERVAL) => false,
            };
            let has_families = context
                .node
                .with_state(|state| state.families().next().is_some());
            match context
                .leader_view()
                .filter(|_| has_families || is_requested)
            {
                Some(view) => {
                    request_clocks(&context, &view, &mut channels).await;
                    follow_time(&context, &view, &mut logged).await;
                }
                None => {
                    context.store_time.leave_term();
                    (channels, logged) = (Channels::new(), None);
                }
            }
        }
    };
    stop.run_until_cancelled(requesting).await;
}

async fn request_clocks(context: &StoreContext, view: &LeaderView, channels: &mut Channels) {
    let mut members = context.node.members();
    members.retain(|member| member.id != view.own_id && member.is_voter);
    let others = members.into_iter().filter_map(|member| {
        let key = (member.id, member.address);
        let channel = match channels.remove(&key) {
            Some(known) => known,
            None => StoreClient::new(context.node.new_channel(&key.1).ok()?),
        };
        Some((key, channel))
    });
    *channels = others.collect();
    let requests = channels.iter_mut().map(async |((id, _), store)| {
        let before = context.store_time.read_clock().boot_ns;
        let answer = timeout(REQUEST_TIMEOUT, store.clock(ClockRequest {})).await;
        // A store that does not answer is not counted; the agreement needs a majority.
        if let Ok(Ok(answer)) = answer {
            let after = context.store_time.read_clock().boot_ns;
            let unix_ns = answer.into_inner().unix_ns;
            let middle = before + after.saturating_sub(before) / 2;
            context.store_time.record_clock(*id, unix_ns, middle);
        }
    });
    join_all(requests).await;
}

/// Advances store time, records it from time to time, and logs once that the clocks are suspect.
async fn follow_time(
    context: &StoreContext,
    view: &LeaderView,
    logged: &mut Option<SuspectClocks>,
) {
    let time = context.store_time.read(view);
    let suspect = context.store_time.suspect();
    if suspect.is_some() != logged.is_some() {
        let store_time = format_utc_ms(time.unwrap_or(view.time.high_ms));
        match suspect {
            Some(suspect) => tracing::warn!(
                clocks = format_utc_ms(suspect.agreed_ns / NS_PER_MS),
                %store_time,
                grants = !suspect.stops_grants,
                "the clocks of the stores are not followed; correct them, or run `seqsvr id clock accept`"
            ),
            None => tracing::info!(%store_time, "the clocks of the stores are followed again"),
        }
        *logged = suspect;
    }
    let is_due = |now_ms: u64| now_ms.saturating_sub(view.time.high_ms) >= RECORD_INTERVAL_MS;
    if let Ok(now_ms) = time
        && is_due(now_ms)
    {
        let resets = view.time.resets;
        let time = Command::Ids(IdsCommand::AdvanceTime { now_ms, resets });
        // Another leader, or the next round, records it.
        let _ = context.propose(time).await;
    }
}
